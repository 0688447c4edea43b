//! Leases: the right to run a world.

pub(in crate::protocol) mod acquire_lease;
pub(in crate::protocol) mod end_probation;
pub(in crate::protocol) mod find_holder;
pub(in crate::protocol) mod release_lease;
pub(in crate::protocol) mod renew_leases;
pub(in crate::protocol) mod settle_world;
pub(in crate::protocol) mod take_over_lease;

pub use acquire_lease::{AcquireLease, Acquired, Opening, Pass};
pub use end_probation::EndProbation;
pub use find_holder::FindHolder;
pub use release_lease::ReleaseLease;
pub use renew_leases::{RenewLeases, Renewed};
pub use settle_world::{SettleWorld, Settled};
pub use take_over_lease::{Purpose, TakeOverLease, TakenOver, WithdrawLeaseRequest};
