//! The memory engine behind a network with seeded faults.
//!
//! Conflicts are real: the memory engine finds them. What is added lies between a node and the engine: time, cuts,
//! and what becomes of a commit's request and of its reply. Every operation is an await, and so a place to crash.

use crate::{
    faults::{Fault, Meets},
    link::Link,
    log::{Commit, Write},
    protocol::Protocol,
    run_state::RunState,
};
use bytes::Bytes;
use mundi_engine::{CommitError, Committed, Engine, EngineError, Memory, Page, RangeRead, Transaction};
use mundi_model::Stamp;
use mundi_runtime::{Spawn, testing::Node};
use mundi_store::testing::others_first;
use std::{future::Future, io, sync::Arc};
use xxhash_rust::xxh3::xxh3_64;

/// How long a node waits for an answer before it gives up.
const REPLY_TIMEOUT_MS: u64 = 400;

type MemoryTransaction = <Memory as Engine>::Transaction;

/// One node's way to the engine.
#[derive(Clone)]
pub(crate) struct SimEngine {
    memory: Memory,
    run_state: RunState,
    link: Link,
    /// Where commits continue whose author has given up.
    server: Node,
}

/// The fate of a commit between its author and the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    Conflict,
    RequestLost,
    ReplyLost,
    Late,
}

impl SimEngine {
    pub(crate) fn new(memory: Memory, run_state: RunState, link: Link, server: Node) -> Self {
        Self { memory, run_state, link, server }
    }

    /// One way to the engine and back; an error if it does not get there.
    async fn travel(&self) -> Result<(), EngineError> {
        if self.link.is_cut() {
            self.run_state.sleep_ms(REPLY_TIMEOUT_MS).await;
            return Err(lost("no answer"));
        }
        self.dawdle().await;
        Ok(())
    }

    /// Lets others go first; under latency for a while, and rarely for longer than a transaction may live.
    async fn dawdle(&self) {
        if !self.run_state.strikes(Fault::Latency, 150) {
            return others_first().await;
        }
        let ms = if self.run_state.below(200) == 0 { 6_000 } else { self.run_state.below(60) };
        self.run_state.sleep_ms(ms).await;
    }

    fn fate(&self) -> Fate {
        if self.link.is_cut() {
            return if self.run_state.below(2) == 0 { Fate::RequestLost } else { Fate::ReplyLost };
        }
        let fates = [
            (Fault::Conflicts, Fate::Conflict),
            (Fault::LostRequests, Fate::RequestLost),
            (Fault::LostReplies, Fate::ReplyLost),
            (Fault::LateCommits, Fate::Late),
        ];
        let struck = fates.into_iter().find(|(fault, _)| self.run_state.strikes(*fault, 40));
        struck.map_or(Fate::Answered, |(_, fate)| fate)
    }

    async fn apply(&self, tx: MemoryTransaction, writes: Vec<Pending>) -> Result<Committed, CommitError> {
        let (protocol, author) = (Protocol::of(&resolve(&writes, Stamp::new(0, 0))), self.link.author());
        let committed = tx.commit().await;
        match &committed {
            Ok(Committed::At(stamp)) => {
                let writes = resolve(&writes, *stamp);
                self.run_state.note(format_args!("{author} {protocol} applied {}", digest(&writes)));
                self.run_state.count(|tally| tally.commits += 1);
                let clock_ns_max = self.link.clock().shown_ns_max();
                let at_ns = self.run_state.now_ns();
                self.run_state.committed(Commit { author, clock_ns_max, at_ns, protocol, writes });
            }
            Ok(Committed::ReadOnly) => {}
            Err(error) => {
                self.run_state.note(format_args!("{author} {protocol} {error}"));
                self.run_state.count(|tally| tally.conflicts += 1);
            }
        }
        committed
    }

    async fn commit(&self, tx: MemoryTransaction, writes: Vec<Pending>) -> Result<Committed, CommitError> {
        let protocol = Protocol::of(&resolve(&writes, Stamp::new(0, 0)));
        let flight = Flight::begin(self, protocol);
        self.run_state.ambush(self.link.author().node);
        others_first().await;
        let fate = self.fate();
        self.dawdle().await;
        flight.met(fate);
        if fate != Fate::Answered {
            self.run_state.note(format_args!("{} {protocol} {fate:?}", self.link.author()));
        }
        let unknown = || {
            self.run_state.count(|tally| tally.unknown += 1);
            Err(CommitError::Unknown(lost("the answer to a commit")))
        };
        match fate {
            Fate::Conflict => Err(CommitError::Conflict),
            Fate::RequestLost => {
                drop(tx);
                self.run_state.sleep_ms(REPLY_TIMEOUT_MS).await;
                unknown()
            }
            Fate::Late => {
                let (server, delay_ms) = (self.clone(), self.run_state.below(3 * REPLY_TIMEOUT_MS));
                self.server.spawn(Box::pin(async move {
                    server.run_state.sleep_ms(delay_ms).await;
                    let _nobody_waits = server.apply(tx, writes).await;
                }));
                self.run_state.sleep_ms(self.run_state.below(REPLY_TIMEOUT_MS)).await;
                unknown()
            }
            Fate::ReplyLost => {
                self.apply(tx, writes).await?;
                self.run_state.sleep_ms(REPLY_TIMEOUT_MS).await;
                unknown()
            }
            Fate::Answered => {
                let committed = self.apply(tx, writes).await?;
                self.run_state.ambush(self.link.author().node);
                self.dawdle().await;
                Ok(committed)
            }
        }
    }
}

/// A commit that is in progress, for the coverage table: what it met, and whether it was cut short.
struct Flight<'a> {
    engine: &'a SimEngine,
    protocol: Protocol,
    pauses: u32,
}

