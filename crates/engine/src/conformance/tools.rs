//! Helpers that the properties share.

use super::{Finding, Proof, Subject};
use crate::{CommitError, Committed, Engine, EngineError, RangeRead, ReadPlan, Source, Transaction};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::{Stamp, limits};
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

/// Ends the property with a story unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($story:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Finding::Violation(format!($($story)+)));
        }
    };
}
pub(super) use ensure;

pub(super) type Items = Vec<(Bytes, Bytes)>;

/// The widest range there is.
pub(super) fn everything(limit: usize) -> RangeRead {
    RangeRead::prefix(b"", limit)
}

/// A transaction that is begun with a plan, as the engine takes it; without one where it has no use for plans.
pub(super) async fn begin_with<E: Engine>(
    engine: &E,
    source: Source,
    plan: ReadPlan,
) -> Result<E::Transaction, EngineError> {
    match engine.begin_planned(source, || plan).await? {
        Some(tx) => Ok(tx),
        None => engine.begin().await,
    }
}

/// Lets other tasks run, on an executor of threads as on one that has a single thread.
pub(super) async fn pause() {
    let mut has_paused = false;
    poll_fn(|context| {
        if has_paused {
            return Poll::Ready(());
        }
        has_paused = true;
        std::thread::yield_now();
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs tasks beside each other and waits for all; the first finding stands for all.
///
/// None begins before all are there: a thread takes longer to start than most tasks to end.
pub(super) async fn beside<S, T, F>(subject: &S, tasks: Vec<F>) -> Result<Vec<T>, Finding>
where
    S: Subject,
    T: Send + 'static,
    F: Future<Output = Result<T, Finding>> + Send + 'static,
{
    let missing = Arc::new(AtomicUsize::new(tasks.len()));
    let running: Vec<_> =
        tasks.into_iter().map(|task| start(subject, after_all_are_there(missing.clone(), task))).collect();
    let mut results = Vec::with_capacity(running.len());
    for task in running {
        results.push(finished(task).await?);
    }
    Ok(results)
}

async fn after_all_are_there<T>(missing: Arc<AtomicUsize>, task: impl Future<Output = T>) -> T {
    missing.fetch_sub(1, Ordering::SeqCst);
    while missing.load(Ordering::SeqCst) > 0 {
        pause().await;
    }
    task.await
}

pub(super) type Running<T> = oneshot::Receiver<Result<T, Finding>>;

/// Starts a task beside this one.
pub(super) fn start<T: Send + 'static>(
    subject: &impl Subject,
    task: impl Future<Output = Result<T, Finding>> + Send + 'static,
) -> Running<T> {
    let (sender, running) = oneshot::channel();
    subject.spawn(Box::pin(async move {
        let _nobody_waits = sender.send(task.await);
    }));
    running
}

pub(super) async fn finished<T>(task: Running<T>) -> Result<T, Finding> {
    task.await.unwrap_or_else(|_| Err(Finding::Violation("a task died: the engine panicked".to_owned())))
}

/// Commits these values in one transaction.
pub(super) async fn put_all(engine: &impl Engine, items: &[(&[u8], &[u8])]) -> Result<(), Finding> {
    let mut tx = engine.begin().await?;
    for (key, value) in items {
        tx.put(key, value.to_vec())?;
    }
    tx.commit().await?;
    Ok(())
}

/// The value that a new transaction finds under a key.
pub(super) async fn stored(engine: &impl Engine, key: &[u8]) -> Result<Option<Bytes>, Finding> {
    Ok(engine.begin().await?.get(key).await?)
}

/// All that a new transaction finds, ascending.
pub(super) async fn contents(engine: &impl Engine) -> Result<Items, Finding> {
    let mut tx = engine.begin().await?;
    let mut items: Items = Vec::new();
    let mut read = everything(limits::RANGE_ITEMS_MAX).snapshot();
    loop {
        let page = tx.range(read.clone()).await?;
        let last = page.items.last().map(|(key, _)| key.clone());
        items.extend(page.items);
        let Some(last) = last.filter(|_| page.more) else { return Ok(items) };
        read.start = [&last[..], &[0]].concat().into();
    }
}

/// Makes the store empty again: some engines take long to open a new one.
pub(super) async fn wipe(engine: &impl Engine) -> Proof {
    let mut tx = engine.begin().await?;
    tx.delete_range(b"", b"\xff")?;
    tx.commit().await?;
    let left = contents(engine).await?.len();
    ensure!(left == 0, "deleting everything left {left} items");
    Ok(())
}

/// The stamp of a commit that wrote something.
#[track_caller]
pub(super) fn stamp_of(committed: Committed) -> Result<Stamp, Finding> {
    let line = std::panic::Location::caller();
    committed
        .stamp()
        .ok_or_else(|| Finding::Violation(format!("a commit with writes came back without a stamp ({line})")))
}

/// The commit must have been refused, because of `story`.
pub(super) fn refused(commit: Result<Committed, CommitError>, story: &str) -> Proof {
    match commit {
        Err(CommitError::Conflict) => Ok(()),
        Ok(_) => Err(Finding::Violation(format!("{story}: the commit must be refused, and was acknowledged"))),
        Err(other) => Err(Finding::Violation(format!("{story}: the commit must be a conflict, and was: {other}"))),
    }
}

/// The commit must have been acknowledged, although `story`.
pub(super) fn accepted(commit: Result<Committed, CommitError>, story: &str) -> Proof {
    match commit {
        Ok(_) => Ok(()),
        Err(error) => Err(Finding::Violation(format!("{story}: the commit must succeed, and failed: {error}"))),
    }
}

/// A counter as [`Transaction::add`] keeps it.
pub(super) fn counter(value: Option<&Bytes>) -> i64 {
    value.and_then(|value| <[u8; 8]>::try_from(&value[..]).ok()).map_or(0, i64::from_le_bytes)
}

/// Bytes as a person reads them.
pub(super) fn shown(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

pub(super) fn shown_value(value: Option<&Bytes>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| shown(value))
}

pub(super) fn shown_items(items: &[(Bytes, Bytes)]) -> String {
    let items: Vec<String> = items.iter().map(|(key, value)| format!("{}={}", shown(key), shown(value))).collect();
    format!("[{}]", items.join(", "))
}
