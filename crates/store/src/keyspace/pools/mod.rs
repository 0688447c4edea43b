//! Pools: who holds authority over what they lease, and what watchers go by.

pub mod lease_authority;
pub mod lease_beat;
pub mod lease_reclaim;
pub mod pool;
pub mod pool_watch;
