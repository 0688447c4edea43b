//! Pools: which there are, and the worlds that they consist of.

mod beat_lease;
mod create_pool;
mod delete_pool;
mod list_pools;
mod list_watches;
mod pool_error;
mod set_watch;
mod watched_leases;

pub use beat_lease::BeatLease;
pub use create_pool::{CreatePool, PoolCreated, shard_name};
pub use delete_pool::DeletePool;
pub use list_pools::{FindPool, ListPools, PoolOfWorld};
pub use list_watches::{FindWatch, ListWatches, WatchedPool, Watches};
pub use pool_error::PoolError;
pub use set_watch::SetWatch;
pub use watched_leases::{HolderSeen, WaitingReclaims, WatchedLease, WatchedLeases};
