//! The metrics that the project had before the stop gate: that worlds replay, that a simulated universe is determined by its seed, and that an engine keeps its
//! contract. `mundi gate --earlier` adds these metrics to the report.
//!
//! The seeds are locked here, as the fixtures are in their manifest, and each is run in processes of its own.

use super::{REPLAYS, run_apart};
use crate::cli::exit::{Failed, Outcome};
use futures_util::future::BoxFuture;
use mundi_engine::{
    Memory,
    conformance::{self, Subject},
};
use mundi_model::Code;
use mundi_sim::{Faults, run_seed};
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Handle;

const SEEDS: [u64; 2] = [7, 11];
/// Of each randomized property: what the suite itself runs is thousands.
const CONFORMANCE_SEEDS: u64 = 20;
const PROPERTY_TIME_MAX: Duration = Duration::from_secs(120);

pub(super) const METRICS: [&str; 3] =
    ["world_replay_determinism_pct", "simulation_determinism_pct", "engine_conformance_pct"];

/// The metrics, and what failed.
pub(super) fn measure() -> Outcome<(Map<String, Value>, Vec<Value>)> {
    let (mut replayed, mut determined, mut failures) = (0, 0, Vec::new());
    let [replay, determinism, conforms] = METRICS;
    let mut fail = |metric: &str, fixture: String, code: &str, reason: String| {
        failures.push(json!({"metric": metric, "fixture": fixture, "code": code, "reason": reason}));
    };
    for seed in SEEDS {
        let runs: Outcome<Vec<String>> =
            (0..REPLAYS).map(|_| run_apart(&["--seed".as_ref(), seed.to_string().as_ref()])).collect();
        match runs {
            Ok(hashes) => {
                replayed += 1;
                match hashes.windows(2).all(|pair| pair[0] == pair[1]) {
                    true => determined += 1,
                    false => {
                        let reason = format!("its runs have the hashes {}", hashes.join(", "));
                        fail(determinism, format!("seed {seed}"), Code::ReplayDiverged.as_str(), reason);
                    }
                }
            }
            Err(failed) => {
                let code = failed.code.map_or_else(|| Code::ReplayDiverged.to_string(), |code| code.to_string());
                fail(replay, format!("seed {seed}"), &code, failed.detail().to_owned());
            }
        }
    }
    let counted: Value = serde_json::from_str(&run_apart(&["--conformance".as_ref()])?)
        .map_err(|error| Failed::plain(error.to_string()))?;
    let violated = counted["violated"].as_array().cloned().unwrap_or_default();
    for property in &violated {
        let property = property.as_str().unwrap_or_default().to_owned();
        fail(conforms, property, "ENGINE_NOT_CONFORMANT", "the engine does not keep this property".to_owned());
    }
    let tried = counted["tried"].as_u64().unwrap_or(0);
    let metric = |passed: u64, total: u64| {
        let pct = if total == 0 { 0.0 } else { 100.0 * passed as f64 / total as f64 };
        json!({"passed": passed, "total": total, "pct": pct, "threshold": 100.0})
    };
    let seeds = SEEDS.len() as u64;
    let kept = tried - violated.len() as u64;
    let metrics = METRICS.into_iter().map(str::to_owned);
    let values = [metric(replayed, seeds), metric(determined, seeds), metric(kept, tried)];
    Ok((metrics.zip(values).collect(), failures))
}

/// The hash of all that happened in a seed, in which every promise was kept: each world replays to the same state, among them.
pub(super) fn seed(seed: u64) -> Outcome<String> {
    let outcome = run_seed(seed, &Faults::all(), false);
    match outcome.failure {
        None => Ok(format!("{:016x}", outcome.trace_hash)),
        Some(failure) => Err(Failed::plain(format!("seed {seed}: {failure}"))),
    }
}

/// How many properties of the contract were tried on the reference engine, and which do not hold.
pub(super) fn conformance() -> Outcome<String> {
    let tried = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
        let subject = Reference { tasks: runtime.handle().clone(), now_ms: Arc::default() };
        Ok::<_, std::io::Error>(runtime.block_on(conformance::run_all(&subject)))
    });
    let report = tried.join().map_err(|_| Failed::plain("the conformance suite panicked".to_owned()))?;
    let report = report.map_err(|error| Failed::plain(error.to_string()))?;
    Ok(json!({"tried": report.proofs.len(), "violated": report.violated()}).to_string())
}

struct Reference {
    tasks: Handle,
    now_ms: Arc<AtomicU64>,
}

impl Subject for Reference {
    type Engine = Memory;

    async fn open(&self) -> Memory {
        let now_ms = self.now_ms.clone();
        Memory::with_clock(Arc::new(move || now_ms.load(Ordering::SeqCst)))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(self.tasks.spawn(task));
    }

    async fn time_limit(&self) {
        tokio::time::sleep(PROPERTY_TIME_MAX).await;
    }

    fn advance_ms(&self, _engine: &Memory, passed_ms: u64) -> bool {
        self.now_ms.fetch_add(passed_ms, Ordering::SeqCst);
        true
    }

    fn seeds(&self) -> u64 {
        CONFORMANCE_SEEDS
    }
}
