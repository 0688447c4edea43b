//! The memory engine with one thing wrong.

use crate::fault::Fault;
use bytes::Bytes;
use futures_util::future::pending;
use mundi_engine::{
    CommitError, Committed, Engine, EngineError, Memory, RangeRead, ReadPlan, Source, Transaction,
    memory::{ClockMs, MemoryTransaction},
};
use mundi_model::{Code, Coded, Stamp, limits};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::transaction::{Write, WrongTransaction};

#[derive(Clone)]
pub(crate) struct Wrong {
    pub(crate) fault: Fault,
    pub(crate) store: Memory,
    pub(crate) shared: Arc<Shared>,
}

/// The state that transactions of a wrong engine share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) next_stamp: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// Acknowledged, and not applied.
    pub(crate) owed: Mutex<Option<MemoryTransaction>>,
    /// A snapshot that was taken earlier.
    pooled: Mutex<Option<MemoryTransaction>>,
    /// The snapshot of the last planned transaction.
    planned: Mutex<Option<MemoryTransaction>>,
    /// The writes of dropped transactions.
    pub(crate) dropped: Mutex<Vec<Write>>,
    deaf: AtomicBool,
}

impl Wrong {
    pub(crate) fn new(fault: Fault, clock_ms: ClockMs) -> Self {
        let store = if fault == Fault::Ageless { Memory::new() } else { Memory::with_clock(clock_ms) };
        Self { fault, store, shared: Arc::default() }
    }

    /// Gives others the time to see what they should not.
    pub(crate) fn linger() {
        #[expect(clippy::disallowed_methods, reason = "makes a race of a wrong engine visible")]
        std::thread::sleep(Duration::from_micros(200));
    }

    /// The value under a key as it is now.
    pub(crate) async fn newest(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.store.begin().await?.get(key).await
    }

    pub(crate) async fn crash(self) -> Self {
        match self.fault {
            Fault::ForgetsAll => Self { store: Memory::new(), ..self },
            Fault::LosesTail => Self { store: copied(&self.store, 1).await, ..self },
            Fault::RestartsStamps => Self { store: copied(&self.store, 0).await, ..self },
            Fault::RevivesDropped => {
                let mut tx = self.store.begin().await.unwrap();
                for write in self.shared.dropped.lock().drain(..) {
                    write.to(&mut tx).unwrap();
                }
                tx.commit().await.unwrap();
                self
            }
            _ => self,
        }
    }
}

/// A new store with all but the last few items.
async fn copied(store: &Memory, lost: usize) -> Memory {
    let read = RangeRead::prefix(b"", limits::RANGE_ITEMS_MAX);
    let items = store.begin().await.unwrap().range(read).await.unwrap().items;
    let copy = Memory::new();
    let mut tx = copy.begin().await.unwrap();
    for (key, value) in &items[..items.len() - lost] {
        tx.put(key, value.clone()).unwrap();
    }
    tx.commit().await.unwrap();
    copy
}

impl Engine for Wrong {
    type Transaction = WrongTransaction;

    async fn begin(&self) -> Result<WrongTransaction, EngineError> {
        let fresh = self.store.begin().await?;
        let next = self.store.begin().await?;
        let pooled = self.shared.pooled.lock().replace(next);
        Ok(match (self.fault, pooled) {
            (Fault::StaleSnapshots, Some(pooled)) => WrongTransaction::new(self, pooled, fresh),
            _ => WrongTransaction::new(self, fresh, self.store.begin().await?),
        })
    }

    async fn begin_planned(
        &self,
        source: Source,
        plan: impl FnOnce() -> ReadPlan + Send,
    ) -> Result<Option<WrongTransaction>, EngineError> {
        if source == Source::SharedSnapshot && self.fault == Fault::SharesOldSnapshots {
            let mut next = self.store.begin().await?;
            next.version().await?; // from here on it is on one state
            let last = self.shared.planned.lock().replace(next);
            let Some(last) = last else { return Ok(None) };
            return Ok(Some(WrongTransaction::new(self, last, self.store.begin().await?).with(plan())));
        }
        Ok(Some(self.begin().await?.with(plan())))
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        let (wrong, key) = (self.clone(), Bytes::copy_from_slice(key));
        async move {
            match wrong.fault {
                Fault::DeafWatch if wrong.newest(&key).await? == seen => pending().await,
                Fault::WatchIgnoresSeen => {
                    let present = wrong.newest(&key).await?;
                    wrong.store.watch(&key, present).await
                }
                Fault::LooksThenListens => {
                    if wrong.newest(&key).await? != seen {
                        return Ok(());
                    }
                    Wrong::linger();
                    let present = wrong.newest(&key).await?;
                    wrong.store.watch(&key, present).await
                }
                Fault::DropDeafens => {
                    let mut deafening = Deafening { shared: wrong.shared.clone(), ended: false };
                    wrong.store.watch(&key, seen).await?;
                    deafening.ended = true;
                    if wrong.shared.deaf.load(Ordering::SeqCst) { pending().await } else { Ok(()) }
                }
                Fault::KeysUnbounded if wrong.newest(&key).await.is_err() => Ok(()),
                _ => wrong.store.watch(&key, seen).await,
            }
        }
    }
}

struct Deafening {
    shared: Arc<Shared>,
    ended: bool,
}

impl Drop for Deafening {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.deaf.store(true, Ordering::SeqCst);
        }
    }
}

/// Whether this commit was refused for its size.
pub(crate) fn is_too_large(answer: &Result<Committed, CommitError>) -> bool {
    matches!(answer, Err(CommitError::Engine(error)) if error.code() == Code::TransactionTooLarge)
}

/// A stamp that was not drawn by the engine.
pub(crate) fn drawn(wrong: &Wrong) -> Stamp {
    Stamp::new(wrong.shared.next_stamp.fetch_add(1, Ordering::SeqCst) + 1, 0)
}
