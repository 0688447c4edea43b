//! The lease kernel itself: explicit resources, leases and their members, and nothing else. It knows no labels, no queue, no liveness
//! and no clock but the slot of the record.
//!
//! Each command checks everything before it changes anything, so a refusal changes nothing. Checks of a holder's command come in this
//! order: not found, holder, epoch, ended, state. Late reuse of a resource is fine, early reuse never: only `release`, `expire` and
//! `reclaim` make a resource available again, and `revoke` does not.

mod control;
mod dedupe;
mod expire;
mod holder;
mod reserve;
mod resources;
mod retention;

pub(super) use self::{dedupe::OperationKey, holder::HolderToken};

use super::{
    config::{Home, PoolConfig},
    records::{Counts, Lease, LeaseMember, LeaseState, Resource, ResourceState, Transition, cell},
    result::{Outcome, Refused, ResultCode},
};
use crate::program::{Host, Stop, View};
use minicbor::{Decode, Encode};
use mundi_model::{
    Hash, Height, cbor,
    mutants::{Mutant, planted},
    pool::{AuthorityChange, LeaseAuthority, LeaseId, ResourceId},
};

pub(super) struct Core<'h> {
    pub(super) host: &'h mut dyn Host,
    home: Home,
    pub(super) counts: Counts,
    before: Counts,
    /// The slot of the record.
    pub(super) slot: u64,
    pub(super) lsn: Height,
    /// Resources that became available (`true`) or ceased to be, in order: for the layers in front.
    pub(super) changed: Vec<(ResourceId, bool)>,
    /// The record made a lease, and with it used the id that its height gives.
    pub(super) made_lease: bool,
}

/// A cell, decoded.
pub(super) fn read<T: for<'b> Decode<'b, ()> + Encode<()>>(view: &mut dyn View, key: &str) -> Result<Option<T>, Stop> {
    let Some(bytes) = view.get(key)? else { return Ok(None) };
    match cbor::decode(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(view.refuse(&format!("the cell `{key}`: {error}"))),
    }
}

/// The shard of a world that is a pool. A copy has one of its own, so that no lease of it has the id of one of the original.
pub(super) fn shard_of(home: &Home, view: &dyn View) -> u64 {
    if is_authority(home, view) {
        return home.shard;
    }
    let hash = Hash::of_parts([b"mundi.pool.copy.1\0", &view.universe().as_bytes()[..], view.world().as_bytes()]);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_be_bytes(bytes) | 1 << 63
}

/// Whether a world is the pool that was created, and not a fork or an imported copy of it.
pub(super) fn is_authority(home: &Home, view: &dyn View) -> bool {
    (home.universe, home.world) == (view.universe(), view.world())
}

impl<'h> Core<'h> {
    /// `None` for a world that was not configured as a pool.
    pub(super) fn open(host: &'h mut dyn Host) -> Result<Option<Self>, Stop> {
        let Some(home) = read::<Home>(host, cell::HOME)? else { return Ok(None) };
        let counts: Counts = read(host, cell::COUNTS)?.unwrap_or_default();
        let (slot, lsn) = (home.config.slot(host.logical_now_ns()), host.height());
        Ok(Some(Self { host, home, counts, before: counts, slot, lsn, changed: Vec::new(), made_lease: false }))
    }

    pub(super) fn config(&self) -> &PoolConfig {
        &self.home.config
    }

    /// Writes what was counted.
    pub(super) fn close(self) -> Result<(), Stop> {
        if self.counts != self.before {
            self.host.put(cell::COUNTS, &cbor::encode(&self.counts))?;
        }
        Ok(())
    }

    pub(super) fn shard(&self) -> u64 {
        shard_of(&self.home, self.host)
    }

    pub(super) fn get<T: for<'b> Decode<'b, ()> + Encode<()>>(&mut self, key: &str) -> Result<Option<T>, Stop> {
        read(self.host, key)
    }

    pub(super) fn put(&mut self, key: &str, value: &impl Encode<()>) -> Result<(), Stop> {
        self.host.put(key, &cbor::encode(value))
    }

    pub(super) fn outcome(&self, result: ResultCode) -> Outcome {
        Outcome::of(result, self.lsn, self.slot)
    }

    fn outcome_of(&self, lease: &Lease) -> Outcome {
        Outcome {
            lease_id: Some(lease.lease_id),
            lease_epoch: Some(lease.lease_epoch),
            deadline_slot: Some(lease.deadline_slot).filter(|slot| *slot > 0),
            ..self.outcome(ResultCode::Ok)
        }
    }

    /// A lease that answers.
    fn lease(&mut self, id: LeaseId) -> Result<Lease, Refused> {
        let lease: Option<Lease> = self.get(&cell::lease(id))?;
        match lease {
            Some(lease) if self.is_over(lease.retire_after_slot) => Err(ResultCode::LeaseRetired.into()),
            Some(lease) => Ok(lease),
            None if self.was_retired(id) => Err(ResultCode::LeaseRetired.into()),
            None => Err(ResultCode::LeaseNotFound.into()),
        }
    }

