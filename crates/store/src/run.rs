//! The one retry loop. A protocol says what it reads and writes; this file says what a failed commit means.

use crate::{Clock, StoreError};
use mundi_engine::{CommitError, Engine, EngineError, Transaction};
use mundi_model::Stamp;
use std::{future::Future, time::Duration};

/// As many attempts as a transaction gets before its caller learns that it never came through.
pub const ATTEMPTS_MAX: u32 = 32;

/// How often a database that cannot be reached is asked again. The engine itself waits for it for some seconds each time; who needs
/// it for longer has a loop of its own, and who asked for something is told.
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

    /// What the loop does when a commit's fate is unknown. The header of each protocol says why.
    fn on_unknown(&self) -> OnUnknown;

    /// Whether it mostly commits, and depends on all that it reads or on none of it in particular: then it is tried on what the
    /// process remembers, before it is run on the newest state ([`Engine::begin_from_memory`]).
    fn tries_memory(&self) -> bool {
        false
    }

    /// Whether it announces all that it reads, as a rule: then it is tried as one of many that read in one trip
    /// ([`Engine::begin_announced`]).
    fn announces_all(&self) -> bool {
        false
    }

    fn run<T: Transaction>(&self, tx: &mut T) -> impl Future<Output = Result<Self::Output, StoreError>> + Send;
}

/// What a commit of unknown fate calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnknown {
    /// The protocol recognizes what it has already done.
    RunAgain,
    /// Running again could do it twice: only the caller can decide.
    Report,
}

/// What a protocol returned, and where in the order of commits it came to stand.
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

/// As [`run`], for who must know whether a refusal means that nothing happened.
pub async fn run_or_tell<E: Engine, P: Protocol>(
    engine: &E,
    clock: &dyn Clock,
    protocol: &P,
) -> Result<Done<P::Output>, Refused> {
    let (mut attempt, mut unavailable, mut perhaps_applied) = (1, 0, false);
    if engine.remembers() && protocol.tries_memory() {
        // Only an applied commit counts: everything else is decided on the newest state.
        match once(engine.begin_from_memory(), protocol).await {
            Ok(done) if done.stamp.is_some() => return Ok(done),
            Err(error @ StoreError::Commit(CommitError::Unknown(_))) => {
                perhaps_applied = true;
                if protocol.on_unknown() == OnUnknown::Report {
                    return Err(Refused { error, perhaps_applied });
                }
            }
            _ => {}
        }
    }
    loop {
        let ran = match attempt == 1 && protocol.announces_all() {
            true => once(engine.begin_announced(), protocol).await,
            false => once(engine.begin(), protocol).await,
        };
        let error = match ran {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        perhaps_applied |= matches!(error, StoreError::Commit(CommitError::Unknown(_)));
        unavailable += u32::from(is_unavailable(&error));
        let is_last = attempt == ATTEMPTS_MAX || unavailable == UNAVAILABLE_MAX;
        if is_last || !is_retryable(&error, protocol.on_unknown()) {
            return Err(Refused { error, perhaps_applied });
        }
        if let Some(pause) = backoff(attempt) {
            clock.sleep(pause).await;
        }
        attempt += 1;
    }
}

async fn once<T: Transaction, P: Protocol>(
    begin: impl Future<Output = Result<T, EngineError>>,
    protocol: &P,
) -> Result<Done<P::Output>, StoreError> {
    let mut tx = begin.await?;
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
