//! The life cycle of a sweep: requested, begun or resumed, recorded step by step, ended.
//!
//! Guarantees: one process at a time carries a run on; a process that lost it learns so at its next note and stops. While a
//! run walks, no world's keys are removed (`delete_world` reads the same key), so references cannot move out of a world that
//! the walk has yet to visit. Marks and the place that the walk has reached are one transaction.
//!
//! Unknown commit: run again; each recognizes what it has already done. A run that was begun twice is taken up once more.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        sweep_mark,
        sweep_state::{self, Finished, Phase, Requested, Running, SweepState},
    },
    reachability::SweepError,
};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorkerId};

/// The state of a sweep, and its last results.
pub struct ReadSweep {
    pub universe: UniverseId,
}

impl Protocol for ReadSweep {
    type Output = SweepState;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<SweepState, StoreError> {
        sweep_state::read(tx, self.universe).await
    }
}

/// Asks for a run, which the next process that sweeps this universe carries out. Gives the number that the run will have.
pub struct RequestSweep {
    pub universe: UniverseId,
    pub dry_run: bool,
    pub now_ns: u64,
}

impl Protocol for RequestSweep {
    type Output = u64;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<u64, StoreError> {
        let mut state = sweep_state::read(tx, self.universe).await?;
        // A run that is asked for twice is made once; one that removes does all that a dry one does.
        let dry_run = self.dry_run && state.requested.is_none_or(|requested| requested.dry_run);
        state.requested = Some(Requested { at_ns: self.now_ns, dry_run });
        sweep_state::write(tx, self.universe, &state)?;
        Ok(state.runs + 1)
    }
}

/// Begins a run, or takes up one whose holder stopped its heartbeats.
pub struct BeginSweep {
    pub universe: UniverseId,
    pub worker: WorkerId,
    pub now_ns: u64,
    pub ttl_ns: u64,
    /// The newest run that had ended when a run was found to be due; 0 for none.
    pub ended: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    Run(Running),
    /// Another process has made the run meanwhile, and nobody has asked for one more.
    Made,
    /// Another process carries a run on, at least until then.
    Busy {
        holder: WorkerId,
        until_ns: u64,
    },
}

impl Protocol for BeginSweep {
    type Output = Begun;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Begun, StoreError> {
        let mut state = sweep_state::read(tx, self.universe).await?;
        let begun = self.plan(&mut state);
        if let Begun::Run(running) = &begun {
            if running.marks == 0 {
                let old = sweep_mark::span(self.universe);
                tx.delete_range(old.start.as_bytes(), old.end.as_bytes())?;
            }
            sweep_state::write(tx, self.universe, &state)?;
        }
        Ok(begun)
    }
}

impl BeginSweep {
    fn plan(&self, state: &mut SweepState) -> Begun {
        let (holder, until_ns) = (self.worker, self.now_ns.saturating_add(self.ttl_ns));
        let running = match state.running.take() {
            Some(other) if other.holder != holder && other.until_ns > self.now_ns => {
                let busy = Begun::Busy { holder: other.holder, until_ns: other.until_ns };
                state.running = Some(other);
                return busy;
            }
            Some(running) => Running { attempt: running.attempt + 1, holder, until_ns, ..running },
            None if state.ended() > self.ended && state.requested.is_none() => return Begun::Made,
            None => {
                state.runs += 1;
                let requested = state.requested.take();
                Running {
                    run: state.runs,
                    attempt: 1,
                    holder,
                    until_ns,
                    began_at_ns: self.now_ns,
                    dry_run: requested.is_some_and(|requested| requested.dry_run),
                    phase: Phase::Walking,
                    walked_to: None,
                    worlds: 0,
                    marks: 0,
                }
            }
        };
        state.running = Some(running.clone());
        Begun::Run(running)
    }
}

/// Notes how far a run has come, with the hashes that it found since the last note.
pub(crate) struct NoteSweep<'a> {
    pub(crate) universe: UniverseId,
    pub(crate) running: &'a Running,
    /// The value of marks that is new; its number is one less than `running.marks`.
    pub(crate) found: Option<&'a [Hash]>,
}

impl Protocol for NoteSweep<'_> {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let mut state = require_attempt(tx, self.universe, self.running).await?;
        if let (Some(found), Some(number)) = (self.found, self.running.marks.checked_sub(1)) {
            sweep_mark::write(tx, self.universe, number, found)?;
        }
        state.running = Some(self.running.clone());
        sweep_state::write(tx, self.universe, &state)
    }
}

/// Ends a run.
pub(crate) struct EndSweep<'a> {
    pub(crate) universe: UniverseId,
    pub(crate) running: &'a Running,
    pub(crate) finished: &'a Finished,
}

impl Protocol for EndSweep<'_> {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let state = sweep_state::read(tx, self.universe).await?;
        if state.running.is_none() && state.last.as_ref() == Some(self.finished) {
            return Ok(()); // by the attempt whose fate was unknown
        }
        let mut state = require_attempt(tx, self.universe, self.running).await?;
        (state.running, state.last) = (None, Some(self.finished.clone()));
        if !self.finished.dry_run {
            state.swept_at_ns = Some(self.finished.ended_at_ns);
        }
        let marks = sweep_mark::span(self.universe);
        tx.delete_range(marks.start.as_bytes(), marks.end.as_bytes())?;
        sweep_state::write(tx, self.universe, &state)
    }
}

async fn require_attempt<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    running: &Running,
) -> Result<SweepState, StoreError> {
    let state = sweep_state::read(tx, universe).await?;
    match &state.running {
        Some(other) if other.is_same_attempt(running) => Ok(state),
        _ => Err(SweepError::Superseded.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(number: u64) -> WorkerId {
        WorkerId::new(number).unwrap()
    }

    fn begin(number: u64, now_ns: u64, state: &mut SweepState) -> Begun {
        let universe = UniverseId::from_bytes([1; 16]);
        BeginSweep { universe, worker: worker(number), now_ns, ttl_ns: 100, ended: u64::MAX }.plan(state)
    }

    #[test]
    fn a_run_is_taken_up_by_its_holder_at_once_and_by_others_when_it_went_silent() {
        let mut state = SweepState::default();
        let Begun::Run(first) = begin(1, 0, &mut state) else { panic!("nobody else runs") };
        assert_eq!((first.run, first.attempt, first.dry_run), (1, 1, false));
        assert_eq!(begin(2, 99, &mut state), Begun::Busy { holder: worker(1), until_ns: 100 });
        assert_eq!(state.running, Some(first.clone()), "whoever came too early changes nothing");
        let Begun::Run(own) = begin(1, 50, &mut state) else { panic!("it is its own") };
        assert_eq!((own.run, own.attempt, own.began_at_ns), (1, 2, 0));
        let Begun::Run(other) = begin(2, 150, &mut state) else { panic!("the holder went silent") };
        assert_eq!((other.run, other.attempt, other.holder), (1, 3, worker(2)));
        assert!(!other.is_same_attempt(&own));
    }

    #[test]
    fn a_run_that_was_asked_for_is_the_one_that_begins() {
        let requested = Some(Requested { at_ns: 5, dry_run: true });
        let mut state = SweepState { runs: 7, requested, ..SweepState::default() };
        let Begun::Run(running) = begin(1, 10, &mut state) else { panic!("nobody else runs") };
        assert!(running.dry_run && running.run == 8 && state.requested.is_none());
    }
}
