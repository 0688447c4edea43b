//! Pools: which there are, and the worlds that they consist of.

mod create_pool;
mod delete_pool;
mod list_pools;
mod pool_error;

pub use create_pool::{CreatePool, PoolCreated, shard_name};
pub use delete_pool::DeletePool;
pub use list_pools::{FindPool, ListPools};
pub use pool_error::PoolError;
