//! Reports of a shell: counters, log events, and a record of every step for a postmortem.
//!
//! Log events go to tracing in any case, under the target `mundi_runtime::shell`; sinks are for those that want more.

use crate::metrics::{Metric, Metrics};
use mundi_model::{Code, Kind, WorkerId};
use mundi_store::keyspace::mailbox::MailPlace;
use parking_lot::Mutex;
use std::sync::Arc;

/// Where the work of a step came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepSource {
    /// It was due at once.
    Inbox,
    /// It waited for its time.
    Timer,
}

impl StepSource {
    pub const fn of(place: MailPlace) -> Self {
        if place.is_timed() { Self::Timer } else { Self::Inbox }
    }
}

/// How it went so far (reliability counters). Adapter and timer workers count the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub inbox_attempts: u64,
    pub timer_attempts: u64,
    pub successes: u64,
    pub conflict_retries: u64,
    pub busy_retries: u64,
    pub non_retryable: u64,
    pub requeues: u64,
    pub dead_letters: u64,
    pub latency_samples: u64,
    pub latency_total_ms: u64,
    pub latency_max_ms: u64,
}

impl Counters {
    /// Attempts from both sources.
    pub const fn attempts(&self) -> u64 {
        self.inbox_attempts + self.timer_attempts
    }

    /// An attempt took so long.
    pub fn attempted(&mut self, source: StepSource, latency_ms: u64) {
        match source {
            StepSource::Inbox => self.inbox_attempts += 1,
            StepSource::Timer => self.timer_attempts += 1,
        }
        self.latency_samples += 1;
        self.latency_total_ms += latency_ms;
        self.latency_max_ms = self.latency_max_ms.max(latency_ms);
    }

    /// An attempt failed, and how.
    pub fn failed(&mut self, code: Code, retryable: bool) {
        match (retryable, code.kind()) {
            (false, _) => self.non_retryable += 1,
            (true, Kind::Conflict) => self.conflict_retries += 1,
            (true, _) => self.busy_retries += 1,
        }
    }
}

/// Something that happened to a message or to the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEvent {
    pub kind: LogKind,
    pub worker: WorkerId,
    /// `None` for what concerns the worker and no message.
    pub place: Option<MailPlace>,
    pub code: Option<Code>,
    /// How often the message was tried.
    pub attempt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    RetryableFailure,
    NonRetryableFailure,
    Requeued,
    DeadLettered,
    WorkerError,
    /// The shell ends because of a failure, as its policy asks for.
    Stopped,
}

impl LogKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetryableFailure => "retryable_failure",
            Self::NonRetryableFailure => "non_retryable_failure",
            Self::Requeued => "requeued",
            Self::DeadLettered => "dead_lettered",
            Self::WorkerError => "worker_error",
            Self::Stopped => "stopped",
        }
    }
}

impl LogEvent {
    /// The same for the log of the process.
    fn trace(&self) {
        let Self { kind, worker, place, code, attempt } = self;
        let sequence = place.map(|place| tracing::field::display(place.seq));
        let status = code.map(Code::as_str);
        match kind {
            LogKind::RetryableFailure | LogKind::Requeued => {
                tracing::info!(target: "mundi_runtime::shell", kind = kind.as_str(), %worker, sequence, status, attempt, "worker shell");
            }
            _ => {
                tracing::warn!(target: "mundi_runtime::shell", kind = kind.as_str(), %worker, sequence, status, attempt, "worker shell");
            }
        }
    }
}

/// One step, with the frame that led to it. The frame is the hook's own: it may keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayEvent {
    pub kind: ReplayKind,
    pub worker: WorkerId,
    pub place: MailPlace,
    /// Why the step failed.
    pub code: Option<Code>,
    /// Which attempt at the message this is, from 1 on.
    pub attempt: u32,
    pub frame: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayKind {
    InboxAttempt,
    InboxResult,
    TimerAttempt,
    TimerResult,
    Requeued,
    DeadLettered,
}

impl ReplayKind {
    pub(super) const fn attempt(source: StepSource) -> Self {
        match source {
            StepSource::Inbox => Self::InboxAttempt,
            StepSource::Timer => Self::TimerAttempt,
        }
    }

    pub(super) const fn result(source: StepSource) -> Self {
        match source {
            StepSource::Inbox => Self::InboxResult,
            StepSource::Timer => Self::TimerResult,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InboxAttempt => "inbox_attempt",
            Self::InboxResult => "inbox_result",
            Self::TimerAttempt => "timer_attempt",
            Self::TimerResult => "timer_result",
            Self::Requeued => "requeued",
            Self::DeadLettered => "dead_lettered",
        }
    }
}

type Sink<E> = Box<dyn Fn(E) + Send + Sync>;

/// Where a shell reports to. Sinks are called in the middle of its work: they must not block.
#[derive(Default)]
pub struct Report {
    counters: Mutex<Counters>,
    counter_sink: Option<Sink<Counters>>,
    log_sink: Option<Sink<LogEvent>>,
    replay_hook: Option<Sink<ReplayEvent>>,
    metrics: Option<Arc<Metrics>>,
}

impl Report {
    pub fn new() -> Self {
        Self::default()
    }

    /// Receives a copy of the counters after each change.
    #[must_use]
    pub fn with_counter_sink(self, sink: impl Fn(Counters) + Send + Sync + 'static) -> Self {
        Self { counter_sink: Some(Box::new(sink)), ..self }
    }

    #[must_use]
    pub fn with_log_sink(self, sink: impl Fn(LogEvent) + Send + Sync + 'static) -> Self {
        Self { log_sink: Some(Box::new(sink)), ..self }
    }

    #[must_use]
    pub fn with_replay_hook(self, hook: impl Fn(ReplayEvent) + Send + Sync + 'static) -> Self {
        Self { replay_hook: Some(Box::new(hook)), ..self }
    }

    /// Dead letters of mailboxes and shells that ended by their policy are counted there, too.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    pub fn snapshot(&self) -> Counters {
        *self.counters.lock()
    }

    pub fn reset(&self) {
        self.count(|counters| *counters = Counters::default());
    }

    /// Changes the counters, and tells the sink.
    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.lock();
        change(&mut counters);
        let copy = *counters;
        drop(counters); // a sink may ask for a snapshot
        if let Some(sink) = &self.counter_sink {
            sink(copy);
        }
    }

    pub(super) fn log(&self, event: LogEvent) {
        event.trace();
        let counted = match event.kind {
            LogKind::DeadLettered => Some(Metric::DeadLetters),
            LogKind::Stopped => Some(Metric::ShellsStopped),
            _ => None,
        };
        if let (Some(metrics), Some(metric)) = (&self.metrics, counted) {
            metrics.add(metric, 1);
        }
        if let Some(sink) = &self.log_sink {
            sink(event);
        }
    }

    /// The frame is copied only if someone wants it.
    pub(super) fn replay(&self, event: impl FnOnce() -> ReplayEvent) {
        if let Some(hook) = &self.replay_hook {
            hook(event());
        }
    }
}
