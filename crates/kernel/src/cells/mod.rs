//! The cells of a world: a map from text to bytes, kept as a Merkle tree in the content store.
//!
//! Reads go through what was written since the tree was last made, then to the tree, whose nodes are
//! loaded when they are needed: a world with a million cells opens without reading one. The same content
//! has the same root, whatever the order of edits (`docs/internals/adr/0002-cells.md`).

mod diff;
mod edit;
mod node;
mod reader;
mod scan;
mod walk;

#[cfg(test)]
mod tests;

pub use diff::{Diff, Difference};
pub use node::Stored;
pub use scan::Entry;

use crate::{
    objects::{LoadError, Object, Objects},
    undo::{Mark, UndoMap},
};
use mundi_model::{Hash, limits};
use node::Node;
use reader::{NodeCache, Reader};
use scan::Scan;
use std::{collections::BTreeMap, ops::Bound, sync::Arc};
use walk::{Range, Walk};

/// Cells with a write-back overlay.
#[derive(Debug)]
pub struct Cells {
    root: Option<Hash>,
    /// The cells that were written since the tree was made; `None` is a deleted cell.
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
    ) -> Result<Vec<Entry>, LoadError> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let written = self.overlay.map().range::<str, _>((start, Bound::Unbounded));
        let written = written.take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let reader = self.reader(objects);
        let stored = Range::new(Walk::new(reader, self.root), prefix, after);
        Scan { reader, stored, written }.collect(items_max)
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
        let superseded_possible = !self.unsaved.is_empty();
        let blobs = self.overlay.take().into_values().flatten();
        let blobs = blobs.filter(|value| value.len() > limits::CELL_INLINE_BYTES_MAX);
        self.unsaved.extend(nodes);
        self.unsaved.extend(blobs.map(|value| (Hash::of(&value), value.into())));
        if superseded_possible {
            self.forget_superseded();
        }
        Ok(self.root)
    }

    /// Drops objects that were made for an earlier root and never stored. What is stored refers only to
    /// what is stored, so the walk ends there.
    fn forget_superseded(&mut self) {
        let mut needed = BTreeMap::new();
        let mut next: Vec<Hash> = self.root.into_iter().collect();
        while let Some(hash) = next.pop() {
            let Some(bytes) = self.unsaved.remove(&hash) else { continue };
            next.extend(Node::decode(&hash, &bytes).map_or(Vec::new(), |node| node.references()));
            needed.insert(hash, bytes);
        }
        self.unsaved = needed;
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

    /// Makes the tree of what was written when there is much of it: a scan passes over deleted cells one by
    /// one as long as they are only marked. Nothing that a program sees depends on when this happens.
    pub(crate) fn settle(&mut self, objects: &dyn Objects) -> Result<(), LoadError> {
        if self.overlay.map().len() > limits::UNSETTLED_CELLS_MAX {
            self.flush(objects)?;
        }
        Ok(())
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

/// The differing cells of two trees, in key order. Opens only what differs.
pub fn diff<T>(objects: &dyn Objects, left: Option<Hash>, right: Option<Hash>, visit: impl FnOnce(Diff<'_>) -> T) -> T {
    let (unsaved, cache) = (BTreeMap::new(), NodeCache::default());
    let reader = Reader { objects, unsaved: &unsaved, cache: &cache };
    visit(Diff::new(Walk::new(reader, left), Walk::new(reader, right)))
}

/// The objects that a stored node refers to, so that reachability can be walked without knowing cells.
pub fn references(hash: &Hash, bytes: &[u8]) -> Result<Vec<Hash>, LoadError> {
    Ok(Node::decode(hash, bytes)?.references())
}

/// The references of a stored node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Nodes below it.
    pub nodes: Vec<Hash>,
    /// Values that are objects of their own.
    pub values: Vec<Hash>,
}

/// The same, with nodes and values distinguished: for whoever walks a tree to prove that it is whole.
pub fn parts(hash: &Hash, bytes: &[u8]) -> Result<Parts, LoadError> {
    let node = Node::decode(hash, bytes)?;
    let nodes: Vec<Hash> = match &node {
        Node::Leaf(_) => Vec::new(),
        Node::Branch(branch) => branch.children.iter().map(|child| child.hash).collect(),
    };
    let values = node.references().into_iter().filter(|hash| !nodes.contains(hash)).collect();
    Ok(Parts { nodes, values })
}
