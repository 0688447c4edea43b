//! Which pools there are. Only reads.

use super::{
    PoolError,
    create_pool::{SHARD_MARK, shard_name},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, decode_value,
        pool::{self, PoolRecord},
        world_meta::{self, WorldMeta},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, WorldName, limits};

/// All pools of a universe, by name.
#[derive(Debug, Clone, Copy)]
pub struct ListPools {
    pub universe: UniverseId,
}

impl Protocol for ListPools {
    type Output = Vec<(String, PoolRecord)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<(String, PoolRecord)>, StoreError> {
        let found = tx.range(pool::prefix(self.universe).span().read(limits::POOLS_MAX)).await?;
        let entry = |(key, value): &(bytes::Bytes, bytes::Bytes)| {
            Ok((pool::parse(self.universe, key)?, decode_value(Family::Pool, key, value)?))
        };
        found.items.iter().map(entry).collect()
    }
}

/// One pool by its name.
#[derive(Debug, Clone)]
pub struct FindPool {
    pub universe: UniverseId,
    pub name: WorldName,
}

impl Protocol for FindPool {
    type Output = PoolRecord;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<PoolRecord, StoreError> {
        let found = pool::read(tx, self.universe, self.name.as_str()).await?;
        found.ok_or_else(|| PoolError::NotFound(self.name.to_string()).into())
    }
}

/// The pool that a world is a shard of, by the world's name.
#[derive(Debug, Clone, Copy)]
pub struct PoolOfWorld {
    pub universe: UniverseId,
    pub world: WorldId,
}

impl Protocol for PoolOfWorld {
    type Output = Option<WorldName>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<WorldName>, StoreError> {
        let Self { universe, world } = *self;
        let Some(WorldMeta { name: Some(name), .. }) = world_meta::read(tx, universe, world).await? else {
            return Ok(None);
        };
        let (pool, shard) = match name.rsplit_once(SHARD_MARK) {
            Some((pool, shard)) if shard.parse::<u64>().is_ok() => (pool, shard.parse().unwrap_or(0)),
            _ => (&*name, 0),
        };
        // A pool of that name may be another one: the name of a shard is that of a world, too.
        for (pool, shard) in [(pool, shard), (&*name, 0)] {
            let Some(record) = pool::read(tx, universe, pool).await? else { continue };
            let Ok(pool) = pool.parse::<WorldName>() else { continue };
            if shard < record.shards && shard_name(&pool, shard)?.world(universe) == world {
                return Ok(Some(pool));
            }
        }
        Ok(None)
    }
}
