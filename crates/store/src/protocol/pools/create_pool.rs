//! Create a pool: its name is taken before its worlds are made.
//!
//! Guarantees: a pool of this name exists, with these shards and this configuration, and no world had one of their names before. The worlds
//! themselves are made after it; a caller that is interrupted runs it again and gets the same record, and with it the same worlds.
//! Unknown commit: run again; it is idempotent.

use super::PoolError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        named_world,
        pool::{self, PoolRecord},
        world_meta,
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldName, limits};

#[derive(Debug, Clone)]
pub struct CreatePool {
    pub universe: UniverseId,
    pub name: WorldName,
    pub record: PoolRecord,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolCreated {
    /// As it stands: of the first one who asked.
    pub record: PoolRecord,
    pub before: bool,
}

/// Between the name of a pool and the number of a further shard.
pub(super) const SHARD_MARK: &str = ".shard-";

/// The name of the world of a shard: the first one has the name of the pool.
pub fn shard_name(pool: &WorldName, shard: u64) -> Result<WorldName, PoolError> {
    let name = if shard == 0 { pool.to_string() } else { format!("{pool}{SHARD_MARK}{shard}") };
    name.parse().map_err(|_| PoolError::NameInvalid(pool.to_string()))
}

impl Protocol for CreatePool {
    type Output = PoolCreated;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<PoolCreated, StoreError> {
        let Self { universe, name, record } = self;
        if let Some(before) = pool::read(tx, *universe, name.as_str()).await? {
            let is_same = PoolRecord { created_at_ns: before.created_at_ns, ..record.clone() } == before;
            return match is_same {
                true => Ok(PoolCreated { record: before, before: true }),
                false => Err(PoolError::Exists(name.to_string()).into()),
            };
        }
        let pools = tx.range(pool::prefix(*universe).span().read(limits::POOLS_MAX)).await?;
        if pools.items.len() >= limits::POOLS_MAX {
            return Err(PoolError::Full.into());
        }
        for shard in 0..record.shards {
            let shard = shard_name(name, shard)?;
            let is_taken = named_world::read(tx, *universe, shard.as_str()).await?.is_some()
                || world_meta::read(tx, *universe, shard.world(*universe)).await?.is_some();
            if is_taken {
                return Err(PoolError::NameTaken(shard.to_string()).into());
            }
        }
        pool::write(tx, *universe, name.as_str(), record)?;
        Ok(PoolCreated { record: record.clone(), before: false })
    }
}
