//! The kinds of children.

use super::{CallLog, Meter};
use futures_util::future::BoxFuture;
use mundi_model::{
    Hash, Height, IntentHash, UniverseId, Value, WorldId,
    child::{ChildId, DispatchToken, RunId, Spend},
};
use mundi_store::protocol::{ChildFinish, CreateWorld, Failure};
use std::sync::Arc;

/// The kind of children that workers outside of Mundi run: this one, and those that begin with `external.`.
pub const EXTERNAL: &str = "external";

/// The kinds that executors run, each where it is configured.
pub(super) const BUILT_IN: [&str; 3] = ["process", "world", "agent"];

pub fn is_external(kind: &str) -> bool {
    kind == EXTERNAL || kind.strip_prefix(EXTERNAL).is_some_and(|rest| rest.starts_with('.'))
}

/// Runs children of one kind.
pub trait ChildKind: Send + Sync {
    fn kind(&self) -> &str;

    /// Whether the parameters can be used. A child with others fails before it is started.
    fn check(&self, params: &Value) -> Result<(), String>;

    /// The world that runs a child, for a kind whose children go on without their executor. It is made, with its first input, by the
    /// transaction that starts the child; then the executor has nothing more to do with it. `None`: [`run`](Self::run) does the work.
    fn world<'a>(&'a self, child: &'a WorldOfChild<'a>) -> BoxFuture<'a, Result<Option<Box<CreateWorld>>, Failure>> {
        let _ = child;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Does the work of a child that has started. It is called once per child, and dropped when the child is cancelled or its lease is lost:
    /// then nothing of the work may go on.
    fn run<'a>(&'a self, run: &'a ChildRun) -> BoxFuture<'a, ChildReport>;
}

/// A child that is leased and may become a world.
#[derive(Debug, Clone, Copy)]
pub struct WorldOfChild<'a> {
    pub universe: UniverseId,
    pub token: &'a DispatchToken,
    /// Parameters of the kind.
    pub params: &'a Value,
}

/// One run of a child.
#[derive(Clone)]
pub struct ChildRun {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: ChildId,
    /// The idempotency key of the run.
    pub run: RunId,
    pub intent: IntentHash,
    /// Of the record that spawned it.
    pub height: Height,
    /// Parameters of the kind.
    pub params: Value,
    pub budget: Spend,
    pub started_at_ns: u64,
    /// W3C `traceparent`.
    pub trace: Option<String>,
    /// The manifest of the parent that was current when the child was spawned.
    pub manifest: Option<Hash>,
    /// Debits the run while it goes on.
    pub meter: Arc<dyn Meter>,
    /// Calls to the outside that the run makes, for its parent.
    pub calls: CallLog,
}

/// How a run ended, and what it used beside its time.
#[derive(Debug, Clone)]
pub struct ChildReport {
    pub finish: ChildFinish,
    pub spent: Spend,
}
