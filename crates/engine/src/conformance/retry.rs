//! A failed commit tells the truth about itself, and a protocol that relies on it can run again.
//!
//! Engines get it wrong by answering `Conflict` for a commit that was applied (a retry then applies it twice),
//! or by letting an unanswered commit land after its retry although what it had read has changed.

use super::{
    Finding, Lossy, Proof, Subject,
    tools::{beside, contents, counter, ensure, pause, stored},
};
use crate::{CommitError, Engine, Transaction};

const WORKERS: u8 = 6;
const TASKS: u8 = 20;
const TRIES_MAX: usize = 10_000;

/// Workers over [`Lossy`] run each task until it is known to be done, guarded by a key that names the task:
/// each is applied once.
pub async fn an_idempotent_retry_applies_once<S: Subject>(subject: &S) -> Proof {
    for seed in 0..4 {
        let engine = subject.open().await;
        let lossy = Lossy::new(engine.clone(), seed);
        let workers = (0..WORKERS).map(|worker| work_through(lossy.clone(), worker)).collect();
        beside(subject, workers).await?;
        lossy.settle().await;
        each_was_applied_once(&engine).await?;
    }
    Ok(())
}

async fn work_through<E: Engine>(engine: E, worker: u8) -> Proof {
    for task in 0..TASKS {
        let mut tries = 0;
        while !is_done(&engine, [worker, task]).await? {
            tries += 1;
            ensure!(tries < TRIES_MAX, "a task does not get done in {TRIES_MAX} tries");
        }
    }
    Ok(())
}

/// One try. The guard makes it idempotent: the second one finds it, or conflicts on it.
async fn is_done<E: Engine>(engine: &E, task: [u8; 2]) -> Result<bool, Finding> {
    let guard = [b"done/", &task[..]].concat();
    let mut tx = engine.begin().await?;
    if tx.get(&guard).await?.is_some() {
        return Ok(true);
    }
    pause().await;
    tx.put(&guard, "")?;
    tx.add(b"count", 1)?;
    tx.put_stamped(b"log/", &task, "")?;
    match tx.commit().await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict | CommitError::Unknown(_)) => Ok(false),
        Err(CommitError::Engine(error)) => Err(error.into()),
    }
}

async fn each_was_applied_once(engine: &impl Engine) -> Proof {
    let expected = usize::from(WORKERS) * usize::from(TASKS);
    let count = counter(stored(engine, b"count").await?.as_ref());
    ensure!(usize::try_from(count) == Ok(expected), "{expected} tasks were applied {count} times");
    let logged = contents(engine).await?.iter().filter(|(key, _)| key.starts_with(b"log/")).count();
    ensure!(logged == expected, "{expected} tasks left {logged} entries in the log");
    Ok(())
}

/// Workers raise one number by reading and writing it, and run again on conflict only: no rise is counted twice.
pub async fn a_conflict_was_surely_not_applied<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let workers = (0..WORKERS).map(|_| raise_often(engine.clone())).collect();
    beside(subject, workers).await?;
    let rises = i64::from(WORKERS) * i64::from(TASKS);
    let number = counter(stored(&engine, b"number").await?.as_ref());
    ensure!(number == rises, "{rises} rises were acknowledged, and the number is {number}");
    let logged = contents(&engine).await?.len() - 1;
    ensure!(i64::try_from(logged) == Ok(rises), "{rises} rises were acknowledged, and {logged} were logged");
    Ok(())
}

async fn raise_often<E: Engine>(engine: E) -> Proof {
    let (mut raised, mut tries) = (0, 0);
    while raised < TASKS {
        tries += 1;
        ensure!(tries < TRIES_MAX, "{TRIES_MAX} tries made {raised} commits");
        let mut tx = engine.begin().await?;
        let number = counter(tx.get(b"number").await?.as_ref());
        pause().await; // so that others come between, even where a transaction takes no time
        tx.put(b"number", (number + 1).to_le_bytes().to_vec())?;
        tx.put_stamped(b"log/", b"", "")?;
        match tx.commit().await {
            Ok(_) => raised += 1,
            Err(CommitError::Conflict) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}
