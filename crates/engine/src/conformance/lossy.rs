//! An engine around an engine that loses the answers of commits.

use super::Seeded;
use crate::{CommitError, Committed, Engine, EngineError, Page, RangeRead, Read, Transaction};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{io, sync::Arc};

/// Turns the answer of some commits into [`CommitError::Unknown`], as a broken connection does.
///
/// The commit was then applied, or is dropped, or is **still on its way** and applied just before a later one:
/// the case that a retry meets least often and survives least well. A seed decides.
pub struct Lossy<E: Engine> {
    engine: E,
    losses: Arc<Mutex<Losses<E::Transaction>>>,
}

struct Losses<T> {
    seeded: Seeded,
    on_its_way: Option<T>,
}

#[derive(Clone, Copy)]
enum Fate {
    Answered,
    AppliedUnanswered,
    Dropped,
    Late,
}

impl<E: Engine> Lossy<E> {
    pub fn new(engine: E, seed: u64) -> Self {
        let losses = Losses { seeded: Seeded::new(seed), on_its_way: None };
        Self { engine, losses: Arc::new(Mutex::new(losses)) }
    }

    /// Lets a commit that is still on its way arrive, whatever becomes of it.
    pub async fn settle(&self) {
        let late = self.losses.lock().on_its_way.take();
        if let Some(late) = late {
            let _nobody_waits = late.commit().await;
        }
    }
}

impl<E: Engine> Clone for Lossy<E> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), losses: self.losses.clone() }
    }
}

impl<E: Engine> Engine for Lossy<E> {
    type Transaction = LossyTransaction<E>;

    async fn begin(&self) -> Result<LossyTransaction<E>, EngineError> {
        Ok(LossyTransaction { inner: self.engine.begin().await?, lossy: self.clone() })
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        self.engine.watch(key, seen)
    }
}

/// A transaction whose commit may lose its answer.
pub struct LossyTransaction<E: Engine> {
    inner: E::Transaction,
    lossy: Lossy<E>,
}

impl<E: Engine> Transaction for LossyTransaction<E> {
    async fn version(&mut self) -> Result<u64, EngineError> {
        self.inner.version().await
    }

    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        self.inner.prefetch(reads);
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.inner.get(key).await
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.inner.get_snapshot(key).await
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        self.inner.range(read).await
    }

    crate::forward_writes!(inner);

    async fn commit(self) -> Result<Committed, CommitError> {
        self.lossy.settle().await;
        let fate = self.lossy.losses.lock().fate();
        match fate {
            Fate::Answered => return self.inner.commit().await,
            Fate::AppliedUnanswered => {
                self.inner.commit().await?;
            }
            Fate::Dropped => drop(self.inner),
            Fate::Late => self.lossy.losses.lock().on_its_way = Some(self.inner),
        }
        let cause = io::Error::from(io::ErrorKind::ConnectionReset);
        Err(CommitError::Unknown(EngineError::failed("waiting for the answer to a commit", cause)))
    }
}

impl<T> Losses<T> {
    fn fate(&mut self) -> Fate {
        match self.seeded.below(8) {
            0 | 1 => Fate::AppliedUnanswered,
            2 => Fate::Dropped,
            // One at a time; a second would have to overtake the first.
            3 | 4 if self.on_its_way.is_none() => Fate::Late,
            _ => Fate::Answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use pollster::block_on;

    async fn put(engine: &Lossy<Memory>, key: &[u8]) -> Result<Committed, CommitError> {
        let mut tx = engine.begin().await?;
        tx.put(key, "")?;
        tx.commit().await
    }

    async fn has(engine: &Memory, key: &[u8]) -> bool {
        engine.begin().await.unwrap().get(key).await.unwrap().is_some()
    }

    #[test]
    fn an_unanswered_commit_was_applied_or_dropped_or_comes_later() {
        block_on(async {
            let (mut applied, mut dropped, mut late) = (0, 0, 0);
            let engine = Memory::new();
            let lossy = Lossy::new(engine.clone(), 7);
            for number in 0..100u8 {
                let key = [b'k', number];
                if put(&lossy, &key).await.is_ok() {
                    assert!(has(&engine, &key).await, "an answer was given for nothing");
                    continue;
                }
                let at_once = has(&engine, &key).await;
                lossy.settle().await;
                match (at_once, has(&engine, &key).await) {
                    (true, _) => applied += 1,
                    (false, false) => dropped += 1,
                    (false, true) => late += 1,
                }
            }
            assert!(applied > 0 && dropped > 0 && late > 0, "{applied} {dropped} {late}");
        });
    }

    #[test]
    fn a_seed_decides_every_fate() {
        let fates = |seed| {
            let lossy = Lossy::new(Memory::new(), seed);
            (0..50).map(|_| block_on(put(&lossy, b"k")).is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }
}
