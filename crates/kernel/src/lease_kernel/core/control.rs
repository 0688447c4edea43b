//! `revoke` and `reclaim`: what an operator or a watcher does, without the holder's token.
//!
//! Revoke withdraws the holder's authority at once and frees nothing: the holder may still act outside. Only the explicit reclaim, sent by
//! someone who has evidence that it does not, makes the resources available.

use super::{
    super::{
        records::{Lease, LeaseState},
        result::{Outcome, Refused, ResultCode},
    },
    Core,
};
use mundi_model::pool::LeaseId;

impl Core<'_> {
    pub(in super::super) fn revoke(&mut self, id: LeaseId) -> Result<Outcome, Refused> {
        let mut lease = self.in_state(id, LeaseState::Active)?;
        self.transition(&mut lease, LeaseState::Revoking)?;
        Ok(self.outcome_of(&lease))
    }

    pub(in super::super) fn reclaim(&mut self, id: LeaseId) -> Result<Outcome, Refused> {
        let mut lease = self.in_state(id, LeaseState::Revoking)?;
        let retire_after_slot = self.later(self.config().history_slots)?;
        self.end(&mut lease, LeaseState::Revoked, retire_after_slot)?;
        Ok(self.outcome_of(&lease))
    }

    /// From here on nothing is reserved and nobody waits, so the pool can be deleted.
    pub(in super::super) fn close_pool(&mut self) -> Result<Outcome, Refused> {
        if self.counts.live > 0 || self.counts.waiting > 0 {
            return Err(ResultCode::InvalidState.into());
        }
        self.counts.closed = true;
        Ok(self.outcome(ResultCode::Ok))
    }

    pub(in super::super) fn open_pool(&mut self) -> Outcome {
        self.counts.closed = false;
        self.outcome(ResultCode::Ok)
    }

    /// Refuses what could not be revoked.
    pub(in super::super) fn check_active(&mut self, id: LeaseId) -> Result<(), Refused> {
        self.in_state(id, LeaseState::Active).map(drop)
    }

    fn in_state(&mut self, id: LeaseId, state: LeaseState) -> Result<Lease, Refused> {
        let lease = self.lease(id)?;
        if lease.state.is_terminal() {
            return Err(ResultCode::LeaseRetired.into());
        }
        if lease.state == state { Ok(lease) } else { Err(ResultCode::InvalidState.into()) }
    }
}
