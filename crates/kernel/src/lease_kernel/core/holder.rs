//! `activate` and `release`: what only the holder may do, with the current pair of lease and epoch.

use super::{
    super::{
        records::{Lease, LeaseState},
        result::{Outcome, Refused, ResultCode},
    },
    Core,
};
use mundi_model::{
    mutants::{Mutant, planted},
    pool::{HolderId, LeaseId},
};

/// The token that a holder presents.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct HolderToken {
    pub(in super::super) lease: LeaseId,
    pub(in super::super) holder: HolderId,
    pub(in super::super) epoch: u64,
}

impl Core<'_> {
    /// Also after the deadline: until it is on record that the lease expired, nobody else can have the resources.
    pub(in super::super) fn activate(&mut self, token: HolderToken) -> Result<Outcome, Refused> {
        let mut lease = self.held(token)?;
        let revived = planted(Mutant::RetiredRevived) && lease.state.is_terminal();
        if lease.state != LeaseState::Reserved && !revived {
            return Err(ResultCode::InvalidState.into());
        }
        self.transition(&mut lease, LeaseState::Active)?;
        Ok(self.outcome_of(&lease))
    }

    pub(in super::super) fn release(&mut self, token: HolderToken) -> Result<Outcome, Refused> {
        let mut lease = self.held(token)?;
        if !matches!(lease.state, LeaseState::Reserved | LeaseState::Active) {
            return Err(ResultCode::InvalidState.into());
        }
        let retire_after_slot = self.later(self.config().history_slots)?;
        self.end(&mut lease, LeaseState::Released, retire_after_slot)?;
        Ok(self.outcome_of(&lease))
    }

    /// The lease of a holder whose token is the current one.
    fn held(&mut self, token: HolderToken) -> Result<Lease, Refused> {
        let lease = self.lease(token.lease)?;
        if lease.holder_id != token.holder {
            return Err(ResultCode::HolderMismatch.into());
        }
        if planted(Mutant::RetiredRevived) && lease.state.is_terminal() {
            return Ok(lease);
        }
        if lease.lease_epoch != token.epoch {
            return Err(ResultCode::StaleEpoch.into());
        }
        if lease.state.is_terminal() {
            return Err(ResultCode::LeaseRetired.into());
        }
        Ok(lease)
    }
}
