//! The view of a watcher: active leases of a shard with the known state of their holders, and leases that wait for their reclaim. Only reads.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        lease_authority, lease_beat,
        lease_reclaim::{self, LeaseReclaim},
        world_meta::{self, WorldState},
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    pool::{LeaseAuthority, LeaseId},
};

/// A page of the active leases of a shard.
#[derive(Debug, Clone, Copy)]
pub struct WatchedLeases {
    pub universe: UniverseId,
    /// The world of the shard.
    pub pool: WorldId,
    /// The last lease of the page before.
    pub after: Option<LeaseId>,
    pub items_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedLease {
    pub lease: LeaseId,
    pub authority: LeaseAuthority,
    pub holder: HolderSeen,
    /// How often its holder said that it is there.
    pub beats: i64,
}

/// The holder of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderSeen {
    /// A world of the universe that goes on, or may go on.
    World,
    /// A world of the universe that was deleted, or is being deleted.
    Deleted,
    Archived,
    /// No world of the universe.
    Outside,
}

impl From<Option<WorldState>> for HolderSeen {
    fn from(state: Option<WorldState>) -> Self {
        match state {
            Some(WorldState::Live) => Self::World,
            Some(WorldState::Deleting | WorldState::Deleted) => Self::Deleted,
            Some(WorldState::Archived) => Self::Archived,
            None => Self::Outside,
        }
    }
}

impl Protocol for WatchedLeases {
    type Output = Vec<WatchedLease>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<WatchedLease>, StoreError> {
        let Self { universe, pool, after, items_max } = *self;
        let mut leases = Vec::new();
        for (lease, authority) in lease_authority::page(tx, universe, pool, after, items_max).await? {
            let world = WorldId::from_bytes(*authority.holder.as_bytes());
            let holder = world_meta::read(tx, universe, world).await?.map(|meta| meta.state).into();
            let beats = lease_beat::read(tx, universe, pool, lease).await?;
            leases.push(WatchedLease { lease, authority, holder, beats });
        }
        Ok(leases)
    }
}

/// A page of the leases of a shard that a watcher is to reclaim.
#[derive(Debug, Clone, Copy)]
pub struct WaitingReclaims {
    pub universe: UniverseId,
    /// The world of the shard.
    pub pool: WorldId,
    /// The last lease of the page before.
    pub after: Option<LeaseId>,
    pub items_max: usize,
}

impl Protocol for WaitingReclaims {
    type Output = Vec<(LeaseId, LeaseReclaim)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<(LeaseId, LeaseReclaim)>, StoreError> {
        let Self { universe, pool, after, items_max } = *self;
        lease_reclaim::page(tx, universe, pool, after, items_max).await
    }
}
