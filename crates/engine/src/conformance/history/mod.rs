//! Concurrent histories are strictly serializable: there is an order of all transactions that explains every
//! read, respects real time, and is the order of the stamps.
//!
//! Tasks run small transactions on few keys and note when they called and when they were answered, by a shared
//! counter. A checker then looks for such an order; if there is none, the history cannot have come from an engine
//! that keeps the contract, whatever its inside looks like.

mod check;
mod record;

use super::{
    Finding, Lossy, Proof, Subject,
    tools::{beside, wipe},
};
use crate::Engine;
use check::{explain, order};
use record::{Recorder, final_look, run_some};
use std::sync::Arc;

const TASKS: u64 = 5;
/// A history costs as much as so many scripts of the model.
const SEEDS_PER_HISTORY: u64 = 20;

/// Many short histories of five tasks, each of which has an order.
pub async fn concurrent_histories_have_an_order<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for round in 0..subject.seeds() / SEEDS_PER_HISTORY {
        wipe(&engine).await?;
        let recorder = Arc::new(Recorder::default());
        one_history(subject, engine.clone(), round, &recorder).await?;
        judge(&engine, &recorder).await?;
    }
    Ok(())
}

/// The same when answers are lost: what is unknown was applied, or not, or later.
pub async fn histories_with_lost_answers_have_an_order<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for round in 0..subject.seeds() / SEEDS_PER_HISTORY {
        wipe(&engine).await?;
        let lossy = Lossy::new(engine.clone(), round);
        let recorder = Arc::new(Recorder::default());
        one_history(subject, lossy.clone(), round, &recorder).await?;
        lossy.settle().await;
        judge(&engine, &recorder).await?;
    }
    Ok(())
}

async fn one_history<S: Subject, E: Engine>(subject: &S, engine: E, round: u64, recorder: &Arc<Recorder>) -> Proof {
    let tasks = (0..TASKS).map(|task| run_some(engine.clone(), round * TASKS + task, task, recorder.clone()));
    beside(subject, tasks.collect()).await.map(drop)
}

async fn judge(engine: &impl Engine, recorder: &Recorder) -> Proof {
    final_look(engine, recorder).await?;
    let history = recorder.take();
    order(&history).map(drop).map_err(|stuck| Finding::Violation(explain(&history, &stuck)))
}
