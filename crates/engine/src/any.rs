//! One of the engines, chosen at run time: the layers above are compiled once, for this type.

#[cfg(feature = "foundationdb")]
use crate::foundationdb::{FoundationDb, FoundationDbTransaction};
#[cfg(feature = "testing")]
use crate::memory::{Memory, MemoryTransaction};
#[cfg(feature = "postgres")]
use crate::postgres::{Postgres, PostgresTransaction};
use crate::{
    CommitError, Committed, Embedded, Engine, EngineError, Page, RangeRead, Read, ReadPlan, Source, Transaction,
    embedded::EmbeddedTransaction,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;

/// The engine that a configuration names.
#[derive(Debug, Clone)]
pub enum AnyEngine {
    Embedded(Embedded),
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
    #[cfg(feature = "foundationdb")]
    FoundationDb(FoundationDb),
    #[cfg(feature = "testing")]
    Memory(Memory),
}

impl AnyEngine {
    /// Which one it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Embedded(_) => "embedded",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres",
            #[cfg(feature = "foundationdb")]
            Self::FoundationDb(_) => "foundationdb",
            #[cfg(feature = "testing")]
            Self::Memory(_) => "memory",
        }
    }
}

impl From<Embedded> for AnyEngine {
    fn from(engine: Embedded) -> Self {
        Self::Embedded(engine)
    }
}

#[cfg(feature = "postgres")]
impl From<Postgres> for AnyEngine {
    fn from(engine: Postgres) -> Self {
        Self::Postgres(engine)
    }
}

#[cfg(feature = "foundationdb")]
impl From<FoundationDb> for AnyEngine {
    fn from(engine: FoundationDb) -> Self {
        Self::FoundationDb(engine)
    }
}

#[cfg(feature = "testing")]
impl From<Memory> for AnyEngine {
    fn from(engine: Memory) -> Self {
        Self::Memory(engine)
    }
}

macro_rules! on_any {
    ($self:ident, $it:ident => $call:expr) => {
        match $self {
            Self::Embedded($it) => $call,
            #[cfg(feature = "postgres")]
            Self::Postgres($it) => $call,
            #[cfg(feature = "foundationdb")]
            Self::FoundationDb($it) => $call,
            #[cfg(feature = "testing")]
            Self::Memory($it) => $call,
        }
    };
}

impl Engine for AnyEngine {
    type Transaction = AnyTransaction;

    async fn begin(&self) -> Result<AnyTransaction, EngineError> {
        match self {
            Self::Embedded(engine) => engine.begin().await.map(|tx| AnyTransaction::Embedded(Box::new(tx))),
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => engine.begin().await.map(|tx| AnyTransaction::Postgres(Box::new(tx))),
            #[cfg(feature = "foundationdb")]
            Self::FoundationDb(engine) => engine.begin().await.map(|tx| AnyTransaction::FoundationDb(Box::new(tx))),
            #[cfg(feature = "testing")]
            Self::Memory(engine) => engine.begin().await.map(|tx| AnyTransaction::Memory(Box::new(tx))),
        }
    }

    /// Only engines at the other end of a network connection have a use for plans.
    async fn begin_planned(
        &self,
        source: Source,
        plan: impl FnOnce() -> ReadPlan + Send,
    ) -> Result<Option<AnyTransaction>, EngineError> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => {
                let begun = engine.begin_planned(source, plan).await?;
                Ok(begun.map(|tx| AnyTransaction::Postgres(Box::new(tx))))
            }
            #[cfg(feature = "foundationdb")]
            Self::FoundationDb(engine) => {
                let begun = engine.begin_planned(source, plan).await?;
                Ok(begun.map(|tx| AnyTransaction::FoundationDb(Box::new(tx))))
            }
            _ => {
                let _not_asked = (source, plan);
                Ok(None)
            }
        }
    }

    fn reclaim(&self) {
        on_any!(self, engine => engine.reclaim());
    }

    async fn disk_bytes(&self) -> Result<Option<u64>, EngineError> {
        on_any!(self, engine => engine.disk_bytes().await)
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        let watch: BoxFuture<'static, _> = on_any!(self, engine => Box::pin(engine.watch(key, seen)));
        watch
    }
}

/// A transaction on it.
pub enum AnyTransaction {
    Embedded(Box<EmbeddedTransaction>),
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresTransaction>),
    #[cfg(feature = "foundationdb")]
    FoundationDb(Box<FoundationDbTransaction>),
    #[cfg(feature = "testing")]
    Memory(Box<MemoryTransaction>),
}

impl Transaction for AnyTransaction {
    async fn version(&mut self) -> Result<u64, EngineError> {
        on_any!(self, tx => tx.version().await)
    }

    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        on_any!(self, tx => tx.prefetch(reads));
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        on_any!(self, tx => tx.get(key).await)
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        on_any!(self, tx => tx.get_snapshot(key).await)
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        on_any!(self, tx => tx.range(read).await)
    }

    fn put(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        on_any!(self, tx => tx.put(key, value))
    }

    fn put_stamped(&mut self, prefix: &[u8], suffix: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        on_any!(self, tx => tx.put_stamped(prefix, suffix, value))
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<(), EngineError> {
        on_any!(self, tx => tx.add(key, delta))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), EngineError> {
        on_any!(self, tx => tx.delete(key))
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), EngineError> {
        on_any!(self, tx => tx.delete_range(start, end))
    }

    async fn commit(self) -> Result<Committed, CommitError> {
        on_any!(self, tx => tx.commit().await)
    }
}
