//! `u/<u>/w/<w>/notify/counter`: rises whenever something was enqueued, so that a worker can watch it.
//!
//! Written by `enqueue`, with every item. A counter: while it is unchanged, the inbox has no new item (`peek_inbox`).

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, newest};
use bytes::Bytes;
use mundi_engine::{Engine, ReadPlan, Source, Transaction};
use mundi_model::{UniverseId, WorldId};

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::Notify).key()
}

/// The value of the counter, opaque. Read it before the inbox: items that are enqueued afterwards change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen(Option<Bytes>);

#[cfg(test)]
impl Seen {
    pub(crate) fn of(count: u64) -> Self {
        Self(Some(Bytes::copy_from_slice(&count.to_le_bytes())))
    }
}

pub(crate) async fn read<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<Seen, StoreError> {
    Ok(Seen(tx.get_snapshot(key(universe, world).as_bytes()).await?))
}

/// Its present value, and the version up to which that is true.
pub(crate) async fn read_newest<E: Engine>(
    engine: &E,
    universe: UniverseId,
    world: WorldId,
) -> Result<(Seen, u64), StoreError> {
    let (value, version) = newest(engine, &key(universe, world)).await?;
    Ok((Seen(value), version))
}

/// As [`read_newest`], from the cache of an engine that has one, so that it may be long past; `None` on other engines.
pub(crate) async fn read_cached<E: Engine>(
    engine: &E,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<(Seen, u64)>, StoreError> {
    let key = key(universe, world);
    let Some(mut tx) = engine.begin_planned(Source::Cache, || ReadPlan::reads([key.planned()])).await? else {
        return Ok(None);
    };
    Ok(Some((Seen(tx.get(key.as_bytes()).await?), tx.version().await?)))
}

/// As [`read`], for who depends on it.
pub(crate) async fn depend<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Seen, StoreError> {
    Ok(Seen(tx.get(key(universe, world).as_bytes()).await?))
}

pub(crate) fn bump<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<(), StoreError> {
    Ok(tx.add(key(universe, world).as_bytes(), 1)?)
}

/// Completes once something was enqueued since `seen`; perhaps earlier. Look, and wait again.
pub fn changed<E: Engine>(
    engine: &E,
    universe: UniverseId,
    world: WorldId,
    seen: Seen,
) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
    let (engine, key) = (engine.clone(), key(universe, world));
    async move { Ok(engine.watch(key.as_bytes(), seen.0).await?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_engine::Memory;

    #[test]
    fn a_bump_after_the_read_is_seen() {
        let (universe, world) = (laws::universe(), laws::world());
        pollster::block_on(async {
            let engine = Memory::new();
            let seen = read(&mut engine.begin().await.unwrap(), universe, world).await.unwrap();
            let mut tx = engine.begin().await.unwrap();
            bump(&mut tx, universe, world).unwrap();
            tx.commit().await.unwrap();
            changed(&engine, universe, world, seen).await.unwrap();
        });
    }
}
