//! The worker shell: what every role runs in.
//!
//! It boots through the schema-version guard, then works on its mailbox: claim in a short transaction, run outside it,
//! and acknowledge, requeue or dead-letter in another. Messages that are due later are timers and share the batch. It
//! sleeps until the next one is due or one is sent, and ends when it is asked to. Trouble that passes never ends it.

mod command;
mod frame;
mod report;
mod step;

pub(crate) use command::command_frame;
pub use command::{Command, WorkerCommands, send_commands};
pub use frame::{Frame, FrameError, FrameFlags, FrameKind};
pub use report::{Counters, LogEvent, LogKind, ReplayEvent, ReplayKind, Report, StepSource};
pub use step::Failed;

use crate::{Plane, RuntimeError, signal::Signal};
use futures_util::future::select;
use mundi_model::{Coded, Hash, UniverseId, WorkerId, limits};
use mundi_store::{
    keyspace::{mailbox, schema_version::SchemaVersion},
    protocol::{ClaimMail, FinishMail, GuardSchema, MailClaimed, SchemaGuarded},
};
use parking_lot::Mutex;
use std::{future::Future, pin::pin, sync::Arc, time::Duration};

/// What a role does with a message.
pub trait Handler: Send + Sync + 'static {
    /// How many messages are claimed together. More than one only for who is done with each in no time: all claims run out at the
    /// same moment.
    const MESSAGES_AT_ONCE: usize = 1;

    /// Must bear to be called twice for one message: a claim may run out while it works. A handler that does what the message asks for
    /// by a transaction makes `acknowledge` part of it, and then does it once; for all others the shell acknowledges.
    fn handle(&self, frame: &Frame, acknowledge: &FinishMail) -> impl Future<Output = Result<(), Failed>> + Send;

    /// The name under which a message was sent at most once, and for how long it is remembered after the next attempt.
    fn name(&self, _: &Frame) -> Option<(Hash, u64)> {
        None
    }
}

/// The stable knobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub claim_ttl_ms: u64,
    /// How often the transaction that ends a step is tried before the claim is left to run out.
    pub requeue_attempts_max: u32,
    /// How often a message is tried before it becomes a dead letter.
    pub retry_budget_max: u32,
    /// The wait before the second attempt; it doubles with each.
    pub backoff_ms: u64,
    /// The longest of these waits.
    pub backoff_ms_max: u64,
    /// Messages and timers of one tick.
    pub batch_max: usize,
    /// The longest sleep, whatever the next due time says.
    pub idle_ms_max: u64,
    /// What follows a failure that no further attempt can mend.
    pub on_non_retryable: OnNonRetryable,
}

/// What a shell does after a non-retryable failure. The message is a dead letter in any case: nothing is lost, and nothing is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNonRetryable {
    /// Goes on with the next message.
    #[default]
    DeadLetter,
    /// Ends the shell; the process goes on without it.
    Stop,
    /// Ends the shell and lets whoever started it decide: a server drains and exits with the failure.
    Escalate,
}

/// Why a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// [`OnNonRetryable::Stop`], after this failure.
    Stopped(Failed),
    /// [`OnNonRetryable::Escalate`], after this failure.
    Escalated(Failed),
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            claim_ttl_ms: 1_000,
            requeue_attempts_max: 4,
            retry_budget_max: 4,
            backoff_ms: 50,
            backoff_ms_max: 60_000,
            batch_max: 64,
            idle_ms_max: 60_000,
            on_non_retryable: OnNonRetryable::default(),
        }
    }
}

