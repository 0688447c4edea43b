//! The records of a pool: each is a cell of its own, so a snapshot, a fork and a diff cost what changed.

use super::result::{Outcome, ResultCode};
use minicbor::{Decode, Encode};
use mundi_model::{
    Hash, Height, InboxSeq,
    pool::{ClientId, HolderId, LeaseId, OperationId, ResourceId},
    watch::EvidenceKind,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Ownership is committed, and not yet in use.
    #[n(0)]
    Reserved,
    /// The holder's authority is live.
    #[n(1)]
    Active,
    /// The holder's authority is withdrawn; the resources cannot be reused yet.
    #[n(2)]
    Revoking,
    #[n(3)]
    Released,
    #[n(4)]
    Expired,
    #[n(5)]
    Revoked,
}

impl LeaseState {
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Released | Self::Expired | Self::Revoked)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Lease {
    #[n(0)]
    pub lease_id: LeaseId,
    #[n(1)]
    pub holder_id: HolderId,
    #[n(2)]
    pub state: LeaseState,
    /// Rises when the holder's authority ends.
    #[n(3)]
    pub lease_epoch: u64,
    #[n(4)]
    pub created_lsn: Height,
    /// From this slot on a lease that is still reserved may expire; 0 for one that is not reserved any more.
    #[n(5)]
    pub deadline_slot: u64,
    /// Where it ended; 0 while it has not.
    #[n(6)]
    pub released_lsn: Height,
    /// From this slot on it does not answer any more; 0 while it has not ended.
    #[n(7)]
    pub retire_after_slot: u64,
    #[n(8)]
    pub member_count: u32,
    /// Its states in order, with the command that made each. At most four.
    #[n(9)]
    pub history: Vec<Transition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Transition {
    #[n(0)]
    pub lsn: Height,
    #[n(1)]
    pub slot: u64,
    #[n(2)]
    pub state: LeaseState,
    #[n(3)]
    pub lease_epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct LeaseMember {
    #[n(0)]
    pub lease_id: LeaseId,
    #[n(1)]
    pub resource_id: ResourceId,
    #[n(2)]
    pub member_index: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ResourceState {
    #[n(0)]
    Available,
    #[n(1)]
    Reserved,
    #[n(2)]
    Active,
    #[n(3)]
    Revoking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Resource {
    #[n(0)]
    pub resource_id: ResourceId,
    #[n(1)]
    pub current_state: ResourceState,
    #[n(2)]
    pub current_lease_id: Option<LeaseId>,
    /// Rises with each change of the two above.
    #[n(3)]
    pub version: u64,
}

/// The result of a client's operation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Operation {
    #[n(0)]
    pub(super) fingerprint: Hash,
    #[n(1)]
    pub(super) outcome: Outcome,
    #[n(2)]
    pub(super) retire_after_slot: u64,
}

/// How full the tables are, and where their indexes begin. One small cell that each command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize)]
pub struct Counts {
    #[n(0)]
    pub resources: u64,
    #[n(1)]
    pub leases: u64,
    #[n(2)]
    pub members: u64,
    #[n(3)]
    pub operations: u64,
    #[n(4)]
    pub expirations: u64,
    /// In the queue.
    #[n(5)]
    pub waiting: u64,
    /// The greatest LSN of a lease that was retired: what is at or below it and is not there was retired.
    #[n(6)]
    pub retired_lsn: u64,
    /// No entry of the index of retirements is below this slot.
    #[n(7)]
    pub(super) retire_from: Option<u64>,
    /// No entry of the index of expirations is below this slot.
    #[n(8)]
    pub(super) expire_from: Option<u64>,
    /// The slot that the timer waits for.
    #[n(9)]
    pub(super) armed_slot: Option<u64>,
    /// Leases that have not ended.
    #[n(10)]
    pub live: u64,
    /// No reservations are taken: the pool is being deleted.
    #[n(11)]
    pub closed: bool,
    /// Nobody in the queue has a smaller ticket.
    #[n(12)]
    pub(super) waiting_from: Option<LeaseId>,
    #[n(13)]
    pub by_state: StateCounts,
    /// The slot that the timer waits for which makes room for the first one in the queue.
    #[n(14)]
    pub(super) armed_removal_slot: Option<u64>,
}

/// How many there are in each state that is not the last: the rest of the resources is available, the rest of the leases has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize)]
pub struct StateCounts {
    #[n(0)]
    pub leases_reserved: u64,
    #[n(1)]
    pub leases_active: u64,
    #[n(2)]
    pub leases_revoking: u64,
    #[n(3)]
    pub resources_reserved: u64,
    #[n(4)]
    pub resources_active: u64,
    #[n(5)]
    pub resources_revoking: u64,
}

impl Counts {
    /// A lease was made, or changed its state.
    pub(super) fn lease_moved(&mut self, from: Option<LeaseState>, to: LeaseState) {
        let mut add = |state, delta| match state {
            LeaseState::Reserved => shift(&mut self.by_state.leases_reserved, delta),
            LeaseState::Active => shift(&mut self.by_state.leases_active, delta),
            LeaseState::Revoking => shift(&mut self.by_state.leases_revoking, delta),
            LeaseState::Released | LeaseState::Expired | LeaseState::Revoked => {}
        };
        if let Some(from) = from {
            add(from, -1);
        }
        add(to, 1);
    }

    pub(super) fn resource_moved(&mut self, from: ResourceState, to: ResourceState) {
        let mut add = |state, delta| match state {
            ResourceState::Reserved => shift(&mut self.by_state.resources_reserved, delta),
            ResourceState::Active => shift(&mut self.by_state.resources_active, delta),
            ResourceState::Revoking => shift(&mut self.by_state.resources_revoking, delta),
            ResourceState::Available => {}
        };
        add(from, -1);
        add(to, 1);
    }
}

fn shift(count: &mut u64, delta: i64) {
    *count = count.saturating_add_signed(delta);
}

/// The knowledge about a lease beyond the kernel: evidence of watchers about its holder, and when it is reclaimed. It goes with its lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize)]
pub struct Watched {
    #[n(0)]
    pub evidence: Vec<Evidence>,
    /// So long after the revoke a watcher reclaims it.
    #[n(1)]
    pub reclaim_after_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Evidence {
    #[n(0)]
    pub lsn: Height,
    #[n(1)]
    pub slot: u64,
    #[n(2)]
    pub kind: EvidenceKind,
    #[n(3)]
    pub detail: String,
}

/// A resource, as the labels' layer sees it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Labelled {
    #[n(0)]
    pub(super) name: Option<String>,
    #[n(1)]
    pub(super) labels: Vec<String>,
    /// Where it stands among the available ones, if it is available.
    #[n(2)]
    pub(super) free_since: Option<Height>,
}

/// The resources of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub(super) struct LabelCount {
    #[n(0)]
    pub(super) total: u64,
    #[n(1)]
    pub(super) free: u64,
    /// No available resource of the label stands below this LSN.
    #[n(2)]
    pub(super) free_from: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum TicketState {
    #[n(0)]
    Waiting,
    #[n(1)]
    Granted,
    #[n(2)]
    Cancelled,
}

/// A place in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Ticket {
    #[n(0)]
    pub ticket: LeaseId,
    #[n(1)]
    pub holder_id: HolderId,
    #[n(2)]
    pub label: String,
    #[n(3)]
    pub count: u32,
    #[n(4)]
    pub ttl_slots: u64,
    #[n(5)]
    pub state: TicketState,
    /// The lease that it was granted.
    #[n(6)]
    pub lease_id: Option<LeaseId>,
    /// The call that is answered when it is granted.
    #[n(7)]
    #[serde(skip)]
    pub(super) reply_to: Option<InboxSeq>,
    #[n(8)]
    pub retire_after_slot: u64,
}

impl Outcome {
    pub(super) fn of(result: ResultCode, lsn: Height, slot: u64) -> Self {
        Self {
            result,
            lsn,
            slot,
            lease_id: None,
            lease_epoch: None,
            deadline_slot: None,
            resource_ids: Vec::new(),
            ticket: None,
        }
    }
}

/// Where each record has its cell.
pub(super) mod cell {
    use super::{ClientId, Height, LeaseId, OperationId, ResourceId};

    pub(in super::super) const HOME: &str = "pool/home";
    pub(in super::super) const COUNTS: &str = "pool/counts";
    pub(in super::super) const LEASES: &str = "lease/";
    pub(in super::super) const RESOURCES: &str = "resource/";
    pub(in super::super) const EXPIRATIONS: &str = "expiration/";
    pub(in super::super) const RETIREMENTS: &str = "retire/";
    pub(in super::super) const WAITING: &str = "queue/waiting/";

    pub(in super::super) fn lease(id: LeaseId) -> String {
        format!("{LEASES}{id}")
    }

    pub(in super::super) fn member(lease: LeaseId, index: u32) -> String {
        format!("member/{lease}/{index:04x}")
    }

    pub(in super::super) fn watched(lease: LeaseId) -> String {
        format!("watched/{lease}")
    }

    pub(in super::super) fn resource(id: ResourceId) -> String {
        format!("{RESOURCES}{id}")
    }

    pub(in super::super) fn operation(client: ClientId, operation: OperationId) -> String {
        format!("operation/{client}/{operation}")
    }

    pub(in super::super) fn expiration(slot: u64, lease: LeaseId) -> String {
        format!("{EXPIRATIONS}{slot:016x}/{lease}")
    }

    /// `of` is the cell that is retired.
    pub(in super::super) fn retirement(slot: u64, of: &str) -> String {
        format!("{RETIREMENTS}{slot:016x}/{of}")
    }

    /// Sorts before the place of a ticket in the queue, and after those of smaller tickets but for the nearest.
    pub(in super::super) fn before_waiting(ticket: LeaseId) -> String {
        let mut key = waiting(ticket);
        key.pop();
        key
    }

    /// Sorts before all entries of an index from this slot on, and after those of the slot before.
    pub(in super::super) fn from_slot(index: &str, slot: u64) -> String {
        format!("{index}{slot:016x}")
    }

    /// The slot and the rest of an entry of an index by slots.
    pub(in super::super) fn slot_and_rest<'k>(index: &str, key: &'k str) -> Option<(u64, &'k str)> {
        let (slot, rest) = key.strip_prefix(index)?.split_once('/')?;
        Some((u64::from_str_radix(slot, 16).ok()?, rest))
    }

    pub(in super::super) fn labelled(resource: ResourceId) -> String {
        format!("label/resource/{resource}")
    }

    pub(in super::super) fn label_count(label: &str) -> String {
        format!("label/count/{label}")
    }

    pub(in super::super) fn free_of(label: &str) -> String {
        format!("label/free/{label}/")
    }

    pub(in super::super) fn free(label: &str, since: Height, resource: ResourceId) -> String {
        format!("label/free/{label}/{:016x}/{resource}", since.get())
    }

    pub(in super::super) fn waiting(ticket: LeaseId) -> String {
        format!("{WAITING}{ticket}")
    }

    pub(in super::super) fn ticket(ticket: LeaseId) -> String {
        format!("queue/ticket/{ticket}")
    }
}
