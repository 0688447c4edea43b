//! One seed, from beginning to end.

use crate::{
    checkers::{self, Evidence},
    coverage::Coverage,
    director::Director,
    faults::Faults,
    stage::{Stage, Tally},
};
use mundi_runtime::Spawn;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};

/// A run that takes more steps than this has tasks that keep each other busy without end.
const POLLS_MAX: u64 = 20_000_000;

/// What a seed came to.
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
    /// What happened, if it was to be kept.
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
    let stage = Stage::new(seed, faults.clone(), keep_trace);
    let began_ns = stage.now_ns();
    let result: Arc<Mutex<Option<Result<(), Failure>>>> = Arc::default();
    let (slot, playing) = (result.clone(), stage.clone());
    stage.executor().node().spawn(Box::pin(async move {
        let played = play(playing).await;
        *slot.lock() = Some(played);
    }));
    let failure = loop {
        if let Some(played) = result.lock().take() {
            break played.err();
        }
        if !stage.executor().step() {
            break Some(liveness("everything waits, and nothing will come"));
        }
        if stage.executor().polls() > POLLS_MAX {
            break Some(liveness("tasks keep each other busy without end"));
        }
    };
    Outcome {
        seed,
        faults,
        trace_hash: stage.trace_hash(),
        simulated_ns: stage.played_ns() - began_ns,
        polls: stage.executor().polls(),
        tally: stage.tally(),
        coverage: stage.coverage(),
        failure,
        trace: stage.take_trace(),
    }
}

fn liveness(what: impl Into<String>) -> Failure {
    Failure { checker: "liveness", what: what.into() }
}

/// Traffic under faults, then healing, then a look at all that was written.
async fn play(stage: Stage) -> Result<(), Failure> {
    let director = Director::set_up(stage.clone()).await.map_err(liveness)?;
    director.traffic().await;
    let rested = director.heal().await;
    director.stop();
    stage.set_played();
    if rested.is_ok() {
        director.tidy().await.map_err(liveness)?;
    }
    let (ground, plane, notes) = (director.ground(), director.operator(), director.notes());
    let evidence = Evidence::gather(&stage, ground, &plane, notes, rested.is_ok()).await?;
    // What was broken tells more than that something hangs because of it.
    checkers::check(&evidence)?;
    rested.map_err(liveness)
}
