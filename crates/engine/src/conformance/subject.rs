//! The subject that the conformance suite tests an engine by.

use crate::Engine;
use futures_util::future::BoxFuture;

/// An engine on the examination table.
pub trait Subject: Send + Sync {
    type Engine: Engine;

    /// A fresh, empty store: a property never sees what another has written.
    fn open(&self) -> impl Future<Output = Self::Engine> + Send;

    /// Runs a task beside all others, on a thread or on the engine's own runtime, until it ends.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Completes when a wait has become hopeless. A property that takes longer does not hold, so be generous.
    fn time_limit(&self) -> impl Future<Output = ()> + Send;

    /// Lets the engine's clock pass by so much, if the subject has power over it, and says whether it has.
    fn advance_ms(&self, _engine: &Self::Engine, _passed_ms: u64) -> bool {
        false
    }

    /// Kills the engine as rudely as it may happen, and opens what is left; `None` if nothing is meant to
    /// survive. The suite holds no other handle at that time, though transactions may have been dropped
    /// halfway.
    fn crash_and_reopen(&self, _engine: Self::Engine) -> impl Future<Output = Option<Self::Engine>> + Send {
        async { None }
    }

    /// How many seeds a randomized property tries.
    fn seeds(&self) -> u64 {
        2_000
    }
}
