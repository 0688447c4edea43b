//! The cells of a world: a map from text to bytes, kept as a Merkle tree in the content store.
//!
//! Reads go through what was written since the tree was last made, then to the tree, whose nodes are
//! loaded when they are needed: a world with a million cells opens without reading one. The same content
//! has the same root, whatever the order of edits (`docs/adr/0002-cells.md`).

mod diff;
mod edit;
mod node;
mod reader;
mod walk;

#[cfg(test)]
mod tests;

pub use diff::{Diff, Difference};
pub use node::Stored;

use crate::{
    objects::{LoadError, Object, Objects},
    undo::{Mark, UndoMap},
};
use mundi_model::{Hash, limits};
use reader::{NodeCache, Reader};
use std::{collections::BTreeMap, ops::Bound, sync::Arc};
use walk::{Range, Walk};

/// Cells with a write-back overlay.
#[derive(Debug)]
pub struct Cells {
    root: Option<Hash>,
    /// What was written since the tree was made; `None` is a deleted cell.
    overlay: UndoMap<String, Option<Vec<u8>>>,
    /// Objects that the tree needs and that no one has confirmed to be stored.
    unsaved: BTreeMap<Hash, Arc<[u8]>>,
    cache: NodeCache,
}

impl Cells {
    /// The cells under a root; `None` is the root of no cells. Reads nothing.
    pub fn open(root: Option<Hash>) -> Self {
        Self { root, overlay: UndoMap::new(BTreeMap::new()), unsaved: BTreeMap::new(), cache: NodeCache::default() }
    }

    fn reader<'a>(&'a self, objects: &'a dyn Objects) -> Reader<'a> {
        Reader { objects, unsaved: &self.unsaved, cache: &self.cache }
    }

    pub fn get(&self, objects: &dyn Objects, key: &str) -> Result<Option<Vec<u8>>, LoadError> {
        match self.overlay.map().get(key) {
            Some(value) => Ok(value.clone()),
            None => self.reader(objects).get(self.root, key),
        }
    }

    /// The bounds of keys and values are the caller's to keep.
    pub fn put(&mut self, key: &str, value: Vec<u8>) {
        self.overlay.insert(key.to_owned(), Some(value));
    }

    pub fn delete(&mut self, key: &str) {
        self.overlay.insert(key.to_owned(), None);
    }

    /// Cells under a prefix, after a key, in key order: at most `items_max`, and at most about
    /// [`limits::SCAN_BYTES_MAX`] of keys and values.
    pub fn scan(
        &self,
        objects: &dyn Objects,
        prefix: &str,
        after: Option<&str>,
        items_max: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, LoadError> {
        let reader = self.reader(objects);
        let mut stored = Range::new(Walk::new(reader, self.root), prefix, after);
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let written = self.overlay.map().range::<str, _>((start, Bound::Unbounded));
        let mut written = written.take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let mut next_stored = stored.next()?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while found.len() < items_max && bytes < limits::SCAN_BYTES_MAX {
            let comes_first = match (&next_stored, written.peek()) {
                (None, None) => break,
                (Some((stored, _)), Some((written, _))) => stored.as_slice().cmp(written.as_bytes()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
            };
            let cell = if comes_first.is_lt() {
                let Some((key, value)) = next_stored.take() else { break };
                Some((utf8(self.root, key)?, reader.value(&value)?))
            } else {
                written.next().and_then(|(key, value)| Some((key.clone(), value.clone()?)))
            };
            if comes_first.is_le() {
                next_stored = stored.next()?;
            }
            if let Some((key, value)) = cell {
                bytes += key.len() + value.len();
                found.push((key, value));
            }
        }
        Ok(found)
    }

    /// How many cells there are. The overlay must have been made part of the tree.
    pub fn count(&self, objects: &dyn Objects) -> Result<u64, LoadError> {
        self.root.map_or(Ok(0), |root| Ok(self.reader(objects).node(&root)?.cells()))
    }

    /// Makes the tree of what was written and returns its root. Nodes that are new stay in memory until
    /// [`Cells::saved`] says that they are stored. There is no way back behind this.
    pub fn flush(&mut self, objects: &dyn Objects) -> Result<Option<Hash>, LoadError> {
        if self.overlay.map().is_empty() {
            return Ok(self.root);
        }
        let of = |value: &Option<Vec<u8>>| value.as_deref().map(Stored::of);
        let changes = self.overlay.map().iter().map(|(key, value)| (key.as_str(), of(value))).collect();
        let (root, nodes) = edit::Editor::apply(self.reader(objects), self.root, &changes)?;
        self.root = root;
        let blobs = self.overlay.take().into_values().flatten();
        let blobs = blobs.filter(|value| value.len() > limits::CELL_INLINE_BYTES_MAX);
        self.unsaved.extend(nodes);
        self.unsaved.extend(blobs.map(|value| (Hash::of(&value), value.into())));
        Ok(self.root)
    }

    /// The objects that must be stored before a snapshot may name the root.
    pub fn unsaved(&self) -> impl Iterator<Item = Object> + '_ {
        self.unsaved.iter().map(|(hash, bytes)| (*hash, bytes.clone()))
    }

    /// These objects are stored; from now on they are read from there.
    pub fn saved<'h>(&mut self, hashes: impl IntoIterator<Item = &'h Hash>) {
        for hash in hashes {
            self.unsaved.remove(hash);
        }
    }

    /// How many cells were written since the tree was made.
    pub(crate) fn written(&self) -> usize {
        self.overlay.map().len()
    }

    pub(crate) fn mark(&self) -> Mark {
        self.overlay.mark()
    }

    pub(crate) fn undo_to(&mut self, mark: Mark) {
        self.overlay.undo_to(mark);
    }

    pub(crate) fn keep(&mut self) {
        self.overlay.keep();
    }

    /// The cells that were written since a mark, with what they hold now.
    pub(crate) fn written_since(&self, mark: Mark) -> impl ExactSizeIterator<Item = (&str, Option<&[u8]>)> {
        let value = |key: &String| self.overlay.map().get(key).and_then(Option::as_deref);
        self.overlay.changed_since(mark).into_iter().map(move |key| (key.as_str(), value(key)))
    }
}

fn utf8(root: Option<Hash>, key: Vec<u8>) -> Result<String, LoadError> {
    let root = root.unwrap_or(Hash::from_bytes([0; 32]));
    String::from_utf8(key).map_err(|_| LoadError::corrupt(root, "a key is not text"))
}

/// The differing cells of two trees, in key order. Opens only what differs.
pub fn diff<T>(objects: &dyn Objects, left: Option<Hash>, right: Option<Hash>, visit: impl FnOnce(Diff<'_>) -> T) -> T {
    let (unsaved, cache) = (BTreeMap::new(), NodeCache::default());
    let reader = Reader { objects, unsaved: &unsaved, cache: &cache };
    visit(Diff::new(Walk::new(reader, left), Walk::new(reader, right)))
}

/// The objects that a stored node refers to, so that reachability can be walked without knowing cells.
pub fn references(hash: &Hash, bytes: &[u8]) -> Result<Vec<Hash>, LoadError> {
    Ok(node::Node::decode(hash, bytes)?.references())
}
