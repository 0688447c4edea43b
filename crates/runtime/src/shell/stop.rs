//! How a role is asked to end, and how one waits until it has.

use super::Failed;
use crate::signal::Signal;
use parking_lot::Mutex;
use std::sync::Arc;

/// Why a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// [`super::OnNonRetryable::Stop`], after this failure.
    Stopped(Failed),
    /// [`super::OnNonRetryable::Escalate`], after this failure.
    Escalated(Failed),
}

/// Asks a shell to end, and waits until it has.
#[derive(Clone, Default)]
pub struct Stop {
    phase: Arc<Mutex<Phase>>,
    /// The failure that ended it.
    failed: Arc<Mutex<Option<Ended>>>,
    pub(super) signal: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    #[default]
    Running,
    Draining,
    Stopping,
    Over,
}

impl Stop {
    /// Ends after the step that is in progress.
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
    pub(super) fn advance(&self, to: Phase) {
        let mut phase = self.phase.lock();
        if *phase != Phase::Over && !(*phase == Phase::Stopping && to == Phase::Draining) {
            *phase = to;
        }
        drop(phase);
        self.signal.notify();
    }

    /// Ends because of a failure. The first one is the reason.
    pub(super) fn fail(&self, ended: Ended) {
        self.failed.lock().get_or_insert(ended);
        self.advance(Phase::Stopping);
    }

    pub(super) fn is(&self, phase: Phase) -> bool {
        *self.phase.lock() == phase
    }

    /// Completes when it is asked to end, or to drain.
    pub(super) async fn requested(&self) {
        loop {
            let seen = self.signal.version();
            if !self.is(Phase::Running) {
                return;
            }
            self.signal.changed(seen).await;
        }
    }
}
