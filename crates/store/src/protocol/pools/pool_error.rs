//! Why a pool is not made, or not found.

use mundi_model::{Code, Coded, limits, pool::LeaseId};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("there is no pool `{0}`")]
    NotFound(String),
    #[error("the pool `{0}` exists already, with other shards or another configuration")]
    Exists(String),
    #[error("`{0}` is the name of a world, or of one that was deleted: choose another name")]
    NameTaken(String),
    #[error("`{0}` cannot be the name of a pool: it is too long for the names of its shards")]
    NameInvalid(String),
    #[error("a universe has at most {} pools", limits::POOLS_MAX)]
    Full,
    #[error("the pool `{0}` has live leases, or someone waits for one: release or reclaim them first")]
    InUse(String),
    #[error("the world is a shard of the pool `{0}` and runs no other program: delete the pool first")]
    RunsItsProgram(String),
    #[error("{0} is held by another holder")]
    HolderMismatch(LeaseId),
    #[error("{0} is not active, or has another epoch: this holder has no authority")]
    NoAuthority(LeaseId),
}

impl Coded for PoolError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::PoolNotFound,
            Self::Exists(_) => Code::PoolExists,
            Self::NameTaken(_) => Code::WorldExists,
            Self::NameInvalid(_) => Code::NameInvalid,
            Self::Full => Code::PoolsFull,
            Self::InUse(_) | Self::RunsItsProgram(_) => Code::PoolInUse,
            Self::HolderMismatch(_) => Code::HolderMismatch,
            Self::NoAuthority(_) => Code::StaleEpoch,
        }
    }
}
