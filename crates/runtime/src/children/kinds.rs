//! The kinds of children.

use futures_util::future::BoxFuture;
use mundi_model::{
    IntentHash, UniverseId, Value, WorldId,
    child::{ChildId, RunId, Spend},
};
use mundi_store::protocol::ChildFinish;

/// The kind of children that workers outside of Mundi run: this one, and those that begin with `external.`.
pub const EXTERNAL: &str = "external";

pub fn is_external(kind: &str) -> bool {
    kind == EXTERNAL || kind.strip_prefix(EXTERNAL).is_some_and(|rest| rest.starts_with('.'))
}

/// Runs children of one kind.
pub trait ChildKind: Send + Sync {
    fn kind(&self) -> &str;

    /// Whether the parameters can be used. A child with others fails before it is started.
    fn check(&self, params: &Value) -> Result<(), String>;

    /// Does the work of a child that has started. It is called once per child, and dropped when the child is cancelled or its lease is lost:
    /// then nothing of the work may go on.
    fn run<'a>(&'a self, run: &'a ChildRun) -> BoxFuture<'a, ChildReport>;
}

/// One run of a child.
#[derive(Debug, Clone)]
pub struct ChildRun {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: ChildId,
    /// The idempotency key of the run.
    pub run: RunId,
    pub intent: IntentHash,
    /// Parameters of the kind.
    pub params: Value,
    pub budget: Spend,
    pub started_at_ns: u64,
    /// W3C `traceparent`.
    pub trace: Option<String>,
}

/// How a run ended, and what it used beside its time.
#[derive(Debug, Clone)]
pub struct ChildReport {
    pub finish: ChildFinish,
    pub spent: Spend,
}
