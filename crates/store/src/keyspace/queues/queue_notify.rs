//! `u/<u>/queues/notify/<kind>`: rises whenever work of a kind was queued, so that a worker can watch it.
//!
//! Written by `commit_turn`, once per turn and kind, by `heartbeat`, by `set_watch`, with the meta record of a world and with a dead letter. A counter; a latency signal only, on which nothing relies for
//! correctness.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, queue_shard::kind_hash};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::UniverseId;

/// The kind under which timers are queued.
pub const TIMERS: &str = "timer.set";

/// The kind under which workers come, drain and go.
pub const WORKERS: &str = "workers";

/// The kind under which worlds are created, deleted, named, labelled, and change their state.
pub const WORLDS: &str = "worlds";

/// The kind under which dead letters come and go.
pub const DEAD_LETTERS: &str = "dead_letters";

/// The kind under which the policies of watchers change.
pub const POOL_WATCHES: &str = "pools.watch";

pub fn key(universe: UniverseId, kind: &str) -> Key {
    KeyBuilder::universe(universe, Family::QueueNotify).u64(kind_hash(kind)).key()
}

/// The value of the counter, opaque. Read it before the queue: items that are queued afterwards change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen(Option<Bytes>);

impl Seen {
    /// How often it was raised between an earlier look and this one.
    pub fn raised_since(&self, before: &Self) -> u64 {
        let count = |seen: &Self| {
            let bytes = seen.0.as_deref().and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        count(self).wrapping_sub(count(before))
    }
}

pub async fn read<T: Transaction>(tx: &mut T, universe: UniverseId, kind: &str) -> Result<Seen, StoreError> {
    Ok(Seen(tx.get_snapshot(key(universe, kind).as_bytes()).await?))
}

/// Of several kinds.
pub async fn read_all<'k, T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    kinds: impl Iterator<Item = &'k str> + Clone + Send,
) -> Result<Vec<(&'k str, Seen)>, StoreError> {
    tx.prefetch(|| kinds.clone().map(|kind| key(universe, kind).planned()));
    let mut seen = Vec::new();
    for kind in kinds {
        seen.push((kind, read(tx, universe, kind).await?));
    }
    Ok(seen)
}

pub(crate) fn bump<T: Transaction>(tx: &mut T, universe: UniverseId, kind: &str) -> Result<(), StoreError> {
    Ok(tx.add(key(universe, kind).as_bytes(), 1)?)
}

/// Completes once something was queued since `seen`; perhaps earlier. Look, and wait again.
pub fn changed<E: Engine>(
    engine: &E,
    universe: UniverseId,
    kind: &str,
    seen: Seen,
) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
    let (engine, key) = (engine.clone(), key(universe, kind));
    async move { Ok(engine.watch(key.as_bytes(), seen.0).await?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_engine::Memory;

    #[test]
    fn a_bump_after_the_read_is_seen() {
        let universe = laws::universe();
        pollster::block_on(async {
            let engine = Memory::new();
            let seen = read(&mut engine.begin().await.unwrap(), universe, "k").await.unwrap();
            let mut tx = engine.begin().await.unwrap();
            bump(&mut tx, universe, "k").unwrap();
            tx.commit().await.unwrap();
            changed(&engine, universe, "k", seen).await.unwrap();
        });
    }
}
