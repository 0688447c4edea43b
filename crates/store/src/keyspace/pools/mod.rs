//! Pools: who holds authority over what they lease.

pub mod lease_authority;
pub mod pool;
