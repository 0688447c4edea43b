//! Children: from the event that spawns one to the turn that journals its end. Its work is nothing, so what is left is dispatch, start and end.
//!
//! The executor reaches the engine of the worlds through a [`Counting`] of its own, which tells its commits from the turns of the parents.

use super::{Outcome, counted, counting::Counting, create};
use crate::{
    Common,
    clients::{Done, Kind, measure},
    program,
    report::{Once, Report},
};
use futures_util::future::BoxFuture;
use mundi_engine::AnyEngine;
use mundi_model::{UniverseId, Value, WorkerId, child::Spend};
use mundi_runtime::{
    Services,
    children::{ChildExecutor, ChildExecutorConfig, ChildKind, ChildReport, ChildRun},
    metrics::{Metric, Metrics},
};
use mundi_server::node::{Node, NodeConfig, Role};
use mundi_store::{blobs::Cas, protocol::ChildFinish, segments::SegmentStore};
use std::{collections::BTreeSet, error::Error, future::pending, path::Path, sync::Arc, time::Duration};
use tokio::runtime::Runtime;

/// The node that runs the worlds has another number.
const EXECUTOR: u64 = 77;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ChildSettings {
    #[command(flatten)]
    common: Common,
    /// How many parents, one measurement for each. Each spawns its next child when the last one ended.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32, 256])]
    parents: Vec<usize>,
}

pub(crate) fn children(settings: &ChildSettings) -> Outcome {
    let ChildSettings { common, parents } = settings;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new();
    for &parents in parents {
        let time = Duration::from_secs(common.seconds);
        let of = format!("children of {parents} parents");
        report.repeat(common, &of, |folder| Ok(once(&runtime, folder, parents, time)?.figures(&of)))?;
    }
    report.print(common.format);
    Ok(())
}

/// The results of one run.
struct Ran {
    done: Done,
    /// Of the time in which clients spawned: children that ended, and what the executor committed for them.
    ended: u64,
    commits: u64,
    bytes: u64,
    turns: u64,
}

impl Ran {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn figures(&self, of: &str) -> Once {
        let each = |count: u64| count as f64 / self.ended.max(1) as f64;
        let [p50, _, p99] = self.done.latency_us.map(|us| us / 1e3);
        vec![
            (of.to_owned(), "children/s", self.done.per_second),
            (format!("{of}: p50 from spawn to end"), "ms", p50),
            (format!("{of}: p99 from spawn to end"), "ms", p99),
            (format!("{of}: processor time"), "µs/child", self.done.cpu_us),
            (format!("{of}: written, turns of the parent included"), "bytes/child", self.done.written_bytes),
            (format!("{of}: turns of the parent"), "turns/child", each(self.turns)),
            (format!("{of}: commits beside turns"), "commits/child", each(self.commits)),
            (format!("{of}: keys and values beside turns"), "bytes/child", each(self.bytes)),
        ]
    }
}

fn once(runtime: &Runtime, folder: &Path, parents: usize, time: Duration) -> Result<Ran, Box<dyn Error>> {
    // Without the role of adapters, whose executor would look at the same parents.
    let roles = BTreeSet::from([Role::World, Role::Timer, Role::Orchestrator]);
    let config = NodeConfig { roles, ..NodeConfig::default() };
    let node = runtime.block_on(Node::open(folder, program::programs(), config))?;
    let universe = node.universe("default").ok_or("the default universe is missing")?;
    let worlds = runtime.block_on(create(&universe, "bench", parents))?;
    let (engine, metrics) = (Counting::new(node.plane().engine.clone()), Arc::<Metrics>::default());
    let executor = executor(&node, universe.id(), engine.clone())?.with_metrics(metrics.clone());
    let executing = runtime.spawn(async move { executor.run(pending()).await });
    let turns = node.metrics().get(Metric::Turns);
    let done = measure(runtime, Kind::Tasks, parents, time, move |client, _| {
        let (universe, world) = (universe.clone(), worlds[client]);
        counted(async move { universe.call(world, "child", Value::Null).await.map(drop) })
    });
    let [commits, bytes] = engine.written();
    let turns = node.metrics().get(Metric::Turns) - turns;
    let ended = metrics.children().all_ended().values().sum();
    executing.abort();
    runtime.block_on(node.stop());
    Ok(Ran { done, ended, commits, bytes, turns })
}

type CountingPlane = Services<Counting<AnyEngine>, Cas<AnyEngine>, SegmentStore<AnyEngine>>;

/// An executor beside a node, on the engine of both.
fn executor(
    node: &Node,
    universe: UniverseId,
    engine: Counting<AnyEngine>,
) -> Result<ChildExecutor<CountingPlane>, Box<dyn Error>> {
    let Services { blobs, segments, clock, entropy, registry, spawner, retry, .. } = node.plane().clone();
    let plane = Services { engine, blobs, segments, clock, entropy, registry, spawner, retry };
    let worker = WorkerId::new(EXECUTOR).ok_or("a worker has a number")?;
    Ok(ChildExecutor::new(plane, universe, worker, ChildExecutorConfig::default()).serve(Arc::new(Nothing)))
}

/// Children that do nothing.
struct Nothing;

impl ChildKind for Nothing {
    fn kind(&self) -> &str {
        program::NO_WORK
    }

    fn check(&self, _: &Value) -> Result<(), String> {
        Ok(())
    }

    fn run<'a>(&'a self, _: &'a ChildRun) -> BoxFuture<'a, ChildReport> {
        let report = ChildReport { finish: ChildFinish::Passed(Value::Null), spent: Spend::default() };
        Box::pin(std::future::ready(report))
    }
}
