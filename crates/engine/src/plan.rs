//! The plan of a transaction: all that an engine may be told about what is coming.
//!
//! A plan is optional on both sides. A caller that has none begins a transaction without one; an engine that has no use for plans never asks
//! for it. Nothing in a plan changes what a commit means. Engines at the other end of a network connection use it to read in one round trip
//! what would take one round trip for each read, and to answer from a cache of this process.

use crate::RangeRead;
use bytes::Bytes;

/// Where a planned transaction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// A snapshot of its own, as any other transaction.
    #[default]
    OwnSnapshot,
    /// A snapshot of the newest state that it shares with transactions that read at the same moment. It is as good as one of its own, but
    /// reads that were neither planned nor prefetched may fail with [`EngineError::TooOld`](crate::EngineError::TooOld): then the
    /// transaction is run again on a snapshot of its own.
    SharedSnapshot,
    /// A `get` may be answered by what this process remembers of a key, and each other read may be of a moment of its own.
    ///
    /// The commit is as good as any other: it conflicts if anything that it was told is not true any more. Everything else that the
    /// transaction leads to (an error, a commit without writes) may rest on what is long past, and must be decided by a transaction on a
    /// snapshot. For protocols that mostly commit. Its
    /// [`version`](crate::Transaction::version) is that of the first answer; the others were true then or later.
    Cache,
}

/// The reads and writes that a transaction expects. Every part is a hint: a plan that is wrong costs time and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadPlan {
    /// The reads that it makes, whatever it finds. The commit does not depend on a read that is planned and never made. Engines take up to
    /// [`PLANNED_READS_MAX`](mundi_model::limits::PLANNED_READS_MAX) and pass over the rest.
    pub reads: Vec<Read>,
    /// Prefixes of keys that it writes and that this process will read soon, so that their values stay in the cache.
    pub rereads: Vec<Bytes>,
    /// Prefixes under which every key that it puts holds nothing before. If one does, its value is replaced, and the commit takes longer.
    pub new_keys: Vec<Bytes>,
}

impl ReadPlan {
    /// A plan of reads alone.
    pub fn reads(reads: impl IntoIterator<Item = Read>) -> Self {
        Self { reads: reads.into_iter().collect(), ..Self::default() }
    }
}

/// A read that is planned. Whether it adds a conflict is up to the read that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    Get(Bytes),
    Range(RangeRead),
}

impl Read {
    pub fn get(key: &[u8]) -> Self {
        Self::Get(Bytes::copy_from_slice(key))
    }
}
