//! The bounds of a pool. Each has a default and a hard maximum in [`limits`].

use minicbor::{Decode, Encode};
use mundi_model::{UniverseId, WorldId, limits};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolConfig {
    /// The length of a slot, the unit of all times of a pool.
    #[n(0)]
    pub slot_ms: u64,
    #[n(1)]
    pub resources_max: u64,
    #[n(2)]
    pub leases_max: u64,
    #[n(3)]
    pub members_max: u64,
    #[n(4)]
    pub bundle_max: u64,
    #[n(5)]
    pub operations_max: u64,
    #[n(6)]
    pub expirations_max: u64,
    #[n(7)]
    pub ttl_slots_max: u64,
    /// How long a lease that ended still answers.
    #[n(8)]
    pub history_slots: u64,
    /// How long a result is kept for those who send the same operation again.
    #[n(9)]
    pub operation_slots: u64,
    #[n(10)]
    pub queue_max: u64,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            slot_ms: limits::POOL_SLOT_MS_DEFAULT,
            resources_max: limits::POOL_RESOURCES_DEFAULT,
            leases_max: limits::POOL_LEASES_DEFAULT,
            members_max: limits::POOL_MEMBERS_DEFAULT,
            bundle_max: limits::POOL_BUNDLE_DEFAULT,
            operations_max: limits::POOL_OPERATIONS_DEFAULT,
            expirations_max: limits::POOL_EXPIRATIONS_DEFAULT,
            ttl_slots_max: limits::POOL_TTL_SLOTS_DEFAULT,
            history_slots: limits::POOL_HISTORY_SLOTS_DEFAULT,
            operation_slots: limits::POOL_OPERATION_SLOTS_DEFAULT,
            queue_max: limits::POOL_QUEUE_DEFAULT,
        }
    }
}

/// A bound that a pool cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is {value}; it must be at least {min} and at most {max}")]
pub struct PoolConfigInvalid {
    name: &'static str,
    value: u64,
    min: u64,
    max: u64,
}

impl PoolConfig {
    pub fn check(&self) -> Result<(), PoolConfigInvalid> {
        let bounds = [
            ("slot_ms", self.slot_ms, 1, limits::POOL_SLOT_MS_MAX),
            ("resources_max", self.resources_max, 1, limits::POOL_RESOURCES_MAX),
            ("leases_max", self.leases_max, 1, limits::POOL_LEASES_MAX),
            ("members_max", self.members_max, 1, limits::POOL_MEMBERS_MAX),
            ("bundle_max", self.bundle_max, 1, limits::POOL_BUNDLE_MAX),
            ("operations_max", self.operations_max, 1, limits::POOL_OPERATIONS_MAX),
            ("expirations_max", self.expirations_max, 1, limits::POOL_EXPIRATIONS_MAX),
            ("ttl_slots_max", self.ttl_slots_max, 1, u64::MAX),
            ("history_slots", self.history_slots, 1, u64::MAX),
            ("operation_slots", self.operation_slots, 1, u64::MAX),
            ("queue_max", self.queue_max, 0, limits::POOL_QUEUE_MAX),
        ];
        match bounds.into_iter().find(|(_, value, min, max)| value < min || value > max) {
            Some((name, value, min, max)) => Err(PoolConfigInvalid { name, value, min, max }),
            None => Ok(()),
        }
    }

    pub(super) fn slot(&self, logical_now_ns: u64) -> u64 {
        logical_now_ns / self.slot_ns()
    }

    /// Where a slot begins.
    pub(super) fn slot_start_ns(&self, slot: u64) -> u64 {
        slot.saturating_mul(self.slot_ns())
    }

    fn slot_ns(&self) -> u64 {
        self.slot_ms.max(1).saturating_mul(1_000_000)
    }
}

/// A pool's configuration as it is stored, with the place where the pool is an authority. A fork or an imported copy keeps the
/// cell and is somewhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct Home {
    #[n(0)]
    pub(super) universe: UniverseId,
    #[n(1)]
    pub(super) world: WorldId,
    #[n(2)]
    pub(super) shard: u64,
    #[n(3)]
    pub(super) config: PoolConfig,
}