impl Policy {
    /// For messages that somebody was told will arrive: tried for as long as timers are.
    pub fn of_deliveries() -> Self {
        Self {
            claim_ttl_ms: 10_000,
            retry_budget_max: limits::DELIVERY_ATTEMPTS_MAX,
            backoff_ms: limits::DELIVERY_BACKOFF_MS,
            backoff_ms_max: limits::DELIVERY_BACKOFF_MS_MAX,
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ShellConfig {
    pub universe: UniverseId,
    pub worker: WorkerId,
    /// The version of the keyspace that this worker speaks.
    pub schema: SchemaVersion,
    /// Write the version if the universe has none.
    pub bootstrap: bool,
    pub policy: Policy,
}

impl ShellConfig {
    pub fn new(universe: UniverseId, worker: WorkerId) -> Self {
        Self { universe, worker, schema: SchemaVersion::CURRENT, bootstrap: false, policy: Policy::default() }
    }
}

/// A worker's shell.
pub struct Shell<P, H> {
    plane: P,
    config: ShellConfig,
    handler: H,
    report: Arc<Report>,
    stop: Stop,
}

/// What a tick came to.
#[derive(Debug)]
pub struct Ticked {
    /// Messages and timers that were worked on.
    pub steps: usize,
    /// Nothing was left; when to look again, and what to watch.
    idle: Option<(Option<u64>, mailbox::Seen)>,
}

impl Ticked {
    pub fn is_idle(&self) -> bool {
        self.idle.is_some()
    }
}

/// Asks a shell to end, and waits until it has.
#[derive(Clone, Default)]
pub struct Stop {
    phase: Arc<Mutex<Phase>>,
    /// The failure that ended it.
    failed: Arc<Mutex<Option<Ended>>>,
    signal: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Running,
    Draining,
    Stopping,
    Over,
}

impl Stop {
    /// Ends after the step that is under way.
    pub fn request_stop(&self) {
        self.advance(Phase::Stopping);
    }

    /// Ends once nothing that is due is left.
    pub fn request_drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Completes when the shell has ended, and says why it has.
    pub async fn join(&self) -> Ended {
        loop {
            let seen = self.signal.version();
            if *self.phase.lock() == Phase::Over {
                return self.failed.lock().clone().unwrap_or(Ended::Asked);
            }
            self.signal.changed(seen).await;
        }
    }

    /// Phases only move forward, except that a stop overrides a drain.
    fn advance(&self, to: Phase) {
        let mut phase = self.phase.lock();
        if *phase != Phase::Over && !(*phase == Phase::Stopping && to == Phase::Draining) {
            *phase = to;
        }
        drop(phase);
        self.signal.notify();
    }

    /// Ends because of a failure. The first one is the reason.
    fn fail(&self, ended: Ended) {
        self.failed.lock().get_or_insert(ended);
        self.advance(Phase::Stopping);
    }

    fn is(&self, phase: Phase) -> bool {
        *self.phase.lock() == phase
    }
}

impl<P: Plane, H: Handler> Shell<P, H> {
    /// Boots: nothing runs on a universe of another version.
    pub async fn boot(
        plane: P,
        config: ShellConfig,
        handler: H,
        report: Arc<Report>,
    ) -> Result<(Self, SchemaGuarded), RuntimeError> {
        let ShellConfig { universe, schema: expected, bootstrap, .. } = config;
        let guarded = plane.run(&GuardSchema { universe, expected, bootstrap }).await?.output;
        Ok((Self { plane, config, handler, report, stop: Stop::default() }, guarded))
    }

    /// Runs as a task until it is asked to end.
    pub fn start(self) -> Stop {
        let (stop, plane) = (self.stop.clone(), self.plane.clone());
        plane.spawner().spawn(Box::pin(self.run()));
        stop
    }

    async fn run(self) {
        while !self.stop.is(Phase::Stopping) {
            let version = self.stop.signal.version();
            // Asked before the look: what was sent before the word to drain is still done.
            let draining = self.stop.is(Phase::Draining);
            match self.tick().await {
                Ok(Ticked { idle: None, .. }) => {}
                Ok(_) if draining => break,
                Ok(Ticked { idle: Some((next_ns, seen)), .. }) => self.rest(next_ns, seen, version).await,
                Err(error) => {
                    let (worker, code) = (self.config.worker, Some(error.code()));
                    self.report.log(LogEvent { kind: LogKind::WorkerError, worker, place: None, code, attempt: 0 });
                    self.plane.clock().sleep(Duration::from_millis(self.config.policy.backoff_ms)).await;
                }
            }
        }
        self.stop.advance(Phase::Over);
    }

    /// Works on up to a batch of messages and due timers.
    pub async fn tick(&self) -> Result<Ticked, RuntimeError> {
        let Policy { claim_ttl_ms, batch_max, .. } = self.config.policy;
        let mut steps = 0;
        while steps < batch_max && !self.stop.is(Phase::Stopping) {
            let claim = ClaimMail {
                universe: self.config.universe,
                worker: self.config.worker,
                token: self.plane.random(),
                now_ns: self.plane.now_ns(),
                ttl_ns: claim_ttl_ms.saturating_mul(1_000_000),
                items_max: H::MESSAGES_AT_ONCE.min(batch_max - steps),
            };
            match self.plane.run(&claim).await?.output {
                MailClaimed::Messages(messages) => {
                    steps += messages.len();
                    self.steps(&messages).await?;
                }
                MailClaimed::Nothing { next_ns, seen } => return Ok(Ticked { steps, idle: Some((next_ns, seen)) }),
            }
        }
        Ok(Ticked { steps, idle: None })
    }

    /// Until the next message is due or one is sent, or until it is asked to end.
    async fn rest(&self, next_ns: Option<u64>, seen: mailbox::Seen, version: u64) {
        let ShellConfig { universe, worker, policy, .. } = self.config;
        let idle_ns = policy.idle_ms_max.saturating_mul(1_000_000);
        let left_ns = next_ns.map_or(u64::MAX, |next_ns| next_ns.saturating_sub(self.plane.now_ns()));
        let due = self.plane.clock().sleep(Duration::from_nanos(left_ns.min(idle_ns)));
        let sent = pin!(mailbox::changed(self.plane.engine(), universe, worker, seen));
        select(select(due, sent), self.stop.signal.changed(version)).await;
    }
}
