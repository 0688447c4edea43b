//! Budget lanes, and amounts of them.

use minicbor::{Decode, Encode};

/// The one accounting model: a running total per parent and lane, checked and raised in one transaction.
pub const ACCOUNTING_MODE: &str = "running_total_v1";

const SECOND_NS: u64 = 1_000_000_000;

/// The counted quantities of the work of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
#[repr(u8)]
pub enum Lane {
    #[n(0)]
    SolverCalls = 0,
    #[n(1)]
    DurationSecs = 1,
    #[n(2)]
    Tokens = 2,
}

impl Lane {
    pub const ALL: [Self; 3] = [Self::SolverCalls, Self::DurationSecs, Self::Tokens];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SolverCalls => "solver_calls",
            Self::DurationSecs => "duration_secs",
            Self::Tokens => "tokens",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.as_str() == name)
    }
}

/// An amount per lane. A lane that is absent is zero in an amount and unbounded in a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Spend {
    #[n(0)]
    pub solver_calls: Option<u64>,
    #[n(1)]
    pub duration_secs: Option<u64>,
    #[n(2)]
    pub tokens: Option<u64>,
}

impl Spend {
    pub const fn get(&self, lane: Lane) -> Option<u64> {
        match lane {
            Lane::SolverCalls => self.solver_calls,
            Lane::DurationSecs => self.duration_secs,
            Lane::Tokens => self.tokens,
        }
    }

    pub const fn set(&mut self, lane: Lane, amount: Option<u64>) {
        match lane {
            Lane::SolverCalls => self.solver_calls = amount,
            Lane::DurationSecs => self.duration_secs = amount,
            Lane::Tokens => self.tokens = amount,
        }
    }

    #[must_use]
    pub const fn with(mut self, lane: Lane, amount: u64) -> Self {
        self.set(lane, Some(amount));
        self
    }

    /// The same with the time that the work took: seconds that were begun.
    #[must_use]
    pub fn lasting(self, started_at_ns: u64, now_ns: u64) -> Self {
        let secs = now_ns.saturating_sub(started_at_ns).div_ceil(SECOND_NS);
        self.with(Lane::DurationSecs, secs.max(self.duration_secs.unwrap_or(0)))
    }

    /// The lanes that have an amount above zero.
    pub fn lanes(self) -> impl Iterator<Item = (Lane, u64)> {
        Lane::ALL.into_iter().filter_map(move |lane| self.get(lane).filter(|amount| *amount > 0).map(|it| (lane, it)))
    }

    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for (lane, amount) in other.lanes() {
            self.set(lane, Some(self.get(lane).unwrap_or(0).saturating_add(amount)));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_that_was_begun_counts() {
        let secs = |ns| Spend::default().lasting(5, 5 + ns).duration_secs;
        assert_eq!([secs(0), secs(1), secs(SECOND_NS), secs(SECOND_NS + 1)], [Some(0), Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn amounts_add_up_lane_by_lane() {
        let spent = Spend::default().with(Lane::Tokens, 3).plus(Spend::default().with(Lane::Tokens, 4));
        assert_eq!(spent.lanes().collect::<Vec<_>>(), [(Lane::Tokens, 7)]);
        assert_eq!(Lane::from_name("tokens"), Some(Lane::Tokens));
        assert_eq!(Lane::from_name("money"), None);
    }
}
