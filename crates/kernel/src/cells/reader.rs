//! Reading the cell tree: nodes come from the objects, lazily, through a bounded cache.

use super::node::{Node, Stored};
use crate::objects::{LoadError, Objects, load_checked};
use mundi_model::Hash;
use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

/// Decoded nodes per generation: at about a page each, a few megabytes.
const CACHED_NODES_MAX: usize = 512;

/// Decoded nodes in two generations. When the young one is full it becomes the old one, and the old one
/// is forgotten: bounded, with no bookkeeping per read. What is cached never shows in an outcome.
#[derive(Debug, Default)]
pub(crate) struct NodeCache(RefCell<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: BTreeMap<Hash, Arc<Node>>,
    old: BTreeMap<Hash, Arc<Node>>,
}

impl NodeCache {
    fn get(&self, hash: &Hash) -> Option<Arc<Node>> {
        let mut generations = self.0.borrow_mut();
        if let Some(node) = generations.young.get(hash) {
            return Some(node.clone());
        }
        let node = generations.old.remove(hash)?;
        generations.put(*hash, node.clone());
        Some(node)
    }
}

impl Generations {
    fn put(&mut self, hash: Hash, node: Arc<Node>) {
        if self.young.len() >= CACHED_NODES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, node);
    }
}

/// A tree's nodes: those not yet stored, those cached, those in the content store.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) objects: &'a dyn Objects,
    pub(crate) unsaved: &'a BTreeMap<Hash, Arc<[u8]>>,
    pub(crate) cache: &'a NodeCache,
}

impl Reader<'_> {
    pub(crate) fn node(&self, hash: &Hash) -> Result<Arc<Node>, LoadError> {
        if let Some(node) = self.cache.get(hash) {
            return Ok(node);
        }
        let node = Arc::new(Node::decode(hash, &self.object(hash)?)?);
        self.cache.0.borrow_mut().put(*hash, node.clone());
        Ok(node)
    }

    fn object(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        match self.unsaved.get(hash) {
            Some(bytes) => Ok(bytes.clone()),
            None => load_checked(self.objects, hash),
        }
    }

    pub(crate) fn value(&self, stored: &Stored) -> Result<Vec<u8>, LoadError> {
        match stored {
            Stored::Inline(bytes) => Ok(bytes.clone()),
            Stored::Blob(hash, _) => Ok(self.object(hash)?.to_vec()),
        }
    }

    /// The value under a key. Reads as many nodes as the tree is deep there.
    pub(crate) fn get(&self, root: Option<Hash>, key: &str) -> Result<Option<Vec<u8>>, LoadError> {
        let Some(mut hash) = root else { return Ok(None) };
        let mut rest = key.as_bytes();
        loop {
            let node = self.node(&hash)?;
            let branch = match &*node {
                Node::Leaf(cells) => {
                    let found = cells.binary_search_by(|cell| cell.rest.as_slice().cmp(rest)).ok();
                    return found.map(|index| self.value(&cells[index].value)).transpose();
                }
                Node::Branch(branch) => branch,
            };
            let Some(below) = rest.strip_prefix(branch.shared.as_slice()) else { return Ok(None) };
            let Some((byte, below)) = below.split_first() else {
                return branch.own.as_ref().map(|stored| self.value(stored)).transpose();
            };
            let Some(child) = branch.child(*byte) else { return Ok(None) };
            (hash, rest) = (child.hash, below);
        }
    }
}
