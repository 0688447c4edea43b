//! Retention: leases that ended, with their members, and results of operations are kept for a window and then removed. A watermark keeps
//! the answer for leases: what is at or below it and is not there was retired.
//!
//! Each command removes a few that are over; it does not matter when, because what is over does not answer any more.

use super::{
    super::records::{Lease, cell},
    Core,
};
use crate::program::Stop;
use mundi_model::limits;

impl Core<'_> {
    /// The record in this cell does not answer from a slot on.
    pub(in super::super) fn retire_at(&mut self, slot: u64, of: &str) -> Result<(), Stop> {
        self.counts.retire_from = Some(self.counts.retire_from.map_or(slot, |from| from.min(slot)));
        self.host.put(&cell::retirement(slot, of), &[])
    }

    pub(in super::super) fn retire(&mut self) -> Result<(), Stop> {
        let Some(from) = self.counts.retire_from.filter(|from| *from <= self.slot) else { return Ok(()) };
        let after = cell::from_slot(cell::RETIREMENTS, from);
        let found = self.host.scan(cell::RETIREMENTS, Some(&after), limits::POOL_RETIRE_BATCH_MAX + 1)?;
        let mut next = None;
        for (index, (key, _)) in found.iter().enumerate() {
            let Some((slot, of)) = cell::slot_and_rest(cell::RETIREMENTS, key) else { continue };
            if slot > self.slot || index == limits::POOL_RETIRE_BATCH_MAX {
                next = Some(slot);
                break;
            }
            self.host.delete(key)?;
            self.remove_retired(of, slot)?;
        }
        self.counts.retire_from = next;
        Ok(())
    }

    /// The slot in which a timer should remove what is over next, if none is set for then: for someone who waits for room in a table. Else
    /// no timer does it, because whatever needs the room is a command and removes it itself.
    pub(in super::super) fn removal_to_set(&mut self) -> Option<u64> {
        let slot = self.slot_to_arm(self.counts.retire_from?, self.counts.armed_removal_slot)?;
        self.counts.armed_removal_slot = Some(slot);
        Some(slot)
    }

    fn remove_retired(&mut self, of: &str, slot: u64) -> Result<(), Stop> {
        if of.starts_with(cell::LEASES) {
            let Some(lease) = self.get::<Lease>(of)? else { return Ok(()) };
            for index in 0..lease.member_count {
                self.host.delete(&cell::member(lease.lease_id, index))?;
            }
            let watched = cell::watched(lease.lease_id);
            if self.host.get(&watched)?.is_some() {
                self.host.delete(&watched)?;
            }
            self.counts.leases -= 1;
            self.counts.members -= u64::from(lease.member_count);
            self.counts.retired_lsn = self.counts.retired_lsn.max(lease.lease_id.lsn().get());
            return self.host.delete(of);
        }
        if of.starts_with("operation/") {
            return self.forget_operation(of, slot);
        }
        self.host.delete(of)
    }
}
