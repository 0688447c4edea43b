//! Writing the cell tree: one pass applies a sorted batch of changes and makes only the nodes that changed.
//!
//! The shape of a set of cells follows from the set alone: at most [`limits::CELL_LEAF_BYTES_MAX`] is a
//! leaf, more is a branch at the end of what all keys share. Each step below restores that rule from its
//! parts, so the same content has the same root, whatever the order of edits.

use super::{
    node::{Branch, Cell, Child, Node, Stored},
    reader::Reader,
};
use crate::objects::{LoadError, Object};
use mundi_model::{Hash, cbor, limits};
use std::collections::{BTreeMap, BTreeSet};

/// A change of one cell: its key below the node at hand, and its new value or its end.
type Change<'c> = (&'c [u8], Option<&'c Stored>);

/// The cells below a path, before it is known whether they stand in a node of their own.
enum Subtree {
    /// Light enough for one leaf, perhaps together with its neighbours.
    Light(Vec<Cell>),
    /// Stored already.
    Kept(Child),
    /// Too heavy for a leaf.
    Heavy(Branch),
}

pub(crate) struct Editor<'a> {
    reader: Reader<'a>,
    root: Option<Hash>,
    /// Nodes that were read, so that one that comes out as it was is not written again.
    read: BTreeSet<Hash>,
    written: Vec<Object>,
}

impl<'a> Editor<'a> {
    /// The root after the changes, and the nodes that are new.
    pub(crate) fn apply(
        reader: Reader<'a>,
        root: Option<Hash>,
        changes: &BTreeMap<&str, Option<Stored>>,
    ) -> Result<(Option<Hash>, Vec<Object>), LoadError> {
        let mut editor = Self { reader, root, read: BTreeSet::new(), written: Vec::new() };
        let changes: Vec<Change<'_>> = changes.iter().map(|(key, value)| (key.as_bytes(), value.as_ref())).collect();
        let root = match root {
            Some(hash) => editor.edit(&hash, 0, &changes)?,
            None => editor.grow(put_into(Vec::new(), &changes), 0)?,
        };
        let root = editor.write(root, 0);
        Ok((root.map(|child| child.hash), editor.written))
    }

