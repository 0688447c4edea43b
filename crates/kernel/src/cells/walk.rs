//! Walking a tree in key order, opening a subtree only when someone must look inside.
//!
//! Scan and diff are both made of this: a scan passes over subtrees outside its range, a diff over those
//! that are equal on both sides.

use super::{
    node::{Node, Stored},
    reader::Reader,
};
use crate::objects::LoadError;
use mundi_model::Hash;

/// The next item in key order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Cell {
        key: Vec<u8>,
        value: Stored,
    },
    /// All cells whose keys begin with `path`, unopened.
    Subtree {
        path: Vec<u8>,
        hash: Hash,
    },
}

impl Item {
    /// The key, or what all keys inside begin with.
    pub(crate) fn path(&self) -> &[u8] {
        match self {
            Self::Cell { key, .. } => key,
            Self::Subtree { path, .. } => path,
        }
    }
}

pub(crate) struct Walk<'a> {
    reader: Reader<'a>,
    /// The next item is the last.
    stack: Vec<Item>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(reader: Reader<'a>, root: Option<Hash>) -> Self {
        let stack = root.map(|hash| Item::Subtree { path: Vec::new(), hash }).into_iter().collect();
        Self { reader, stack }
    }

    pub(crate) fn peek(&self) -> Option<&Item> {
        self.stack.last()
    }

    /// Passes over the next item.
    pub(crate) fn skip(&mut self) -> Option<Item> {
        self.stack.pop()
    }

    /// Replaces the next item by what is inside it. A cell has no inside and stays.
    pub(crate) fn open(&mut self) -> Result<(), LoadError> {
        let Some(Item::Subtree { path, hash }) = self.stack.last() else { return Ok(()) };
        let (node, path) = (self.reader.node(hash)?, path.clone());
        self.stack.pop();
        match &*node {
            Node::Leaf(cells) => {
                let cell = |cell: &super::node::Cell| Item::Cell {
                    key: [&path, cell.rest.as_slice()].concat(),
                    value: cell.value.clone(),
                };
                self.stack.extend(cells.iter().rev().map(cell));
            }
            Node::Branch(branch) => {
                let here = [path, branch.shared.clone()].concat();
                let below = |child: &super::node::Child| Item::Subtree {
                    path: [&here[..], &[child.byte]].concat(),
                    hash: child.hash,
                };
                self.stack.extend(branch.children.iter().rev().map(below));
                self.stack.extend(branch.own.clone().map(|value| Item::Cell { key: here.clone(), value }));
            }
        }
        Ok(())
    }
}

/// The cells under a prefix and after a key, in order.
pub(crate) struct Range<'a> {
    walk: Walk<'a>,
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
}

impl<'a> Range<'a> {
    pub(crate) fn new(walk: Walk<'a>, prefix: &str, after: Option<&str>) -> Self {
        Self { walk, prefix: prefix.into(), after: after.map(|key| key.as_bytes().to_vec()) }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Vec<u8>, Stored)>, LoadError> {
        loop {
            let Some(item) = self.walk.peek() else { return Ok(None) };
            let path = item.path();
            let common = path.len().min(self.prefix.len());
            match path[..common].cmp(&self.prefix[..common]) {
                std::cmp::Ordering::Less => {
                    self.walk.skip();
                    continue;
                }
                std::cmp::Ordering::Greater => return Ok(None),
                std::cmp::Ordering::Equal => {}
            }
            match item {
                Item::Subtree { path, .. } if self.lies_before_start(path) => {
                    self.walk.skip();
                }
                Item::Subtree { .. } => self.walk.open()?,
                Item::Cell { key, .. } => {
                    let wanted = key.len() >= self.prefix.len() && self.after.as_ref().is_none_or(|after| key > after);
                    if let (true, Some(Item::Cell { key, value })) = (wanted, self.walk.skip()) {
                        return Ok(Some((key, value)));
                    }
                }
            }
        }
    }

    /// Whether every key that begins with `path` comes before the first wanted one.
    fn lies_before_start(&self, path: &[u8]) -> bool {
        let Some(after) = &self.after else { return false };
        path < &after[..path.len().min(after.len())]
    }
}
