//! The nodes of the cell tree and their one encoding.
//!
//! A node stands at a path, the key bytes that lead to it, and does not repeat them. Whether a set of
//! cells is a leaf or a branch follows from the set alone (`docs/internals/adr/0002-cells.md`).

use crate::objects::LoadError;
use minicbor::{Decode, Encode};
use mundi_model::{Hash, cbor, limits};

/// The weight of a cell beside its key and value: about the bytes that their encoding adds.
const CELL_OVERHEAD: u64 = 8;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Node {
    /// All cells below a path, because they weigh at most [`limits::CELL_LEAF_BYTES_MAX`].
    #[n(0)]
    Leaf(#[n(0)] Vec<Cell>),
    #[n(1)]
    Branch(#[n(0)] Branch),
}

/// A cell in a leaf: the rest of its key, below the leaf's path.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Cell {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) rest: Vec<u8>,
    #[n(1)]
    pub(crate) value: Stored,
}

/// The value of a cell, or the object that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Stored {
    #[n(0)]
    Inline(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    #[n(1)]
    Blob(#[n(0)] Hash, #[n(1)] u64),
}

impl Stored {
    pub(crate) fn of(value: &[u8]) -> Self {
        if value.len() <= limits::CELL_INLINE_BYTES_MAX {
            Self::Inline(value.to_vec())
        } else {
            Self::Blob(Hash::of(value), value.len() as u64)
        }
    }

    /// The weight of a cell with this value. The whole key counts, so that a weight does not depend on
    /// the node that the cell stands in, and weights add up.
    pub(crate) fn weight(&self, key_len: usize) -> u64 {
        let value = match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Blob(..) => Hash::LEN + 8,
        };
        (key_len + value) as u64 + CELL_OVERHEAD
    }
}

const HEAVIEST_CELL: usize = limits::CELL_KEY_BYTES_MAX + limits::CELL_INLINE_BYTES_MAX + 8;
const _: () = assert!(HEAVIEST_CELL <= limits::CELL_LEAF_BYTES_MAX, "each cell fits into a leaf");

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Branch {
    /// The common prefix of all keys below, after this node's path.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) shared: Vec<u8>,
    /// The cell whose key ends here.
    #[n(1)]
    pub(crate) own: Option<Stored>,
    /// Sorted by their byte.
    #[n(2)]
    pub(crate) children: Vec<Child>,
}

/// The cells whose keys continue with `byte`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Child {
    #[n(0)]
    pub(crate) byte: u8,
    #[n(1)]
    pub(crate) hash: Hash,
    #[n(2)]
    pub(crate) weight: u64,
    #[n(3)]
    pub(crate) cells: u64,
}

impl Node {
    pub(crate) fn decode(hash: &Hash, bytes: &[u8]) -> Result<Self, LoadError> {
        let node: Self = cbor::decode(bytes).map_err(|error| LoadError::corrupt(*hash, error.to_string()))?;
        if node.is_well_formed() { Ok(node) } else { Err(LoadError::corrupt(*hash, "its entries are out of order")) }
    }

    fn is_well_formed(&self) -> bool {
        match self {
            Self::Leaf(cells) => cells.is_sorted_by(|a, b| a.rest < b.rest) && !cells.is_empty(),
            Self::Branch(branch) => {
                let ways = branch.children.len() + usize::from(branch.own.is_some());
                branch.children.is_sorted_by(|a, b| a.byte < b.byte) && !branch.children.is_empty() && ways >= 2
            }
        }
    }

    /// The objects that this node refers to.
    pub(crate) fn references(&self) -> Vec<Hash> {
        let blob = |stored: &Stored| match stored {
            Stored::Blob(hash, _) => Some(*hash),
            Stored::Inline(_) => None,
        };
        match self {
            Self::Leaf(cells) => cells.iter().filter_map(|cell| blob(&cell.value)).collect(),
            Self::Branch(branch) => {
                let own = branch.own.as_ref().and_then(blob);
                own.into_iter().chain(branch.children.iter().map(|child| child.hash)).collect()
            }
        }
    }

    pub(crate) fn cells(&self) -> u64 {
        match self {
            Self::Leaf(cells) => cells.len() as u64,
            Self::Branch(branch) => {
                branch.children.iter().map(|c| c.cells).sum::<u64>() + u64::from(branch.own.is_some())
            }
        }
    }
}

impl Branch {
    pub(crate) fn child(&self, byte: u8) -> Option<&Child> {
        self.children.binary_search_by_key(&byte, |child| child.byte).ok().map(|index| &self.children[index])
    }
}
