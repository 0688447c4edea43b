//! The contract. It is shaped like FoundationDB, because that is the strictest; it asks for nothing
//! that FoundationDB, PostgreSQL or a single file could not give.

use crate::{CommitError, EngineError, Read, ReadPlan, Source};
use bytes::Bytes;
use mundi_model::Stamp;
use std::future::Future;

/// An ordered map from byte keys to byte values, changed by serializable transactions.
///
/// A handle is cheap to clone, and all clones speak of the same store.
///
/// # What every engine promises
///
/// - **Atomic.** All writes of a commit become visible together, or none ever does.
/// - **Durable.** When `commit` returns `Ok`, the writes survive the death of the process and of the
///   machine. Only [`Memory`](crate::Memory) is excused.
/// - **Serializable.** There is one order of all committed transactions such that each saw the effects
///   of exactly those before it, write skew and phantoms included; and it respects real time: a
///   transaction that begins after a commit was acknowledged sees it.
/// - **Stamped in that order.** See [`Transaction::put_stamped`].
/// - **Bounded.** What exceeds `mundi_model::limits` is a typed error, and the transaction is as it was.
///
/// # What no engine needs to promise
///
/// The contract is as strict as FoundationDB, and no stricter. Where an engine gives more, layers must not use it:
///
/// - [`Transaction::add`] to a value that is not eight bytes long gives an unspecified value.
/// - [`Transaction::delete_range`] need not know which keys it removes. For the conflicts of others it may count as a write of its whole range.
/// - A write that changes nothing (a put of the value that is there, a delete of a key that is not) may conflict with reads of the key.
/// - Versions rise, and are no clock: they may leave out any number of values, and jump when a database recovers.
pub trait Engine: Clone + Send + Sync + 'static {
    type Transaction: Transaction;

    /// Opens a transaction on the newest acknowledged state.
    ///
    /// Which state that is may be decided as late as by its first read: then it sees what was committed in between, and
    /// one that reads nothing costs nothing. A caller that needs to fix the moment reads.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, EngineError>> + Send;

    /// As [`Engine::begin`], with a [`ReadPlan`]; `None` if the engine has no use for plans of this source. Then the plan was not asked for, and
    /// the transaction is begun without one.
    ///
    /// This and [`Transaction::prefetch`] are all that an engine may use to be faster than the reads and writes alone would let it be.
    fn begin_planned(
        &self,
        source: Source,
        plan: impl FnOnce() -> ReadPlan + Send,
    ) -> impl Future<Output = Result<Option<Self::Transaction>, EngineError>> + Send {
        let _not_asked = (source, plan);
        std::future::ready(Ok(None))
    }

    /// Completes once the value under `key` differs from `seen`, at once if it does already.
    ///
    /// A change is never missed as long as it lasts: a value that changes and changes back may go
    /// unnoticed, so watched keys hold counters. It may complete without a change; look, and watch again.
    /// Dropping the future ends the watch.
    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static;

    /// Asks for the disk space of deleted keys. Returns at once; the engine works in the background, as far as it can, and without
    /// delaying commits. Does nothing in engines whose database reclaims space by itself.
    fn reclaim(&self) {}

    /// How many bytes the engine occupies on disk; `None` if it keeps nothing on a disk.
    fn disk_bytes(&self) -> impl Future<Output = Result<Option<u64>, EngineError>> + Send {
        std::future::ready(Ok(None))
    }
}

