//! One seed, from beginning to end.

use crate::{
    checkers::{self, Evidence},
    coverage::Coverage,
    fault_driver::FaultDriver,
    faults::Faults,
    run_state::{RunState, Tally},
};
use mundi_runtime::Spawn;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};

/// A run that takes more steps than this has tasks that keep each other busy without end.
const POLLS_MAX: u64 = 20_000_000;

/// The result of a seed.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub seed: u64,
    /// The faults that the seed chose.
    pub faults: Faults,
    /// Over everything that happened: the same seed gives the same one.
    pub trace_hash: u64,
    pub simulated_ns: u64,
    pub polls: u64,
    pub tally: Tally,
    pub coverage: Coverage,
    pub failure: Option<Failure>,
    /// The trace, if it was to be kept.
    pub trace: Vec<String>,
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The checker that found it, or `liveness`.
    pub checker: &'static str,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

impl std::error::Error for Failure {}

/// Runs a seed with about half of these faults: those that it chooses.
pub fn run_seed(seed: u64, allowed: &Faults, keep_trace: bool) -> Outcome {
    run_exactly(seed, allowed.swarm(seed), keep_trace)
}

/// Runs a seed with exactly these faults.
pub fn run_exactly(seed: u64, faults: Faults, keep_trace: bool) -> Outcome {
    let run_state = RunState::new(seed, faults.clone(), keep_trace);
    let began_ns = run_state.now_ns();
    let result: Arc<Mutex<Option<Result<(), Failure>>>> = Arc::default();
    let (slot, playing) = (result.clone(), run_state.clone());
    run_state.executor().node().spawn(Box::pin(async move {
        let played = play(playing).await;
        *slot.lock() = Some(played);
    }));
    let failure = loop {
        if let Some(played) = result.lock().take() {
            break played.err();
        }
        if !run_state.executor().step() {
            break Some(liveness("everything waits, and nothing will come"));
        }
        if run_state.executor().polls() > POLLS_MAX {
            break Some(liveness("tasks keep each other busy without end"));
        }
    };
    Outcome {
        seed,
        faults,
        trace_hash: run_state.trace_hash(),
        simulated_ns: run_state.played_ns() - began_ns,
        polls: run_state.executor().polls(),
        tally: run_state.tally(),
        coverage: run_state.coverage(),
        failure,
        trace: run_state.take_trace(),
    }
}

fn liveness(what: impl Into<String>) -> Failure {
    Failure { checker: "liveness", what: what.into() }
}

/// Traffic under faults, then healing, then a look at all that was written.
async fn play(run_state: RunState) -> Result<(), Failure> {
    let driver = FaultDriver::set_up(run_state.clone()).await.map_err(liveness)?;
    driver.traffic().await;
    let rested = driver.heal().await;
    driver.stop();
    run_state.set_played();
    if rested.is_ok() {
        driver.tidy().await.map_err(liveness)?;
    }
    let (ground, plane, notes) = (driver.ground(), driver.operator(), driver.notes());
    let evidence = Evidence::gather(&run_state, ground, &plane, notes, rested.is_ok()).await?;
    // What was broken tells more than that something hangs because of it.
    checkers::check(&evidence)?;
    rested.map_err(liveness)
}
