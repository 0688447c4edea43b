//! `reserve_bundle`: one lease over several resources, as a whole or not at all. A single resource is a bundle of one.

use super::{
    super::{
        records::{Lease, LeaseMember, LeaseState, Resource, ResourceState, Transition, cell},
        result::{Outcome, Refused, ResultCode},
    },
    Core,
};
use mundi_model::{
    Height,
    mutants::{Mutant, planted},
    pool::{HolderId, LeaseId, ResourceId},
};
use std::collections::BTreeSet;

impl Core<'_> {
    pub(in super::super) fn reserve_bundle(
        &mut self,
        ids: &[ResourceId],
        holder: HolderId,
        ttl_slots: u64,
    ) -> Result<Outcome, Refused> {
        let deadline_slot = self.check_terms(ids.len() as u64, ttl_slots)?;
        let resources = self.check_members(ids)?;
        self.check_tables(ids.len() as u64)?;
        let lease = self.new_lease(holder, deadline_slot, ids);
        self.made_lease = true;
        self.counts.leases += 1;
        self.counts.live += 1;
        self.counts.lease_moved(None, LeaseState::Reserved);
        self.counts.members += ids.len() as u64;
        self.put(&cell::lease(lease.lease_id), &lease)?;
        self.add_expiration(&lease)?;
        for (member_index, mut resource) in (0u32..).zip(resources) {
            let member = LeaseMember { lease_id: lease.lease_id, resource_id: resource.resource_id, member_index };
            self.put(&cell::member(lease.lease_id, member_index), &member)?;
            if planted(Mutant::BundleHalf) && member_index > 0 {
                continue;
            }
            self.set_resource(&mut resource, Some((ResourceState::Reserved, lease.lease_id)))?;
        }
        Ok(Outcome { resource_ids: ids.to_vec(), ..self.outcome_of(&lease) })
    }

    /// The size of the bundle and the time that it is reserved for; gives the slot from which it may expire.
    pub(in super::super) fn check_terms(&self, members: u64, ttl_slots: u64) -> Result<u64, Refused> {
        if members == 0 || members > self.config().bundle_max {
            return Err(ResultCode::BundleTooLarge.into());
        }
        if ttl_slots == 0 || ttl_slots > self.config().ttl_slots_max {
            return Err(ResultCode::TtlOutOfRange.into());
        }
        self.later(ttl_slots)
    }

    /// The first member that stands in the way decides.
    fn check_members(&mut self, ids: &[ResourceId]) -> Result<Vec<Resource>, Refused> {
        let (mut seen, mut resources) = (BTreeSet::new(), Vec::with_capacity(ids.len()));
        for id in ids {
            let resource: Option<Resource> = self.get(&cell::resource(*id))?;
            let resource = resource.ok_or(Refused::At(ResultCode::ResourceNotFound, *id))?;
            if resource.current_state != ResourceState::Available || !seen.insert(*id) {
                return Err(Refused::At(ResultCode::ResourceBusy, *id));
            }
            resources.push(resource);
        }
        Ok(resources)
    }

    fn check_tables(&self, members: u64) -> Result<(), Refused> {
        let (config, counts) = (self.config(), &self.counts);
        let full = if counts.leases >= config.leases_max {
            ResultCode::LeaseTableFull
        } else if members > config.members_max.saturating_sub(counts.members) {
            ResultCode::LeaseMemberTableFull
        } else if counts.expirations >= config.expirations_max {
            ResultCode::ExpirationIndexFull
        } else {
            return Ok(());
        };
        Err(full.into())
    }

    fn new_lease(&self, holder_id: HolderId, deadline_slot: u64, ids: &[ResourceId]) -> Lease {
        let (state, lease_epoch) = (LeaseState::Reserved, 1);
        Lease {
            lease_id: LeaseId::new(self.shard(), self.lsn),
            holder_id,
            state,
            lease_epoch,
            created_lsn: self.lsn,
            deadline_slot,
            released_lsn: Height::GENESIS,
            retire_after_slot: 0,
            #[expect(clippy::cast_possible_truncation, reason = "a bundle is bounded far below")]
            member_count: ids.len() as u32,
            history: vec![Transition { lsn: self.lsn, slot: self.slot, state, lease_epoch }],
        }
    }
}
