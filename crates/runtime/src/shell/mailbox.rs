//! The role that serves a mailbox: it claims messages in a short transaction, runs them outside of it, and acknowledges, requeues or
//! dead-letters them in another. Messages that are due later are timers and share the batch. It sleeps until the next one is due or
//! one is sent.

use super::{Failed, Frame, LogEvent, LogKind, Role, Shell, ShellConfig, stop::Phase};
use crate::{Plane, RuntimeError};
use futures_util::future::select;
use mundi_model::{Coded, Hash, limits};
use mundi_store::{
    keyspace::mailbox,
    protocol::{ClaimMail, FinishMail, MailClaimed},
};
use std::{future::Future, pin::pin, time::Duration};

/// Carries out the messages of a role.
pub trait Handler: Send + Sync + 'static {
    /// How many messages are claimed together. More than one only for who is done with each in no time: all claims expire at the
    /// same moment.
    const MESSAGES_AT_ONCE: usize = 1;

    /// Must bear to be called twice for one message: a claim may expire while it works. A handler that does what the message asks for
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
    /// How often the transaction that ends a step is tried before the claim is left to expire.
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
    /// The reaction to a failure that no further attempt can repair.
    pub on_non_retryable: OnNonRetryable,
}

/// The reaction of a shell to a non-retryable failure. The message is a dead letter in any case: nothing is lost, and nothing is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNonRetryable {
    /// Goes on with the next message.
    #[default]
    DeadLetter,
    /// Ends the shell; the process continues without it.
    Stop,
    /// Ends the shell with the failure: a server drains and exits with it.
    Escalate,
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
    /// This one for messages that somebody was told will arrive. Attempts and waits are those of timers, and a message of one client that cannot be
    /// delivered ends nobody's shell; the rest is kept.
    pub fn for_deliveries(self) -> Self {
        let Self { requeue_attempts_max, batch_max, idle_ms_max, .. } = self;
        Self { requeue_attempts_max, batch_max, idle_ms_max, ..Self::of_deliveries() }
    }

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

/// The result of a tick.
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

/// A handler of messages is a role: it serves the mailbox of its worker.
impl<P: Plane, H: Handler> Role<P> for H {
    const NAME: &'static str = "mailbox";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        let stop = &shell.stop;
        while !stop.is(Phase::Stopping) {
            let version = stop.signal.version();
            // Asked before the look: what was sent before the word to drain is still done.
            let draining = stop.is(Phase::Draining);
            match shell.tick().await {
                Ok(Ticked { idle: None, .. }) => {}
                Ok(_) if draining => break,
                Ok(Ticked { idle: Some((next_ns, seen)), .. }) => shell.rest(next_ns, seen, version).await,
                Err(error) => {
                    let (worker, code) = (shell.config.worker, Some(error.code()));
                    shell.report.log(LogEvent { kind: LogKind::WorkerError, worker, place: None, code, attempt: 0 });
                    shell.plane.clock().sleep(Duration::from_millis(shell.config.policy.backoff_ms)).await;
                }
            }
        }
        Ok(())
    }
}

impl<P: Plane, H: Handler> Shell<P, H> {
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
