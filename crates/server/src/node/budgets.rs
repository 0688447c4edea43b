//! The budgets of a universe in this process, as `why` names them.

use crate::quotas::UniverseQuotas;
use mundi_runtime::{
    control::{Budgets, SpentAttempts, SpentBudget},
    effects::{attempts::Attempts, slots::RegisteredSlots},
};
use mundi_store::protocol::KindCap;
use std::{collections::BTreeMap, sync::Arc};

pub(super) struct UniverseBudgets {
    pub(super) quotas: Arc<UniverseQuotas>,
    /// The bounds of kinds of effects in the whole universe, as they are configured.
    pub(super) caps: BTreeMap<String, KindCap>,
    /// Of the adapter worker of the universe in this process, if there is one.
    pub(super) slots: RegisteredSlots,
    /// Of all universes of the process.
    pub(super) attempts: Arc<Attempts>,
}

impl Budgets for UniverseBudgets {
    fn turns(&self) -> Option<SpentBudget> {
        self.quotas.spent_by_turns()
    }

    fn effects(&self) -> Option<SpentBudget> {
        self.quotas.spent_by_effects()
    }

    fn kind_calls_max(&self, kind: &str) -> Option<usize> {
        self.caps.get(kind)?.calls_max
    }

    fn kind_slots(&self, kind: &str) -> Option<usize> {
        self.slots.lock().as_ref()?.is_full(kind)
    }

    fn attempts(&self, now_ns: u64) -> Option<SpentAttempts> {
        self.slots.lock().as_ref()?; // else no attempt begins here, whatever the bound
        self.attempts.spent(now_ns).map(|(bound, limit)| SpentAttempts { bound, limit })
    }
}
