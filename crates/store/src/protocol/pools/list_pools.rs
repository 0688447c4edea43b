//! Which pools there are. Only reads.

use super::PoolError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, decode_value,
        pool::{self, PoolRecord},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldName, limits};

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
