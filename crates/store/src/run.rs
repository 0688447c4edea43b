//! The one retry loop. A protocol says what it reads and writes; this file says what a failed commit means.

use crate::{Clock, StoreError};
use mundi_engine::{CommitError, Engine, EngineError, ReadPlan, Source, Transaction};
use mundi_model::Stamp;
use std::{future::Future, time::Duration};

/// As many attempts as a transaction gets before its caller learns that it never came through.
pub const ATTEMPTS_MAX: u32 = 32;

/// How often a database that cannot be reached is asked again. The engine itself waits for it for some seconds each time; a caller
/// that needs it for longer has a loop of its own, and a request is answered with the error.
const UNAVAILABLE_MAX: u32 = 3;

/// The first wait after a conflict; it doubles up to [`BACKOFF_MAX`]. The first retry does not wait:
/// most conflicts are with a transaction that is over.
const BACKOFF_MIN: Duration = Duration::from_millis(1);
const BACKOFF_MAX: Duration = Duration::from_millis(64);

/// One transaction, written so that it can be run again from the start.
///
/// `run` decides from what it reads, writes, and returns; it never commits and keeps nothing between
/// attempts. An error that it returns ends the transaction without a trace.
pub trait Protocol: Sync {
    type Output: Send;

    /// The reaction of the loop to an unknown commit. The header of each protocol says why.
    fn on_unknown(&self) -> OnUnknown;

    /// Where it is tried first, on engines that have a use for that. [`Source::Cache`] is for one that mostly commits and depends on what it
    /// reads; [`Source::SharedSnapshot`] for one that reads what its plan says, as a rule. Every later attempt is on a snapshot of its own.
    fn source(&self) -> Source {
        Source::OwnSnapshot
    }

    /// The reads that it makes as long as nothing is wrong, whatever it finds. Reads that depend on others are
    /// [prefetched](Transaction::prefetch) by `run`. A test compares the plan with the actual reads (`tests/all/read_plans.rs`).
    fn read_plan(&self) -> ReadPlan {
        ReadPlan::default()
    }

    fn run<T: Transaction>(&self, tx: &mut T) -> impl Future<Output = Result<Self::Output, StoreError>> + Send;
}

/// The step after a commit with an unknown result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnknown {
    /// The protocol recognizes what it has already done.
    RunAgain,
    /// Running again could do it twice: only the caller can decide.
    Report,
}

/// The output of a protocol, and its place in the order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done<O> {
    pub output: O,
    /// `None` when there was nothing to write.
    pub stamp: Option<Stamp>,
}

/// Runs a protocol until it is committed or refused.
pub async fn run<E: Engine, P: Protocol>(
    engine: &E,
    clock: &dyn Clock,
    protocol: &P,
) -> Result<Done<P::Output>, StoreError> {
    run_or_tell(engine, clock, protocol).await.map_err(|refused| refused.error)
}

/// Why a protocol did not come through, and whether an attempt before the last one may have been applied all the same.
#[derive(Debug, Clone)]
pub struct Refused {
    pub error: StoreError,
    pub perhaps_applied: bool,
}

/// As [`run`], for a caller that must know whether a refusal means that nothing happened.
///
/// This is compiled for each protocol, so whatever does not depend on one is elsewhere: beginning in `begin`, deciding in `Attempts`.
pub async fn run_or_tell<E: Engine, P: Protocol>(
    engine: &E,
    clock: &dyn Clock,
    protocol: &P,
) -> Result<Done<P::Output>, Refused> {
    let mut attempts = Attempts::of(protocol.source());
    loop {
        let source = attempts.source(protocol.source());
        let ran = match begin(engine, source, &|| protocol.read_plan()).await {
            Ok(Some(tx)) => once(tx, protocol).await,
            Ok(None) => {
                attempts.number += 1;
                continue;
            }
            Err(error) => Err(error.into()),
        };
        match ran {
            // In the cache only an applied commit counts: everything else is decided on the newest state.
            Ok(done) if done.stamp.is_some() || source != Source::Cache => return Ok(done),
            Ok(_) => attempts.number += 1,
            Err(error) => {
                if let Some(pause) = attempts.pause_after(error, protocol.on_unknown())? {
                    clock.sleep(pause).await;
                }
            }
        }
    }
}

