//! Operations: the same command of the same client has one result, however often it is sent.

use super::{
    super::{
        records::{Operation, cell},
        result::{Outcome, Refused, ResultCode},
    },
    Core,
};
use crate::program::Stop;
use mundi_model::{
    Hash,
    mutants::{Mutant, planted},
    pool::{ClientId, OperationId},
};

/// A client's name for a command, and what the command was.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct OperationKey {
    pub(in super::super) client: ClientId,
    pub(in super::super) operation: OperationId,
    pub(in super::super) fingerprint: Hash,
}

impl OperationKey {
    fn cell(&self) -> String {
        let client = if planted(Mutant::DedupeWithoutClient) { ClientId::from_bytes([0; 16]) } else { self.client };
        cell::operation(client, self.operation)
    }
}

impl Core<'_> {
    /// The earlier result of the operation, if it was sent before.
    pub(in super::super) fn known_outcome(&mut self, key: &OperationKey) -> Result<Option<Outcome>, Refused> {
        let known: Option<Operation> = self.get(&key.cell())?;
        match known {
            Some(known) if self.is_over(known.retire_after_slot) => Ok(None),
            Some(known) if known.fingerprint == key.fingerprint => Ok(Some(known.outcome)),
            Some(_) => Err(ResultCode::OperationConflict.into()),
            None => Ok(None),
        }
    }

    /// Whether the result of a new operation can be kept; gives the slot until which it is.
    pub(in super::super) fn check_operations(&mut self, key: &OperationKey) -> Result<u64, Refused> {
        let takes_the_place_of_one = self.host.get(&key.cell())?.is_some();
        if self.counts.operations >= self.config().operations_max && !takes_the_place_of_one {
            return Err(ResultCode::OperationTableFull.into());
        }
        self.later(self.config().operation_slots)
    }

    pub(in super::super) fn remember(
        &mut self,
        key: &OperationKey,
        outcome: &Outcome,
        retire_after_slot: u64,
    ) -> Result<(), Stop> {
        let at = key.cell();
        self.counts.operations += u64::from(self.host.get(&at)?.is_none());
        let operation = Operation { fingerprint: key.fingerprint, outcome: outcome.clone(), retire_after_slot };
        self.put(&at, &operation)?;
        self.retire_at(retire_after_slot, &at)
    }

    /// Unless it was written again since.
    pub(super) fn forget_operation(&mut self, of: &str, slot: u64) -> Result<(), Stop> {
        match self.get::<Operation>(of)? {
            Some(operation) if operation.retire_after_slot == slot => {
                self.counts.operations -= 1;
                self.host.delete(of)
            }
            _ => Ok(()),
        }
    }
}
