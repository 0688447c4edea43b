//! Budgets that keep worlds back which have work, so that `why` can name them.

use std::{fmt, time::Duration};

/// The budgets of a universe, as far as this process knows them: most count its use in each process.
pub trait Budgets: Send + Sync {
    /// The budget that turns wait for.
    fn turns(&self) -> Option<SpentBudget>;

    /// The budget that effects wait for, of whatever kind.
    fn effects(&self) -> Option<SpentBudget>;

    /// How many effects of a kind may be in progress in the whole universe.
    fn kind_calls_max(&self, kind: &str) -> Option<usize>;

    /// How many slots this process has for a kind of effect, if all of them are taken.
    fn kind_slots(&self, kind: &str) -> Option<usize>;

    /// The bound on attempts of all universes of this process that lets none begin now.
    fn attempts(&self, now_ns: u64) -> Option<SpentAttempts>;
}

/// A bound on attempts that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentAttempts {
    /// The name of the setting: `attempts_at_a_time_max`.
    pub bound: &'static str,
    pub limit: u64,
}

impl fmt::Display for SpentAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, limit } = self;
        write!(f, "this process makes as many attempts at effects of all universes as it may (`{bound}`: {limit})")
    }
}

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentBudget {
    /// The name of the quota: `fuel_per_second_max`.
    pub quota: &'static str,
    pub limit: u64,
    /// How long until there is room, for a rate.
    pub wait: Option<Duration>,
}

impl fmt::Display for SpentBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, limit, wait } = self;
        write!(f, "its universe has used up `{quota}` ({limit}) in this process")?;
        wait.iter().try_for_each(|wait| write!(f, ": there is room in {} ms", wait.as_millis().max(1)))
    }
}