/// The attempts of one protocol so far.
struct Attempts {
    /// Of the attempt that is made now. 0 is the one in the cache, which only protocols of [`Source::Cache`] have.
    number: u32,
    unavailable: u32,
    perhaps_applied: bool,
}

impl Attempts {
    fn of(source: Source) -> Self {
        Self { number: u32::from(source != Source::Cache), unavailable: 0, perhaps_applied: false }
    }

    fn source(&self, first: Source) -> Source {
        match (self.number, first) {
            (0, Source::Cache) => Source::Cache,
            (1, Source::SharedSnapshot) => Source::SharedSnapshot,
            _ => Source::OwnSnapshot,
        }
    }

    /// How long to wait before the next attempt, if there is one.
    fn pause_after(&mut self, error: StoreError, on_unknown: OnUnknown) -> Result<Option<Duration>, Refused> {
        let is_unknown = matches!(error, StoreError::Commit(CommitError::Unknown(_)));
        self.perhaps_applied |= is_unknown;
        let is_over = if self.number == 0 {
            is_unknown && on_unknown == OnUnknown::Report
        } else {
            self.unavailable += u32::from(is_unavailable(&error));
            let is_last = self.number == ATTEMPTS_MAX || self.unavailable == UNAVAILABLE_MAX;
            is_last || !is_retryable(&error, on_unknown)
        };
        if is_over {
            return Err(Refused { error, perhaps_applied: self.perhaps_applied });
        }
        let pause = backoff(self.number);
        self.number += 1;
        Ok(pause)
    }
}

/// `None` if the engine has no use for a plan in the cache.
async fn begin<E: Engine>(
    engine: &E,
    source: Source,
    plan: &(dyn Fn() -> ReadPlan + Sync),
) -> Result<Option<E::Transaction>, EngineError> {
    match engine.begin_planned(source, plan).await? {
        None if source != Source::Cache => engine.begin().await.map(Some),
        begun => Ok(begun),
    }
}

async fn once<T: Transaction, P: Protocol>(mut tx: T, protocol: &P) -> Result<Done<P::Output>, StoreError> {
    let output = protocol.run(&mut tx).await?;
    let committed = tx.commit().await?;
    Ok(Done { output, stamp: committed.stamp() })
}

fn is_retryable(error: &StoreError, on_unknown: OnUnknown) -> bool {
    match error {
        StoreError::Commit(CommitError::Conflict) | StoreError::Engine(EngineError::TooOld) => true,
        StoreError::Commit(CommitError::Unknown(_)) => on_unknown == OnUnknown::RunAgain,
        error => is_unavailable(error),
    }
}

/// Surely not applied.
fn is_unavailable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Engine(EngineError::DatabaseUnavailable { .. })
            | StoreError::Commit(CommitError::Engine(EngineError::DatabaseUnavailable { .. }))
    )
}

/// No jitter: of two transactions that conflict one always wins, so waiting need not break symmetry.
fn backoff(attempt: u32) -> Option<Duration> {
    let doublings = attempt.checked_sub(2)?;
    Some(BACKOFF_MIN.saturating_mul(1 << doublings.min(16)).min(BACKOFF_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_retry_is_immediate_and_waits_are_bounded() {
        assert_eq!(backoff(1), None);
        assert_eq!(backoff(2), Some(BACKOFF_MIN));
        assert_eq!(backoff(3), Some(BACKOFF_MIN * 2));
        assert_eq!(backoff(ATTEMPTS_MAX), Some(BACKOFF_MAX));
    }

    #[test]
    fn an_unknown_commit_is_run_again_only_by_a_protocol_that_recognizes_itself() {
        let unknown = StoreError::Commit(CommitError::Unknown(EngineError::Closed));
        assert!(is_retryable(&unknown, OnUnknown::RunAgain));
        assert!(!is_retryable(&unknown, OnUnknown::Report));
        assert!(is_retryable(&StoreError::Commit(CommitError::Conflict), OnUnknown::Report));
        assert!(!is_retryable(&StoreError::Engine(EngineError::Closed), OnUnknown::RunAgain));
    }
}
