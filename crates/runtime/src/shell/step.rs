//! Steps: claimed messages are run, and then acknowledged, requeued or dead-lettered.

use super::{Ended, Frame, Handler, LogEvent, LogKind, OnNonRetryable, ReplayEvent, ReplayKind, Shell, StepSource};
use crate::{Plane, RuntimeError};
use bytes::Bytes;
use futures_util::future::join_all;
use mundi_model::{Code, Coded, Kind};
use mundi_store::{
    keyspace::{mailbox::MailPlace, queue::Claim},
    protocol::{ClaimedMail, Finish, FinishMail, MailName},
};
use std::time::Duration;

/// Why a handler could not do what a message asks for. Its code says whether another attempt makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub code: Code,
    pub reason: String,
}

impl<E: Coded + ToString> From<&E> for Failed {
    fn from(error: &E) -> Self {
        Self { code: error.code(), reason: error.to_string() }
    }
}

impl Failed {
    fn is_retryable(&self) -> bool {
        matches!(self.code.kind(), Kind::Conflict | Kind::Full | Kind::Unavailable)
    }
}

impl<P: Plane, H: Handler> Shell<P, H> {
    /// Runs messages that were claimed together one after the other, in their order, and finishes them together.
    pub(super) async fn steps(&self, messages: &[ClaimedMail]) -> Result<(), RuntimeError> {
        let mut finishing = Vec::with_capacity(messages.len());
        let mut fatal = None;
        for ClaimedMail { place, frame, claim } in messages {
            let result = self.step(*place, frame, *claim).await;
            let how = match result {
                Ok(()) => Finish::Acknowledge,
                Err(failed) => {
                    fatal = self.ending_of(&failed).map(|ended| (*place, *claim, failed.code, ended));
                    self.dispose(*place, frame, *claim, failed)
                }
            };
            finishing.push(self.finish(*place, frame, *claim, how));
            if fatal.is_some() {
                break; // the claims of those behind it run out, and another shell takes them
            }
        }
        let finished: Result<(), RuntimeError> = join_all(finishing).await.into_iter().collect();
        if let Some((place, claim, code, ended)) = fatal.filter(|_| finished.is_ok()) {
            self.log(LogKind::Stopped, place, Some(code), claim.attempt);
            self.stop.fail(ended);
        }
        finished
    }

    /// How the shell ends after such a failure, if its policy asks for that.
    fn ending_of(&self, failed: &Failed) -> Option<Ended> {
        match self.config.policy.on_non_retryable {
            _ if failed.is_retryable() => None,
            OnNonRetryable::DeadLetter => None,
            OnNonRetryable::Stop => Some(Ended::Stopped(failed.clone())),
            OnNonRetryable::Escalate => Some(Ended::Escalated(failed.clone())),
        }
    }

    async fn step(&self, place: MailPlace, frame: &Bytes, claim: Claim) -> Result<(), Failed> {
        let source = StepSource::of(place);
        self.record(ReplayKind::attempt(source), place, claim, None, frame);
        let started_ns = self.plane.now_ns();
        let result = match Frame::decode_for(self.config.worker, frame) {
            Ok(frame) => self.role.handle(&frame, &self.finishing(place, claim, Finish::Acknowledge)).await,
            Err(error) => Err(Failed::from(&error)),
        };
        let latency_ms = self.plane.now_ns().saturating_sub(started_ns) / 1_000_000;
        let code = result.as_ref().err().map(|failed| failed.code);
        self.record(ReplayKind::result(source), place, claim, code, frame);
        self.report.count(|counters| {
            counters.attempted(source, latency_ms);
            match &result {
                Ok(()) => counters.successes += 1,
                Err(failed) => counters.failed(failed.code, failed.is_retryable()),
            }
        });
        result
    }

    /// Decides about a message that failed.
    fn dispose(&self, place: MailPlace, frame: &Bytes, claim: Claim, failed: Failed) -> Finish {
        let policy = self.config.policy;
        let retryable = failed.is_retryable();
        let kind = if retryable { LogKind::RetryableFailure } else { LogKind::NonRetryableFailure };
        self.log(kind, place, Some(failed.code), claim.attempt);
        let now_ns = self.plane.now_ns();
        if !retryable || claim.attempt >= policy.retry_budget_max {
            return Finish::DeadLetter { code: failed.code.to_string(), reason: failed.reason, now_ns };
        }
        let doublings = claim.attempt.saturating_sub(1).min(16);
        let wait_ms = policy.backoff_ms.saturating_mul(1 << doublings).min(policy.backoff_ms_max);
        let not_before_ns = now_ns.saturating_add(wait_ms.saturating_mul(1_000_000));
        let named = Frame::decode_for(self.config.worker, frame).ok().and_then(|frame| self.role.name(&frame));
        let name =
            named.map(|(name, window_ns)| MailName { name, expires_at_ns: not_before_ns.saturating_add(window_ns) });
        Finish::Requeue { not_before_ns, name }
    }

    fn finishing(&self, place: MailPlace, claim: Claim, how: Finish) -> FinishMail {
        let (universe, worker) = (self.config.universe, self.config.worker);
        FinishMail { universe, worker, place, claim, how }
    }

    /// A finish that does not come through leaves the message to the end of its claim: it is tried again then.
    async fn finish(&self, place: MailPlace, frame: &Bytes, claim: Claim, how: Finish) -> Result<(), RuntimeError> {
        let finish = self.finishing(place, claim, how);
        let mut tries = 1;
        let finished = loop {
            match self.plane.run(&finish).await.map_err(RuntimeError::from) {
                Err(error) if error.is_transient() && tries < self.config.policy.requeue_attempts_max => {
                    self.plane.clock().sleep(Duration::from_millis(self.config.policy.backoff_ms)).await;
                }
                finished => break finished,
            }
            tries += 1;
        };
        match finished {
            // Someone else has the message: nothing is to be done.
            Err(error) if error.code() == Code::MailClaimLost => {
                self.log(LogKind::WorkerError, place, Some(error.code()), claim.attempt);
                return Ok(());
            }
            finished => finished?,
        };
        match &finish.how {
            Finish::Acknowledge => {}
            Finish::Requeue { .. } => {
                self.report.count(|counters| counters.requeues += 1);
                self.log(LogKind::Requeued, place, None, claim.attempt);
                self.record(ReplayKind::Requeued, place, claim, None, frame);
            }
            Finish::DeadLetter { code, reason, .. } => {
                let (worker, attempts) = (self.config.worker, claim.attempt);
                tracing::warn!(%worker, code, reason, attempts, "a message became a dead letter");
                self.report.count(|counters| counters.dead_letters += 1);
                self.log(LogKind::DeadLettered, place, None, claim.attempt);
                self.record(ReplayKind::DeadLettered, place, claim, None, frame);
            }
        }
        Ok(())
    }

    fn log(&self, kind: LogKind, place: MailPlace, code: Option<Code>, attempt: u32) {
        self.report.log(LogEvent { kind, worker: self.config.worker, place: Some(place), code, attempt });
    }

    fn record(&self, kind: ReplayKind, place: MailPlace, claim: Claim, code: Option<Code>, frame: &Bytes) {
        let (worker, attempt) = (self.config.worker, claim.attempt);
        self.report.replay(|| ReplayEvent { kind, worker, place, code, attempt, frame: frame.to_vec() });
    }
}
