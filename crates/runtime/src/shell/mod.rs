//! The shell: what every role runs in.
//!
//! It boots through the schema-version guard, so that no role runs on a universe of another version; it runs the role as a task, tells it
//! to end or to drain, and says when and why it has ended; it has the counters and sinks that the role reports to. A role that
//! serves a mailbox is a [`Handler`]; the others are a [`Role`] of their own: effects, timers, the orchestrator, the sweeper, the
//! removal of old names, and the world worker, whose role is to run its tasks. A world worker has two shells: the other one serves the mailbox
//! of its commands.

mod command;
mod frame;
mod mailbox;
mod report;
mod step;
mod stop;
mod wait;

pub(crate) use command::command_frame;
pub use command::{Command, WorkerCommands, send_commands};
pub use frame::{Frame, FrameError, FrameFlags, FrameKind};
pub use mailbox::{Handler, OnNonRetryable, Policy, Ticked};
pub use report::{Counters, LogEvent, LogKind, ReplayEvent, ReplayKind, Report, StepSource};
pub use step::Failed;
pub use stop::{Ended, Stop};
pub(crate) use wait::{Woken, ride_out, wait};

use crate::{Plane, RuntimeError};
use futures_util::future::select;
use mundi_model::{UniverseId, WorkerId};
use mundi_store::{
    StoreError,
    keyspace::schema_version::SchemaVersion,
    protocol::{GuardSchema, SchemaGuarded},
};
use std::{future::Future, pin::pin, sync::Arc};
use stop::Phase;

/// A task that a process runs for a universe.
pub trait Role<P: Plane>: Send + Sync + Sized + 'static {
    /// In the log.
    const NAME: &'static str;

    /// Works until the shell is asked to end. Trouble that passes is ridden out; an error ends the role.
    fn run(shell: &Shell<P, Self>) -> impl Future<Output = Result<(), RuntimeError>> + Send;
}

#[derive(Debug, Clone, Copy)]
pub struct ShellConfig {
    pub universe: UniverseId,
    pub worker: WorkerId,
    /// The version of the keyspace that this worker supports.
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

/// A role in its shell.
pub struct Shell<P, R> {
    plane: P,
    config: ShellConfig,
    role: R,
    report: Arc<Report>,
    stop: Stop,
}

impl<P: Plane, R: Role<P>> Shell<P, R> {
    /// Boots: nothing runs on a universe of another version.
    pub async fn boot(
        plane: P,
        config: ShellConfig,
        role: R,
        report: Arc<Report>,
    ) -> Result<(Self, SchemaGuarded), RuntimeError> {
        let shell = Self { plane, config, role, report, stop: Stop::default() };
        let guarded = shell.guard().await?;
        Ok((shell, guarded))
    }

    async fn guard(&self) -> Result<SchemaGuarded, StoreError> {
        let ShellConfig { universe, schema: expected, bootstrap, .. } = self.config;
        Ok(self.plane.run(&GuardSchema { universe, expected, bootstrap }).await?.output)
    }

    /// Runs as a task until it is asked to end.
    pub fn start(self) -> Stop {
        let (stop, plane) = (self.stop.clone(), self.plane.clone());
        plane.spawner().spawn(Box::pin(async move { self.run().await }));
        stop
    }

    /// Boots and runs as a task. Where the engine does not answer, it boots later.
    pub fn launch(plane: P, config: ShellConfig, role: R) -> Stop {
        let shell = Self { plane, config, role, report: Arc::default(), stop: Stop::default() };
        let (stop, plane) = (shell.stop.clone(), shell.plane.clone());
        plane.spawner().spawn(Box::pin(async move {
            let mut troubles = 0;
            while shell.stop.is(Phase::Running) {
                match shell.guard().await {
                    Ok(_) => return shell.run().await,
                    Err(error) if RuntimeError::from(error.clone()).is_transient() => {
                        let riding_out = pin!(ride_out(&**shell.plane.clock(), error, &mut troubles));
                        select(riding_out, pin!(shell.asked_to_end())).await;
                    }
                    Err(error) => {
                        tracing::error!(%error, role = R::NAME, "a role cannot begin");
                        return shell.stop.fail(Ended::Stopped(Failed::from(&error)));
                    }
                }
            }
        }));
        stop
    }

    async fn run(&self) {
        if let Err(error) = R::run(self).await {
            tracing::error!(%error, role = R::NAME, "a role ended");
            self.stop.fail(Ended::Stopped(Failed::from(&error)));
        }
    }

    pub fn role(&self) -> &R {
        &self.role
    }

    /// Completes when the role is asked to end.
    pub(crate) async fn asked_to_end(&self) {
        self.stop.requested().await;
    }

    /// Completes when the role is asked to end at once: a drain is no such request, and ends with one.
    pub(crate) async fn asked_to_stop(&self) {
        self.stop.stop_requested().await;
    }

    /// Runs what may be dropped at any await, until the role is asked to end.
    pub(crate) async fn until_asked(&self, work: impl Future<Output = ()>) {
        select(pin!(work), pin!(self.asked_to_end())).await;
    }
}

/// Whatever ended the role, a panic too, nobody waits for it any more.
impl<P, R> Drop for Shell<P, R> {
    fn drop(&mut self) {
        self.stop.advance(Phase::Over);
    }
}
