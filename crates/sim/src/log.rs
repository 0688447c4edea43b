//! The committed transactions in their order, for the checkers; recorded independently of the code under test.

use crate::protocol::Protocol;
use bytes::Bytes;
use mundi_model::WorkerId;
use std::fmt;

/// One life of one node. A restart is another author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Author {
    pub(crate) node: u32,
    pub(crate) life: u32,
}

impl Author {
    /// Its id in the store; all lives of a node have the same.
    pub(crate) fn worker(self) -> WorkerId {
        const FIRST: Option<WorkerId> = WorkerId::new(1);
        WorkerId::new(u64::from(self.node) + 1).or(FIRST).unwrap_or_else(|| unreachable!("one is an id"))
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node, self.life)
    }
}

/// A transaction that was applied.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    pub(crate) author: Author,
    /// The latest time that the author's own clock ever showed.
    pub(crate) clock_ns_max: u64,
    /// When it was applied, by the true time that no node knows.
    pub(crate) at_ns: u64,
    pub(crate) protocol: Protocol,
    pub(crate) writes: Vec<Write>,
}

/// A write, with its stamp filled in.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Put(Bytes, Bytes),
    Add(Bytes, i64),
    Delete(Bytes),
    /// Everything in `start..end`.
    Clear(Bytes, Bytes),
}

impl Write {
    pub(crate) fn key(&self) -> &Bytes {
        match self {
            Self::Put(key, _) | Self::Add(key, _) | Self::Delete(key) | Self::Clear(key, _) => key,
        }
    }
}
