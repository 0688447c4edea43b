//! An engine that counts what is committed through it: what one role costs apart from all others that share the engine below.

use bytes::Bytes;
use mundi_engine::{CommitError, Committed, Engine, EngineError, Page, RangeRead, Read, ReadPlan, Source, Transaction};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Clones share their counts.
#[derive(Debug, Clone)]
pub(super) struct Counting<E> {
    inner: E,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    commits: AtomicU64,
    bytes: AtomicU64,
}

impl<E> Counting<E> {
    pub(super) fn new(inner: E) -> Self {
        Self { inner, counts: Arc::default() }
    }

    /// Transactions that were committed with a write, and the bytes of the keys and values that they wrote.
    pub(super) fn written(&self) -> [u64; 2] {
        [self.counts.commits.load(Relaxed), self.counts.bytes.load(Relaxed)]
    }
}

impl<E: Engine> Engine for Counting<E> {
    type Transaction = CountingTransaction<E::Transaction>;

    async fn begin(&self) -> Result<Self::Transaction, EngineError> {
        Ok(CountingTransaction { inner: self.inner.begin().await?, counts: self.counts.clone(), writes: 0, bytes: 0 })
    }

    async fn begin_planned(
        &self,
        source: Source,
        plan: impl FnOnce() -> ReadPlan + Send,
    ) -> Result<Option<Self::Transaction>, EngineError> {
        let begun = self.inner.begin_planned(source, plan).await?;
        Ok(begun.map(|inner| CountingTransaction { inner, counts: self.counts.clone(), writes: 0, bytes: 0 }))
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        self.inner.watch(key, seen)
    }
}

pub(super) struct CountingTransaction<T> {
    inner: T,
    counts: Arc<Counts>,
    writes: u64,
    bytes: u64,
}

impl<T> CountingTransaction<T> {
    fn wrote(&mut self, bytes: usize) {
        self.writes += 1;
        self.bytes += bytes as u64;
    }
}

impl<T: Transaction> Transaction for CountingTransaction<T> {
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

    fn put(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        let value: Bytes = value.into();
        self.wrote(key.len() + value.len());
        self.inner.put(key, value)
    }

    fn put_stamped(&mut self, prefix: &[u8], suffix: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        let value: Bytes = value.into();
        self.wrote(prefix.len() + suffix.len() + value.len());
        self.inner.put_stamped(prefix, suffix, value)
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<(), EngineError> {
        self.wrote(key.len() + size_of_val(&delta));
        self.inner.add(key, delta)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.wrote(key.len());
        self.inner.delete(key)
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), EngineError> {
        self.wrote(start.len() + end.len());
        self.inner.delete_range(start, end)
    }

    async fn commit(self) -> Result<Committed, CommitError> {
        let Self { inner, counts, writes, bytes } = self;
        let committed = inner.commit().await?;
        counts.commits.fetch_add(u64::from(writes > 0), Relaxed);
        counts.bytes.fetch_add(bytes, Relaxed);
        Ok(committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_engine::Memory;

    #[test]
    fn commits_that_write_are_counted_with_their_bytes_and_others_are_not() {
        pollster::block_on(async {
            let engine = Counting::new(Memory::new());
            engine.begin().await.unwrap().commit().await.unwrap();
            assert_eq!(engine.written(), [0, 0]);
            let mut tx = engine.begin().await.unwrap();
            tx.put(b"key", "value").unwrap();
            tx.delete(b"other").unwrap();
            tx.commit().await.unwrap();
            assert_eq!(engine.written(), [1, 13]);
        });
    }
}
