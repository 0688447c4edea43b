//! How a role is asked to end, and how one waits until it has.

use super::Failed;
use crate::signal::Signal;
use parking_lot::Mutex;
use std::sync::Arc;

/// Why a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to, or a panic ended it.
    Asked,
    /// The role failed for good; a mailbox by [`super::OnNonRetryable::Stop`].
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
        self.reached(|phase| phase == Phase::Over).await;
        self.failed.lock().clone().unwrap_or(Ended::Asked)
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
        self.reached(|phase| phase != Phase::Running).await;
    }

    /// Completes when it is asked to end without a drain, or to end a drain.
    pub(super) async fn stop_requested(&self) {
        self.reached(|phase| matches!(phase, Phase::Stopping | Phase::Over)).await;
    }

    async fn reached(&self, has_reached: impl Fn(Phase) -> bool) {
        loop {
            let seen = self.signal.version();
            let phase = *self.phase.lock();
            if has_reached(phase) {
                return;
            }
            self.signal.changed(seen).await;
        }
    }
}
