//! What a shell tells about itself: counters, a log, and a record of every step for a postmortem.

use mundi_model::{Code, Kind, WorkerId};
use mundi_store::keyspace::mailbox::MailPlace;
use parking_lot::Mutex;

/// How it went so far (seed 003, reliability counters). Adapter and timer workers count the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub attempts: u64,
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
    /// An attempt took so long.
    pub fn attempted(&mut self, latency_ms: u64) {
        self.attempts += 1;
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

/// One line of the log.
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
}

/// One step, with the frame that led to it. The frame is the hook's own: it may keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayEvent {
    pub kind: ReplayKind,
    pub worker: WorkerId,
    pub place: MailPlace,
    pub code: Option<Code>,
    pub frame: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayKind {
    Attempt,
    Result,
    Requeued,
    DeadLettered,
}

type Sink<E> = Box<dyn Fn(E) + Send + Sync>;

/// Where a shell reports to. Sinks are called in the middle of its work: they must not block.
#[derive(Default)]
pub struct Report {
    counters: Mutex<Counters>,
    counter_sink: Option<Sink<Counters>>,
    log_sink: Option<Sink<LogEvent>>,
    replay_hook: Option<Sink<ReplayEvent>>,
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