    /// `depth` is the length of the path to this node.
    fn edit(&mut self, hash: &Hash, depth: usize, changes: &[Change<'_>]) -> Result<Subtree, LoadError> {
        let node = self.reader.node(hash)?;
        self.read.insert(*hash);
        match &*node {
            Node::Leaf(cells) => self.grow(put_into(cells.clone(), changes), depth),
            Node::Branch(branch) => self.edit_branch(branch, depth, changes),
        }
    }

    fn edit_branch(&mut self, branch: &Branch, depth: usize, changes: &[Change<'_>]) -> Result<Subtree, LoadError> {
        // A key that leaves the shared part early splits the branch there.
        let shared_len = changes
            .iter()
            .filter(|(_, value)| value.is_some())
            .map(|(key, _)| common_len(key, &branch.shared))
            .fold(branch.shared.len(), usize::min);
        let (mut own, mut children) = opened(branch, shared_len);
        let shared = &branch.shared[..shared_len];

        let below = changes.iter().filter_map(|(key, value)| Some((key.strip_prefix(shared)?, *value)));
        let below: Vec<Change<'_>> = below.collect();
        for group in below.chunk_by(|(a, _), (b, _)| a.first() == b.first()) {
            let (key, value) = group[0];
            let Some(&byte) = key.first() else {
                own = value.cloned();
                continue;
            };
            let inside: Vec<Change<'_>> = group.iter().map(|(key, value)| (&key[1..], *value)).collect();
            let depth = depth + shared_len + 1;
            let edited = match children.remove(&byte) {
                None => self.grow(put_into(Vec::new(), &inside), depth)?,
                Some(Subtree::Kept(child)) => self.edit(&child.hash, depth, &inside)?,
                Some(Subtree::Heavy(branch)) => self.edit_branch(&branch, depth, &inside)?,
                Some(Subtree::Light(cells)) => self.grow(put_into(cells, &inside), depth)?,
            };
            children.insert(byte, edited);
        }
        self.join(shared.to_vec(), own, children, depth)
    }

    /// Restores the rule of shape at one place, from parts that obey it.
    fn join(
        &mut self,
        shared: Vec<u8>,
        own: Option<Stored>,
        mut children: BTreeMap<u8, Subtree>,
        depth: usize,
    ) -> Result<Subtree, LoadError> {
        let inside = depth + shared.len() + 1;
        children.retain(|_, subtree| !matches!(subtree, Subtree::Light(cells) if cells.is_empty()));
        let own_weight = own.as_ref().map_or(0, |value| value.weight(inside - 1));
        let weight = own_weight + children.values().map(|subtree| subtree.weight(inside)).sum::<u64>();
        if weight <= limits::CELL_LEAF_BYTES_MAX as u64 {
            return Ok(Subtree::Light(self.gather(&shared, own, children)?));
        }
        if own.is_none()
            && children.len() == 1
            && let Some((byte, only)) = children.pop_first()
        {
            return self.merge_down(&shared, byte, only);
        }
        let write = |(byte, subtree)| self.write(subtree, inside).map(|child| Child { byte, ..child });
        let children = children.into_iter().filter_map(write).collect();
        Ok(Subtree::Heavy(Branch { shared, own, children }))
    }

    /// All cells of parts that together are light: then each part is a leaf.
    fn gather(
        &mut self,
        shared: &[u8],
        own: Option<Stored>,
        children: BTreeMap<u8, Subtree>,
    ) -> Result<Vec<Cell>, LoadError> {
        let mut all: Vec<Cell> = own.map(|value| Cell { rest: shared.to_vec(), value }).into_iter().collect();
        for (byte, subtree) in children {
            let cells = match subtree {
                Subtree::Light(cells) => cells,
                Subtree::Kept(child) => match &*self.reader.node(&child.hash)? {
                    Node::Leaf(cells) => cells.clone(),
                    Node::Branch(_) => return Err(self.wrong_weights()),
                },
                Subtree::Heavy(_) => return Err(self.wrong_weights()), // a part is heavier than the whole
            };
            let lifted = |cell: Cell| Cell { rest: [shared, &[byte], &cell.rest].concat(), ..cell };
            all.extend(cells.into_iter().map(lifted));
        }
        Ok(all)
    }

    /// A branch with one way is no branch: its only child takes its place, with a longer shared part.
    fn merge_down(&mut self, shared: &[u8], byte: u8, only: Subtree) -> Result<Subtree, LoadError> {
        let branch = match only {
            Subtree::Heavy(branch) => branch,
            Subtree::Kept(child) => match &*self.reader.node(&child.hash)? {
                Node::Branch(branch) => branch.clone(),
                Node::Leaf(_) => return Err(self.wrong_weights()),
            },
            Subtree::Light(_) => return Err(self.wrong_weights()), // an only part is lighter than the whole
        };
        Ok(Subtree::Heavy(Branch { shared: [shared, &[byte], &branch.shared].concat(), ..branch }))
    }

    /// Makes a node of it; nothing for no cells. The byte is the parent's to fill in.
    fn write(&mut self, subtree: Subtree, depth: usize) -> Option<Child> {
        let weight = subtree.weight(depth);
        let node = match subtree {
            Subtree::Kept(child) => return Some(child),
            Subtree::Light(cells) if cells.is_empty() => return None,
            Subtree::Light(cells) => Node::Leaf(cells),
            Subtree::Heavy(branch) => Node::Branch(branch),
        };
        let bytes = cbor::encode(&node);
        let hash = Hash::of(&bytes);
        if !self.read.contains(&hash) {
            self.written.push((hash, bytes.into()));
        }
        Some(Child { byte: 0, hash, weight, cells: node.cells() })
    }

    /// The shape of cells that stand in no node yet.
    fn grow(&mut self, cells: Vec<Cell>, depth: usize) -> Result<Subtree, LoadError> {
        let light = Subtree::Light(cells);
        if light.weight(depth) <= limits::CELL_LEAF_BYTES_MAX as u64 {
            return Ok(light);
        }
        let Subtree::Light(mut cells) = light else { return Ok(light) };
        // Sorted: what the first and the last share, all share. Too heavy for a leaf, so at least two.
        let shared_len = common_len(&cells[0].rest, &cells[cells.len() - 1].rest);
        let shared = cells[0].rest[..shared_len].to_vec();
        let own = if cells[0].rest.len() == shared_len { Some(cells.remove(0).value) } else { None };
        let mut children = BTreeMap::new();
        for group in cells.chunk_by(|a, b| a.rest[shared_len] == b.rest[shared_len]) {
            let inside = |cell: &Cell| Cell { rest: cell.rest[shared_len + 1..].to_vec(), value: cell.value.clone() };
            let grown = self.grow(group.iter().map(inside).collect(), depth + shared_len + 1)?;
            children.insert(group[0].rest[shared_len], grown);
        }
        self.join(shared, own, children, depth)
    }

    fn wrong_weights(&self) -> LoadError {
        LoadError::corrupt(self.root.unwrap_or(Hash::from_bytes([0; 32])), "the weights of its nodes are wrong")
    }
}

impl Subtree {
    fn weight(&self, depth: usize) -> u64 {
        match self {
            Self::Light(cells) => cells.iter().map(|cell| cell.value.weight(depth + cell.rest.len())).sum(),
            Self::Kept(child) => child.weight,
            Self::Heavy(branch) => {
                let own = branch.own.as_ref().map_or(0, |value| value.weight(depth + branch.shared.len()));
                own + branch.children.iter().map(|child| child.weight).sum::<u64>()
            }
        }
    }
}

/// The parts of a branch, as if it had branched after `shared_len` bytes already.
fn opened(branch: &Branch, shared_len: usize) -> (Option<Stored>, BTreeMap<u8, Subtree>) {
    if shared_len < branch.shared.len() {
        let lower = Branch { shared: branch.shared[shared_len + 1..].to_vec(), ..branch.clone() };
        return (None, BTreeMap::from([(branch.shared[shared_len], Subtree::Heavy(lower))]));
    }
    let kept = branch.children.iter().map(|child| (child.byte, Subtree::Kept(child.clone())));
    (branch.own.clone(), kept.collect())
}

/// The cells of a leaf after some changes.
fn put_into(cells: Vec<Cell>, changes: &[Change<'_>]) -> Vec<Cell> {
    let mut all: BTreeMap<Vec<u8>, Stored> = cells.into_iter().map(|cell| (cell.rest, cell.value)).collect();
    for (rest, value) in changes {
        match value {
            Some(value) => all.insert(rest.to_vec(), (*value).clone()),
            None => all.remove(*rest),
        };
    }
    all.into_iter().map(|(rest, value)| Cell { rest, value }).collect()
}

fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