/// A transaction: reads one snapshot, gathers writes, and applies them all at commit or not at all.
///
/// Reads see the snapshot with the transaction's own writes on top. Dropping it without a commit undoes
/// everything. It lives for at most [`TRANSACTION_AGE_MS_MAX`](mundi_model::limits::TRANSACTION_AGE_MS_MAX), counted from
/// [`Engine::begin`] by a clock of this process, whenever the snapshot was taken; afterwards reads fail with [`EngineError::TooOld`] and the
/// commit is a [`CommitError::Conflict`].
///
/// Keys have 1 to [`KEY_BYTES_MAX`](mundi_model::limits::KEY_BYTES_MAX) bytes, which leaves room for the prefix that an engine may put in front
/// of them, and those that begin with `0xff` are the engine's own.
///
/// A transaction holds at most [`TRANSACTION_BYTES_MAX`](mundi_model::limits::TRANSACTION_BYTES_MAX). What it declares as read counts as well as
/// what it writes, as FoundationDB counts both (`transaction_size.rs`): a call that would exceed the bound is refused, so what was accepted
/// can be committed.
pub trait Transaction: Send + 'static {
    /// The version of the snapshot: the transaction sees every commit whose stamp has this version or a smaller one,
    /// and no other. So its own stamp, if it commits, has a larger one.
    fn version(&mut self) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// The next stage of the [`ReadPlan`]: reads that depend on what was read before, and that all follow now. An engine at the other end of a
    /// network connection fetches them in one round trip, with the next read.
    ///
    /// A hint: it changes no answer, and what is never read is nothing that the commit depends on. Engines that have no use for it do not
    /// ask for the list.
    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        let _not_asked = reads;
    }

    /// The value under a key. A commit conflicts if another transaction has changed it since.
    fn get(&mut self, key: &[u8]) -> impl Future<Output = Result<Option<Bytes>, EngineError>> + Send;

    /// The value under a key, without the promise to have depended on it: adds no conflict.
    fn get_snapshot(&mut self, key: &[u8]) -> impl Future<Output = Result<Option<Bytes>, EngineError>> + Send;

    /// Items of a range in order. Unless it is a snapshot read, a commit conflicts if another
    /// transaction has since changed, added or removed a key in the part of the range that was read.
    fn range(&mut self, read: RangeRead) -> impl Future<Output = Result<Page, EngineError>> + Send;

    /// Sets a value. Blind: a put alone conflicts with nothing, and the last one to commit stays.
    fn put(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError>;

    /// Sets a value under `prefix ++ stamp ++ suffix`, where the stamp is the one of this commit.
    ///
    /// Stamps rise in commit order, and **become visible in that order**: a reader that has seen stamp 11
    /// never sees a smaller one appear later. All stamped keys of a transaction share its stamp. They
    /// are invisible to its own reads, because the key does not exist before the commit.
    fn put_stamped(&mut self, prefix: &[u8], suffix: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError>;

    /// Adds to a counter: eight bytes, little-endian, wrapping. A missing value counts as zero; what becomes of a value of another
    /// length is unspecified. Blind like a put: concurrent adds all count, and none conflicts.
    fn add(&mut self, key: &[u8], delta: i64) -> Result<(), EngineError>;

    /// Removes a key, if it is there. Blind.
    fn delete(&mut self, key: &[u8]) -> Result<(), EngineError>;

    /// Removes every key in `start..end`, also those that others commit before this commit. Blind.
    ///
    /// An engine that must list the keys that it removes counts them towards the size of the transaction, and refuses the commit if they are too
    /// many; one that need not, does not count them. So long ranges are removed in pieces.
    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), EngineError>;

    /// Applies the writes. A transaction without writes always succeeds.
    ///
    /// Dropping the returned future leaves the fate of the commit open, like [`CommitError::Unknown`].
    fn commit(self) -> impl Future<Output = Result<Committed, CommitError>> + Send;
}

/// The acknowledgement of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// There was nothing to write.
    ReadOnly,
    /// Applied and durable, at this place in the order of commits.
    At(Stamp),
}

impl Committed {
    pub fn stamp(self) -> Option<Stamp> {
        match self {
            Self::ReadOnly => None,
            Self::At(stamp) => Some(stamp),
        }
    }
}

/// A range read: the first `limit` items of `start..end`, or the last ones when reversed.
///
/// Queues are read from a remembered low-water mark, never from their prefix: in a log-structured tree
/// the consumed items are tombstones, and a scan of the dead costs more than all other work together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRead {
    /// The first key of the range. Empty means the first of all.
    pub start: Bytes,
    /// The first key above the range. `0xff` is above all.
    pub end: Bytes,
    /// How many items at most.
    pub limit: usize,
    /// Downwards from `end`.
    pub reverse: bool,
    /// Adds no conflict.
    pub snapshot: bool,
}

impl RangeRead {
    /// Up to `limit` items of `start..end`, ascending.
    pub fn new(start: impl Into<Bytes>, end: impl Into<Bytes>, limit: usize) -> Self {
        Self { start: start.into(), end: end.into(), limit, reverse: false, snapshot: false }
    }

    /// Up to `limit` items whose keys begin with `prefix`, ascending.
    pub fn prefix(prefix: &[u8], limit: usize) -> Self {
        Self::new(prefix.to_vec(), prefix_end(prefix), limit)
    }

    /// From the end of the range downwards.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Without the promise to have depended on it: adds no conflict.
    pub fn snapshot(mut self) -> Self {
        self.snapshot = true;
        self
    }
}

/// The smallest key above all that begin with `prefix`.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![u8::MAX] // every key is below the engine's own range
}

/// The result of a range read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub items: Vec<(Bytes, Bytes)>,
    /// The limit, or the bound on bytes, ended the read; the range may hold more.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_above_all_that_begin_with_it() {
        assert_eq!(prefix_end(b"ab"), b"ac");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xfe\xff"), b"\xff");
        assert_eq!(prefix_end(b""), b"\xff");
    }
}
