//! Children of a world: spawned by its turns, dispatched in order, started at most once, and ended exactly once.
//!
//! `spawn_children` is a part of the turn's transaction. Every other change of a phase is a protocol of its own, which writes the token, the event and
//! the parent's inbox item together (`transition`), and checks the lease of the executor.

pub(in crate::protocol) mod cancel_child;
mod cancel_children;
mod carry_children;
mod child_error;
mod debit_child;
mod end_world_child;
mod extend_leases;
mod fail_queued_child;
mod finish_child;
mod hold_parent;
mod lease_child;
mod list_children;
mod recover_child;
mod request;
mod set_budget;
pub(in crate::protocol) mod spawn_children;
mod start_child;
mod start_world_child;
mod transition;

pub use cancel_child::{CancelChild, CancelOutcome, CancelRequested};
pub use cancel_children::BeginCancelChildren;
pub use carry_children::{CarriedChild, CarriedChildren, ReadCarried, ReadEnded};
pub use child_error::ChildError;
pub use debit_child::{DebitChild, Debited};
pub use end_world_child::EndWorldChild;
pub use extend_leases::{ExtendChildLeases, LeaseHeld};
pub use fail_queued_child::FailQueuedChild;
pub use finish_child::{ChildFinish, ChildFinished, FinishChild};
pub use hold_parent::HoldParent;
pub use lease_child::{ChildDispatched, LeaseChild};
pub use list_children::{
    BudgetLines, DescribeChild, ListChildParents, ListChildren, ReadBudget, ReadChildEvents, ReadChildState,
};
pub use recover_child::{RecoverChild, Recovered};
pub use request::{NoteRequest, RequestName};
pub use set_budget::SetBudget;
pub use start_child::StartChild;
pub use start_world_child::{StartWorldChild, start_world_child};

use mundi_model::{UniverseId, WorldId, child::ChildId};

/// Proof of the right to work on a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildClaim {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: ChildId,
    /// Drawn for the lease: see [`ChildLease`](mundi_model::child::ChildLease).
    pub token: [u8; 16],
}