    /// Whether the time until which a record answers has passed; 0 is no time.
    pub(super) fn is_over(&self, retire_after_slot: u64) -> bool {
        retire_after_slot > 0 && retire_after_slot <= self.slot
    }

    fn was_retired(&self, id: LeaseId) -> bool {
        let is_ours = id.shard() == self.shard() || id.shard() == self.home.shard;
        is_ours && id.lsn().get() > 0 && id.lsn().get() <= self.counts.retired_lsn
    }

    fn later(&self, slots: u64) -> Result<u64, Refused> {
        self.slot.checked_add(slots).ok_or_else(|| ResultCode::SlotOverflow.into())
    }

    /// Moves a lease and its members to another state. What ends the holder's authority raises the epoch.
    fn transition(&mut self, lease: &mut Lease, state: LeaseState) -> Result<(), Stop> {
        let was = lease.state;
        if was == LeaseState::Reserved {
            self.remove_expiration(lease)?;
        }
        let ends_authority = matches!(state, LeaseState::Released | LeaseState::Expired | LeaseState::Revoking);
        if ends_authority && !(planted(Mutant::LeaseEpochKept) && state == LeaseState::Released) {
            lease.lease_epoch += 1;
        }
        lease.state = state;
        self.counts.lease_moved(Some(was), state);
        let (lsn, slot, lease_epoch) = (self.lsn, self.slot, lease.lease_epoch);
        lease.history.push(Transition { lsn, slot, state, lease_epoch });
        self.publish_authority(lease, was)?;
        let frees = state.is_terminal() || planted(Mutant::RevokeFrees) && state == LeaseState::Revoking;
        self.set_members(lease, if frees { None } else { Some(resource_state(state)) })?;
        self.put(&cell::lease(lease.lease_id), lease)
    }

    /// The lease ends here, and answers until a slot.
    fn end(&mut self, lease: &mut Lease, state: LeaseState, retire_after_slot: u64) -> Result<(), Stop> {
        self.counts.live -= 1;
        lease.released_lsn = self.lsn;
        lease.retire_after_slot = retire_after_slot;
        self.transition(lease, state)?;
        self.retire_at(retire_after_slot, &cell::lease(lease.lease_id))
    }

    fn set_members(&mut self, lease: &Lease, state: Option<ResourceState>) -> Result<(), Stop> {
        for index in 0..lease.member_count {
            let member: Option<LeaseMember> = self.get(&cell::member(lease.lease_id, index))?;
            let Some(member) = member else { return Err(self.host.refuse("a member of a lease is missing")) };
            let key = cell::resource(member.resource_id);
            let Some(mut resource) = self.get::<Resource>(&key)? else {
                return Err(self.host.refuse("a resource of a lease is missing"));
            };
            self.set_resource(&mut resource, state.map(|state| (state, lease.lease_id)))?;
        }
        Ok(())
    }

    fn set_resource(&mut self, resource: &mut Resource, owner: Option<(ResourceState, LeaseId)>) -> Result<(), Stop> {
        let was = resource.current_state;
        let was_available = was == ResourceState::Available;
        resource.current_state = owner.map_or(ResourceState::Available, |(state, _)| state);
        self.counts.resource_moved(was, resource.current_state);
        resource.current_lease_id = owner.map(|(_, lease)| lease);
        resource.version += 1;
        if was_available != owner.is_none() {
            self.changed.push((resource.resource_id, owner.is_none()));
        }
        self.put(&cell::resource(resource.resource_id), resource)
    }

    /// A copy of a pool is no authority over anything.
    fn publish_authority(&mut self, lease: &Lease, was: LeaseState) -> Result<(), Stop> {
        let id = lease.lease_id;
        let change = match (was, lease.state) {
            (_, LeaseState::Active) => {
                AuthorityChange::granted(id, LeaseAuthority { epoch: lease.lease_epoch, holder: lease.holder_id })
            }
            (LeaseState::Active, LeaseState::Revoking) if planted(Mutant::LeaseAuthorityKept) => return Ok(()),
            (LeaseState::Active, _) => AuthorityChange::withdrawn(id),
            _ => return Ok(()),
        };
        self.publish(change)
    }

    /// A copy of a pool publishes nothing.
    pub(super) fn publish(&mut self, change: AuthorityChange) -> Result<(), Stop> {
        match is_authority(&self.home, self.host) {
            true => self.host.publish_authority(change),
            false => Ok(()),
        }
    }
}

/// The state of the members of a lease that has not ended.
fn resource_state(state: LeaseState) -> ResourceState {
    match state {
        LeaseState::Reserved => ResourceState::Reserved,
        LeaseState::Active => ResourceState::Active,
        LeaseState::Revoking => ResourceState::Revoking,
        LeaseState::Released | LeaseState::Expired | LeaseState::Revoked => ResourceState::Available,
    }
}