impl<'a> Flight<'a> {
    fn begin(engine: &'a SimEngine, protocol: Protocol) -> Self {
        let modes = engine.run_state.faults().iter().filter(|fault| is_mode(*fault) && engine.run_state.has(*fault));
        modes.chain(engine.link.clock_fault()).for_each(|fault| engine.run_state.met(fault, protocol));
        if engine.run_state.has(Fault::Latency) {
            engine.run_state.met(Fault::Latency, protocol);
        }
        Self { engine, protocol, pauses: engine.link.pauses() }
    }

    fn met(&self, fate: Fate) {
        let fault = match fate {
            _ if self.engine.link.is_cut() => Fault::Partitions,
            Fate::Answered => return,
            Fate::Conflict => Fault::Conflicts,
            Fate::RequestLost => Fault::LostRequests,
            Fate::ReplyLost => Fault::LostReplies,
            Fate::Late => Fault::LateCommits,
        };
        self.engine.run_state.met(fault, self.protocol);
    }
}

/// Whether a fault is a way of life of a run and not a single blow.
fn is_mode(fault: Fault) -> bool {
    let of_commits = fault.meets() == Meets::Commits;
    of_commits && matches!(fault, Fault::Duplicates | Fault::TinyLimits | Fault::Churn | Fault::Forks | Fault::Upgrades)
        || matches!(fault, Fault::Lifecycle | Fault::Moves | Fault::Answers | Fault::LittleRoom)
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let (run_state, link) = (&self.engine.run_state, &self.engine.link);
        if link.is_crashed() {
            run_state.met(Fault::Crashes, self.protocol);
        }
        if link.pauses() != self.pauses {
            run_state.met(Fault::Pauses, self.protocol);
        }
    }
}

impl Engine for SimEngine {
    type Transaction = SimTransaction;

    async fn begin(&self) -> Result<SimTransaction, EngineError> {
        self.travel().await?;
        Ok(SimTransaction { inner: self.memory.begin().await?, engine: self.clone(), writes: Vec::new() })
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        let (engine, changed) = (self.clone(), self.memory.watch(key, seen));
        async move {
            if engine.run_state.strikes(Fault::SpuriousWakes, 50) {
                engine.run_state.sleep_ms(engine.run_state.below(500)).await;
                return Ok(());
            }
            changed.await?;
            while engine.link.is_cut() {
                engine.run_state.sleep_ms(REPLY_TIMEOUT_MS).await;
            }
            Ok(())
        }
    }
}

pub(crate) struct SimTransaction {
    inner: MemoryTransaction,
    engine: SimEngine,
    writes: Vec<Pending>,
}

enum Pending {
    Known(Write),
    Stamped { prefix: Bytes, suffix: Bytes, value: Bytes },
}

/// The writes of a transaction, once its stamp is known.
fn resolve(writes: &[Pending], stamp: Stamp) -> Vec<Write> {
    let resolve = |pending: &Pending| match pending {
        Pending::Known(write) => write.clone(),
        Pending::Stamped { prefix, suffix, value } => {
            let key = [&prefix[..], stamp.as_bytes(), &suffix[..]].concat();
            Write::Put(key.into(), value.clone())
        }
    };
    writes.iter().map(resolve).collect()
}

/// A short name for what was written.
fn digest(writes: &[Write]) -> Digest {
    let mut sum = 0u64;
    for write in writes {
        let (key, value) = match write {
            Write::Put(key, value) | Write::Clear(key, value) => (key, xxh3_64(value)),
            Write::Add(key, delta) => (key, delta.cast_unsigned()),
            Write::Delete(key) => (key, 0),
        };
        sum = sum.rotate_left(5) ^ xxh3_64(key) ^ value;
    }
    Digest(sum)
}

struct Digest(u64);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Transaction for SimTransaction {
    async fn version(&mut self) -> Result<u64, EngineError> {
        self.engine.travel().await?;
        self.inner.version().await
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.engine.travel().await?;
        self.inner.get(key).await
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.engine.travel().await?;
        self.inner.get_snapshot(key).await
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        self.engine.travel().await?;
        self.inner.range(read).await
    }

    fn put(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        let value = value.into();
        self.writes.push(Pending::Known(Write::Put(Bytes::copy_from_slice(key), value.clone())));
        self.inner.put(key, value)
    }

    fn put_stamped(&mut self, prefix: &[u8], suffix: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        let value = value.into();
        let (start, end) = (Bytes::copy_from_slice(prefix), Bytes::copy_from_slice(suffix));
        self.writes.push(Pending::Stamped { prefix: start, suffix: end, value: value.clone() });
        self.inner.put_stamped(prefix, suffix, value)
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<(), EngineError> {
        self.writes.push(Pending::Known(Write::Add(Bytes::copy_from_slice(key), delta)));
        self.inner.add(key, delta)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.writes.push(Pending::Known(Write::Delete(Bytes::copy_from_slice(key))));
        self.inner.delete(key)
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), EngineError> {
        let clear = Write::Clear(Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        self.writes.push(Pending::Known(clear));
        self.inner.delete_range(start, end)
    }

    async fn commit(self) -> Result<Committed, CommitError> {
        let Self { inner, engine, writes } = self;
        if writes.is_empty() {
            engine.travel().await?;
            return inner.commit().await;
        }
        engine.commit(inner, writes).await
    }
}

fn lost(what: &str) -> EngineError {
    let cause = Arc::new(io::Error::new(io::ErrorKind::TimedOut, "the network lost it"));
    EngineError::Failed { doing: what.to_owned(), cause }
}
