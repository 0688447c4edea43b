//! Which first cycles on probation are in progress in a process: those of worlds whose last holder never released them.
//!
//! A world that may have ended a process is opened alone, so that the next end of the process is known to be its own. Worlds that nothing is
//! known against are opened beside each other, because after a crash there may be thousands of them.

use crate::world::CycleBudget;
use mundi_model::{Code, limits::ALONE_NS_MAX, record::Held};
use mundi_store::protocol::Pass;
use parking_lot::Mutex;
use std::sync::Arc;

/// One for all workers of a process: they end together.
#[derive(Debug, Default)]
pub struct FirstCycles(Mutex<UnderWay>);

#[derive(Debug, Default)]
struct UnderWay {
    together: usize,
    alone: Option<Alone>,
    /// Of the cycles that were alone.
    number: u64,
    /// Until when no more begin beside each other, because one that must be alone waits for those that are in progress.
    wanted_until_ns: u64,
}

/// How long a refused cycle that must be alone keeps others from beginning, unless it asks again: a few times its pause between tries.
const WANTED_NS: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Alone {
    number: u64,
    since_ns: u64,
}

/// A first cycle that is in progress, or may begin; over when this is dropped.
#[derive(Debug)]
pub(super) struct FirstCycle {
    all: Arc<FirstCycles>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Together,
    Alone(u64),
}

impl FirstCycles {
    /// Beside others that nothing is known against, unless one that must be alone is in progress.
    pub(super) fn together(self: &Arc<Self>, now_ns: u64) -> FirstCycle {
        let mut state = self.0.lock();
        let is_wanted = now_ns < state.wanted_until_ns;
        let kind = if is_wanted || state.is_taken(now_ns) { Kind::None } else { Kind::Together };
        state.together += usize::from(kind == Kind::Together);
        FirstCycle { all: self.clone(), kind }
    }

    /// Alone; `None` while any other is in progress.
    pub(super) fn alone(self: &Arc<Self>, now_ns: u64) -> Option<FirstCycle> {
        let mut state = self.0.lock();
        if state.is_taken(now_ns) {
            return None;
        }
        if state.together > 0 {
            state.wanted_until_ns = now_ns.saturating_add(WANTED_NS);
            return None;
        }
        state.wanted_until_ns = 0;
        state.number += 1;
        let number = state.number;
        state.alone = Some(Alone { number, since_ns: now_ns });
        Some(FirstCycle { all: self.clone(), kind: Kind::Alone(number) })
    }
}

impl UnderWay {
    fn is_taken(&self, now_ns: u64) -> bool {
        self.alone.is_some_and(|alone| now_ns.saturating_sub(alone.since_ns) < ALONE_NS_MAX)
    }
}

impl FirstCycle {
    pub(super) fn pass(&self) -> Pass {
        match self.kind {
            Kind::None => Pass::None,
            Kind::Together => Pass::Together,
            Kind::Alone(_) => Pass::Alone,
        }
    }
}

impl Drop for FirstCycle {
    fn drop(&mut self) {
        let mut state = self.all.0.lock();
        match self.kind {
            Kind::None => {}
            Kind::Together => state.together -= 1,
            Kind::Alone(number) if state.alone.is_some_and(|alone| alone.number == number) => state.alone = None,
            Kind::Alone(_) => {}
        }
    }
}

/// The first cycle of a world that was opened, while it is on probation.
#[derive(Debug)]
pub(super) struct Probation {
    pub(super) first: FirstCycle,
    pub(super) deaths: u32,
    pub(super) after_hold: bool,
}

impl Probation {
    /// A world that may have ended a process takes its items one by one: what can be taken is, and what cannot is known.
    pub(super) fn limit(&self, budget: &mut CycleBudget) {
        if self.deaths > 0 {
            budget.items_max = 1;
        }
    }

    /// A command about a world on hold came into its inbox meanwhile, behind the item that it is about.
    pub(super) fn commands_first(&self) -> Option<Held> {
        let code = Code::WorldEndsProcess;
        let held = || Held { code: code.to_string(), reason: code.meaning().to_owned(), failed: None };
        self.after_hold.then(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_alone_and_the_others_are_together() {
        let all = Arc::new(FirstCycles::default());
        let (first, second) = (all.together(0), all.together(0));
        assert_eq!([first.pass(), second.pass()], [Pass::Together; 2]);
        drop(first);
        assert!(all.alone(0).is_none(), "the second is under way");
        assert_eq!(all.together(0).pass(), Pass::None, "one waits to be alone, and others come after it");
        drop(second);
        let alone = all.alone(0).unwrap();
        assert_eq!(alone.pass(), Pass::Alone);
        assert!(all.alone(0).is_none());
        let refused = all.together(0);
        assert_eq!(refused.pass(), Pass::None);
        drop(refused);
        drop(alone);
        assert!(all.alone(0).is_some(), "what was refused holds up nobody");
        let third = all.together(WANTED_NS);
        assert_eq!(third.pass(), Pass::Together, "whoever does not ask again is not waited for");
    }

    #[test]
    fn a_cycle_that_takes_too_long_is_not_waited_for() {
        let all = Arc::new(FirstCycles::default());
        let slow = all.alone(0).unwrap();
        assert!(all.alone(ALONE_NS_MAX - 1).is_none());
        let next = all.alone(ALONE_NS_MAX).unwrap();
        drop(slow);
        assert!(all.alone(ALONE_NS_MAX).is_none(), "the end of the slow one does not end the other");
        drop(next);
        assert_eq!(all.together(ALONE_NS_MAX).pass(), Pass::Together);
    }
}
