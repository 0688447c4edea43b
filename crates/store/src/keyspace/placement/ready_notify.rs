//! `u/<u>/ready/notify/<shard>`: rises whenever a world of the shard got work.
//!
//! Written by `enqueue`. A counter, for those who wait for any world at all; nothing relies on it.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, Shard};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::UniverseId;

pub fn key(universe: UniverseId, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::ReadyNotify).u8(shard.get()).key()
}

pub(crate) fn bump<T: Transaction>(tx: &mut T, universe: UniverseId, shard: Shard) -> Result<(), StoreError> {
    Ok(tx.add(key(universe, shard).as_bytes(), 1)?)
}

/// The value of the counter, opaque. Read it before the hints: a hint that is written afterwards changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen(Option<Bytes>);

pub(crate) async fn read<T: Transaction>(tx: &mut T, universe: UniverseId, shard: Shard) -> Result<Seen, StoreError> {
    Ok(Seen(tx.get_snapshot(key(universe, shard).as_bytes()).await?))
}

/// Completes once a world of the shard got work since `seen`; perhaps earlier. Look, and wait again.
pub fn changed<E: Engine>(
    engine: &E,
    universe: UniverseId,
    shard: Shard,
    seen: Seen,
) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
    let (engine, key) = (engine.clone(), key(universe, shard));
    async move { Ok(engine.watch(key.as_bytes(), seen.0).await?) }
}
