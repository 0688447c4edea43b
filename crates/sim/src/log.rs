//! The committed transactions, in their order: what checkers read. Nobody who is checked has written it.

use crate::protocol::Protocol;
use bytes::Bytes;
use mundi_model::Stamp;
use std::fmt;

/// One life of one node. A restart is another author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Author {
    pub node: u32,
    pub life: u32,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node, self.life)
    }
}

/// A transaction that was applied.
#[derive(Debug, Clone)]
pub struct Commit {
    pub stamp: Stamp,
    /// True time.
    pub at_ns: u64,
    pub author: Author,
    /// The latest time that the author's own clock ever showed.
    pub clock_ns_max: u64,
    pub protocol: Protocol,
    pub writes: Vec<Write>,
}

/// A write, with its stamp filled in.
#[derive(Debug, Clone)]
pub enum Write {
    Put(Bytes, Bytes),
    Add(Bytes, i64),
    Delete(Bytes),
    /// Everything in `start..end`.
    Clear(Bytes, Bytes),
}

impl Write {
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put(key, _) | Self::Add(key, _) | Self::Delete(key) | Self::Clear(key, _) => key,
        }
    }
}
