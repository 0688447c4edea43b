//! `expire`: the end of a reservation that was not activated in time. The timer of the pool's world sends it.

use super::{
    super::{
        records::{Lease, LeaseState, cell},
        result::{Outcome, Refused, ResultCode},
    },
    Core,
};
use crate::program::Stop;
use mundi_model::{limits, pool::LeaseId};

impl Core<'_> {
    /// Touches a lease that is reserved and whose deadline is this one and has come; else it does nothing.
    pub(in super::super) fn expire(&mut self, id: LeaseId, deadline_slot: u64) -> Result<Outcome, Refused> {
        let mut lease = self.lease(id)?;
        let is_due = lease.deadline_slot == deadline_slot && deadline_slot <= self.slot;
        if lease.state != LeaseState::Reserved || !is_due {
            return Ok(self.outcome(ResultCode::Noop));
        }
        let retire_after_slot = self.later(self.config().history_slots)?;
        self.end(&mut lease, LeaseState::Expired, retire_after_slot)?;
        Ok(self.outcome_of(&lease))
    }

    /// Expires the leases that are due, in the order of their deadlines, as many as one step may: bounded by their members, too, because
    /// those are the work.
    pub(in super::super) fn expire_due(&mut self) -> Result<(), Stop> {
        self.counts.armed_slot = None;
        let mut members = 0;
        for (slot, lease) in self.next_expirations(limits::POOL_EXPIRE_BATCH_MAX)? {
            let of_lease = self.get::<Lease>(&cell::lease(lease))?.map_or(0, |lease| u64::from(lease.member_count));
            if slot > self.slot || members > 0 && members + of_lease > limits::POOL_EXPIRE_MEMBERS_MAX {
                break;
            }
            members += of_lease;
            match self.expire(lease, slot) {
                Ok(_) => {}
                Err(Refused::Stop(stop)) => return Err(stop),
                // Its history would end beyond the last slot: it stays reserved, which is late reuse, and is not tried for ever.
                Err(_) => self.drop_expiration(slot, lease)?,
            }
        }
        self.counts.expire_from = self.next_expirations(1)?.first().map(|(slot, _)| *slot);
        Ok(())
    }

    fn next_expirations(&mut self, items_max: usize) -> Result<Vec<(u64, LeaseId)>, Stop> {
        let Some(from) = self.counts.expire_from else { return Ok(Vec::new()) };
        let after = cell::from_slot(cell::EXPIRATIONS, from);
        let found = self.host.scan(cell::EXPIRATIONS, Some(&after), items_max)?;
        let entry = |(key, _): &(String, Vec<u8>)| {
            let (slot, lease) = cell::slot_and_rest(cell::EXPIRATIONS, key)?;
            Some((slot, lease.parse().ok()?))
        };
        Ok(found.iter().filter_map(entry).collect())
    }

    pub(super) fn add_expiration(&mut self, lease: &Lease) -> Result<(), Stop> {
        let slot = lease.deadline_slot;
        self.counts.expirations += 1;
        self.counts.expire_from = Some(self.counts.expire_from.map_or(slot, |from| from.min(slot)));
        self.host.put(&cell::expiration(slot, lease.lease_id), &[])
    }

    /// The lease is not reserved any more.
    pub(super) fn remove_expiration(&mut self, lease: &mut Lease) -> Result<(), Stop> {
        let slot = std::mem::take(&mut lease.deadline_slot);
        self.drop_expiration(slot, lease.lease_id)
    }

    fn drop_expiration(&mut self, slot: u64, lease: LeaseId) -> Result<(), Stop> {
        let key = cell::expiration(slot, lease);
        if self.host.get(&key)?.is_some() {
            self.counts.expirations -= 1;
            self.host.delete(&key)?;
        }
        if self.counts.expirations == 0 {
            self.counts.expire_from = None;
        }
        Ok(())
    }

    /// The slot that the pool's timer should wait for, if that is another one than it waits for: the earliest deadline. A timer that
    /// is set for an earlier slot stays; it finds nothing and is set again.
    pub(in super::super) fn timer_to_set(&mut self) -> Option<u64> {
        let slot = self.slot_to_arm(self.counts.expire_from?, self.counts.armed_slot)?;
        self.counts.armed_slot = Some(slot);
        Some(slot)
    }

    /// The slot that a timer has to be set for, if none is set that fires by then. One that is long overdue was lost with a step that
    /// failed, and is set again. (Not sooner: it may be on its way, and setting it again would withdraw it.)
    pub(super) fn slot_to_arm(&self, wanted: u64, armed: Option<u64>) -> Option<u64> {
        let Some(armed) = armed else { return Some(wanted) };
        let lost_from_ns =
            self.config().slot_start_ns(armed).saturating_add(limits::POOL_TIMER_LATE_MS_MAX * 1_000_000);
        if lost_from_ns <= self.host.logical_now_ns() {
            return Some(wanted.max(self.slot));
        }
        Some(wanted).filter(|wanted| *wanted < armed)
    }
}
