//! The budgets of a universe in this process, as `why` names them.

use crate::quotas::UniverseQuotas;
use mundi_runtime::control::{Budgets, SpentBudget};
use mundi_store::protocol::KindCap;
use std::{collections::BTreeMap, sync::Arc};

pub(super) struct UniverseBudgets {
    pub(super) quotas: Arc<UniverseQuotas>,
    /// The bounds of kinds of effects in the whole universe, as they are configured.
    pub(super) caps: BTreeMap<String, KindCap>,
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
}
