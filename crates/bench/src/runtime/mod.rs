//! The runtime workloads: what a world costs, from the call to the reply, beside the raw limit.

mod children;
mod counting;
mod exports;
mod renewals;

use crate::{
    Common,
    clients::{Done, Kind, measure},
    machine::resident_bytes,
    program,
    raw::{Room, measure_raw},
    report::Report,
};
pub(crate) use children::{ChildSettings, children};
use mundi_engine::Embedded;
use mundi_model::{Value, WorkerId, WorldId, record::EffectPolicy};
use mundi_runtime::{Plane, lifecycle::ForkAt};
use mundi_server::node::{Node, NodeConfig, Universe};
use mundi_store::objects;
use std::{
    error::Error,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// Record size of the raw limit: about what a small event leaves in inbox and journal.
const RECORD_BYTES: usize = 300;
/// How far ahead timers are set.
const TIMER_AHEAD_NS: u64 = 50_000_000;
/// Cells that one event writes: as many as its turn has room for.
const CELLS_PER_EVENT: u64 = 128;
const CELLS_PER_MIB: u64 = 256;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    common: Common,
    /// How many clients call at a time.
    #[arg(long, default_value_t = 256)]
    clients: usize,
    /// How many worlds are called.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    worlds: Vec<usize>,
    /// Sizes of the states that are forked, in MiB.
    #[arg(long, value_delimiter = ',', default_value = "1,1024")]
    fork_mib: Vec<u64>,
    /// Worlds whose memory is measured.
    #[arg(long, default_value_t = 10_000)]
    idle_worlds: usize,
    /// Only the workloads whose name begins with this: call, send, effect, timer, fork, memory, handover, renewal, export.
    #[arg(long)]
    only: Option<String>,
}

type Outcome = Result<(), Box<dyn Error>>;
type Workload = fn(&mut Bench, &Path) -> Outcome;
type Served = Arc<Universe>;

/// Calls and sends through the library.
pub(crate) fn embedded(report: &mut Report, common: &Common) -> Outcome {
    selected(report, common, &[], &["call", "send"])
}

/// Renewals of many leases, alone and beside calls.
pub(crate) fn renewals(report: &mut Report, common: &Common) -> Outcome {
    selected(report, common, &[], &["renewal"])
}

/// Forks of states of these sizes.
pub(crate) fn forks(report: &mut Report, common: &Common, fork_mib: &[u64]) -> Outcome {
    selected(report, common, fork_mib, &["fork"])
}

fn selected(report: &mut Report, common: &Common, fork_mib: &[u64], only: &[&str]) -> Outcome {
    for only in only {
        let (worlds, fork_mib) = (vec![1_000], fork_mib.to_vec());
        let only = Some((*only).to_owned());
        let settings = Settings { common: common.clone(), clients: 256, worlds, fork_mib, idle_worlds: 0, only };
        report.extend(measured(&settings)?);
    }
    Ok(())
}

pub(crate) fn run(settings: &Settings) -> Outcome {
    measured(settings)?.print(settings.common.format);
    Ok(())
}

fn measured(settings: &Settings) -> Result<Report, Box<dyn Error>> {
    let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(&settings.common.dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut bench = Bench { settings: settings.clone(), runtime, report: Report::new() };
    let workloads: [(&str, Workload); 9] = [
        ("call", Bench::calls),
        ("send", Bench::sends),
        ("effect", Bench::effects),
        ("timer", Bench::timers),
        ("fork", Bench::forks),
        ("memory", Bench::memory),
        ("handover", Bench::hand_over),
        ("renewal", Bench::renewals),
        ("export", Bench::exports),
    ];
    for (name, workload) in workloads {
        if settings.only.as_ref().is_none_or(|only| name.starts_with(only.as_str())) {
            let folder = tempfile::tempdir_in(folder.path())?;
            workload(&mut bench, folder.path())?;
        }
    }
    Ok(bench.report)
}

struct Bench {
    settings: Settings,
    runtime: Runtime,
    report: Report,
}

/// A node on a new folder, for one measurement.
struct Serving {
    node: Node,
    universe: Served,
}

async fn serve(folder: &Path) -> Result<Serving, Box<dyn Error>> {
    let node = Node::open(folder, program::programs(), NodeConfig::default()).await?;
    let universe = node.universe("default").ok_or("the default universe is missing")?;
    Ok(Serving { node, universe })
}

async fn create(universe: &Served, program: &str, worlds: usize) -> Result<Arc<Vec<WorldId>>, Box<dyn Error>> {
    let mut created = Vec::new();
    for _ in 0..worlds {
        created.push(universe.create(program).await?);
    }
    Ok(Arc::new(created))
}

impl Bench {
    fn time(&self) -> Duration {
        Duration::from_secs(self.settings.common.seconds)
    }

    /// An event to one of so many counters; it is journaled and stepped, and the reply is waited for.
    fn calls(&mut self, folder: &Path) -> Outcome {
        for worlds in self.settings.worlds.clone() {
            self.turns(folder, &format!("call, {worlds} worlds"), worlds, |universe, world| async move {
                universe.call(world, "add", Value::Integer(1.into())).await.map(drop)
            })?;
        }
        Ok(())
    }

    /// The same without waiting for more than that the event is durable.
    fn sends(&mut self, folder: &Path) -> Outcome {
        self.turns(folder, "send, 1000 worlds", 1_000, |universe, world| async move {
            universe.send(world, "add", Value::Integer(1.into())).await.map(drop)
        })
    }

    fn turns<F, Fut, R>(&mut self, folder: &Path, name: &str, worlds: usize, operation: F) -> Outcome
    where
        F: Fn(Served, WorldId) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), R>> + Send,
        R: std::fmt::Display,
    {
        let clients = self.settings.clients;
        let (mut raw, mut done) = (Vec::new(), Vec::new());
        for run in 0..self.settings.common.runs {
            self.report.progress(&format!("{name}, by {clients} clients, in turns with the raw limit"));
            let path = folder.join("raw");
            let (room, kind) = (Room::Preallocated, Kind::Tasks);
            raw.push(measure_raw(&self.runtime, &path, room, kind, clients, self.time(), RECORD_BYTES)?);
            let served = self.runtime.block_on(serve(&folder.join(format!("{worlds}-{run}-{}", name.len()))))?;
            let created = self.runtime.block_on(create(&served.universe, "counter", worlds))?;
            let (universe, operation) = (served.universe.clone(), operation.clone());
            done.push(measure(&self.runtime, kind, clients, self.time(), move |client, turn| {
                let place = (client as u64 + turn * clients as u64) % created.len() as u64;
                let world = created[usize::try_from(place).unwrap_or(0)];
                counted(operation(universe.clone(), world))
            }));
            self.runtime.block_on(served.node.stop());
        }
        self.figures(name, &done);
        let share = done.iter().zip(&raw).map(|(done, raw)| done.per_second / raw.per_second).collect();
        self.report.add(format!("{name}, of the raw limit's records/s"), "ratio", share);
        Ok(())
    }

    fn figures(&mut self, name: &str, done: &[Done]) {
        self.report.add(name, "events/s", done.iter().map(|done| done.per_second).collect());
        for (index, share) in ["p50", "p95", "p99"].into_iter().enumerate() {
            let ms = done.iter().map(|done| done.latency_us[index] / 1e3).collect();
            self.report.add(format!("{name}, {share}"), "ms", ms);
        }
        let cpu = done.iter().map(|done| done.cpu_us).collect();
        self.report.add(format!("{name}, processor time"), "us/event", cpu);
        let written = done.iter().map(|done| done.written_bytes).collect();
        self.report.add(format!("{name}, written"), "B/event", written);
    }

    /// From the intent to its receipt in the journal: published, claimed, carried out, enqueued, stepped, replied.
    fn effects(&mut self, folder: &Path) -> Outcome {
        let mut done = Vec::new();
        for run in 0..self.settings.common.runs {
            self.report.progress("effect round trips of 64 worlds");
            let served = self.runtime.block_on(serve(&folder.join(format!("{run}"))))?;
            let created = self.runtime.block_on(create(&served.universe, "bench", 64))?;
            let universe = served.universe.clone();
            done.push(measure(&self.runtime, Kind::Tasks, 64, self.time(), move |client, _| {
                let (universe, world) = (universe.clone(), created[client]);
                counted(async move { universe.call(world, "effect", Value::Null).await.map(drop) })
            }));
            self.runtime.block_on(served.node.stop());
        }
        self.figures("effect round trip, 64 worlds", &done);
        Ok(())
    }

    /// How late timers are, by the world's own clock, when the turn that they caused is stepped.
    fn timers(&mut self, folder: &Path) -> Outcome {
        self.report.progress("timers of 64 worlds");
        let served = self.runtime.block_on(serve(&folder.join("store")))?;
        let created = self.runtime.block_on(create(&served.universe, "bench", 64))?;
        let (universe, lags) = (served.universe.clone(), Arc::new(crate::latency::Latencies::default()));
        let noted = lags.clone();
        let done = measure(&self.runtime, Kind::Tasks, 64, self.time(), move |client, _| {
            let (universe, world, lags) = (universe.clone(), created[client], noted.clone());
            counted(async move {
                let lag = universe.call(world, "timer", Value::Integer(TIMER_AHEAD_NS.into())).await?;
                let Value::Integer(ns) = lag else { return Err("a timer's lag is no number".into()) };
                lags.note(Duration::from_nanos(u64::try_from(ns).unwrap_or(0)));
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            })
        });
        self.runtime.block_on(served.node.stop());
        self.report.add("timers set and fired, 64 worlds", "timers/s", vec![done.per_second]);
        for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            self.report.add(format!("timer lag, {name}"), "ms", vec![lags.below_us(share) / 1e3]);
        }
        Ok(())
    }

    /// Forks of a world at its newest snapshot, by the size of its state.
    fn forks(&mut self, folder: &Path) -> Outcome {
        let mut medians = Vec::new();
        for mib in self.settings.fork_mib.clone() {
            self.report.progress(&format!("a fork of a state of {mib} MiB (after it was written)"));
            let path = folder.join(format!("{mib}"));
            let mut millis = self.runtime.block_on(fork_of(&path, mib, 15))?;
            std::fs::remove_dir_all(path)?;
            millis.sort_by(f64::total_cmp);
            medians.push(millis[millis.len() / 2]);
            self.report.add(format!("fork of {mib} MiB"), "ms", millis);
        }
        if let [small, .., large] = medians[..] {
            let goal = Some("<= 2".to_owned());
            self.report.add("fork of the largest / of the smallest state", "ratio", vec![large / small]).goal = goal;
        }
        Ok(())
    }

    /// The cost of worlds that are idle, and the cost while they are in memory.
    fn memory(&mut self, folder: &Path) -> Outcome {
        let worlds = self.settings.idle_worlds;
        self.report.progress(&format!("the memory of {worlds} worlds"));
        let served = self.runtime.block_on(serve(&folder.join("store")))?;
        let before = resident_bytes();
        let created = self.runtime.block_on(create(&served.universe, "counter", worlds))?;
        let idle = resident_bytes();
        self.runtime.block_on(async {
            for world in created.iter() {
                served.universe.call(*world, "add", Value::Integer(1.into())).await?;
            }
            Ok::<_, Box<dyn Error>>(())
        })?;
        let resident = resident_bytes();
        self.runtime.block_on(served.node.stop());
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let each = |bytes: u64| vec![bytes as f64 / worlds as f64];
        let idle_name = "memory per idle world (the engine's memory table included)";
        self.report.add(idle_name, "B", each(idle.saturating_sub(before)));
        self.report.add("memory per resident world, beyond idle", "B", each(resident.saturating_sub(idle)));
        Ok(())
    }

    /// One node drains, the other continues: the longest silence that a caller meets.
    fn hand_over(&mut self, folder: &Path) -> Outcome {
        let mut millis = Vec::new();
        for run in 0..self.settings.common.runs {
            self.report.progress("hand-over of 100 worlds from one node to another");
            let path = folder.join(format!("{run}"));
            millis.push(self.runtime.block_on(hand_over_once(&path))?);
        }
        self.report.add("hand-over, drain to next reply, slowest of 100", "ms", millis).goal =
            Some("<= 1000".to_owned());
        Ok(())
    }
}

pub(crate) async fn counted<R: std::fmt::Display>(operation: impl Future<Output = Result<(), R>>) -> u64 {
    match operation.await {
        Ok(()) => 1,
        Err(error) => {
            eprintln!("an operation failed: {error}");
            0
        }
    }
}

async fn fork_of(path: &Path, mib: u64, forks: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let served = serve(path).await?;
    let universe = served.universe.clone();
    let world = universe.create("bench").await?;
    for event in 0..mib * CELLS_PER_MIB / CELLS_PER_EVENT {
        let range = [event * CELLS_PER_EVENT, CELLS_PER_EVENT].map(|number| Value::Integer(number.into()));
        universe.call(world, "fill", Value::Array(range.to_vec())).await?;
        if event % 256 == 255 {
            eprintln!("  {} of {mib} MiB", (event + 1) * CELLS_PER_EVENT / CELLS_PER_MIB);
        }
    }
    let head = universe.ops().describe_world(world).await?.head.ok_or("the world has no head")?.height;
    universe.ops().take_snapshot(world).await?;
    while universe.ops().list_snapshots(world, None, 1).await?.items.first().is_none_or(|note| note.height < head) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rustix::fs::sync(); // else a disk that is still busy with the state would be measured
    let mut millis = Vec::new();
    for _ in 0..forks {
        let (child, now_ns) = (WorldId::from_bytes(universe.plane().random()), universe.plane().now_ns());
        let begun = Instant::now();
        universe.ops().world_fork(world, child, ForkAt::Newest, EffectPolicy::Suppress, now_ns).await?;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    served.node.stop().await;
    Ok(millis)
}

async fn hand_over_once(path: &Path) -> Result<f64, Box<dyn Error>> {
    let engine = Embedded::open(path.join("engine"))?;
    let objects = objects::open(&path.join("objects").display().to_string())?;
    let node = |number| {
        let config = NodeConfig { worker: WorkerId::new(number), ..NodeConfig::default() };
        Node::start(engine.clone(), objects.clone(), program::programs(), config)
    };
    let first = node(1).await?;
    let universe = first.universe("default").ok_or("the default universe is missing")?;
    let worlds = create(&universe, "counter", 100).await?;
    for world in worlds.iter() {
        universe.call(*world, "add", Value::Null).await?;
    }
    let second = node(2).await?;
    let other = second.universe("default").ok_or("the default universe is missing")?;
    let begun = Instant::now();
    let slowest = Arc::new(AtomicU64::new(0));
    let draining = first.drain();
    let calling = async {
        let calls = worlds.iter().map(|world| {
            let (other, slowest, world) = (other.clone(), slowest.clone(), *world);
            tokio::spawn(async move {
                let reply = other.call(world, "add", Value::Null).await.map(drop).map_err(|error| error.to_string());
                slowest.fetch_max(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX), Relaxed);
                reply
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await??;
        }
        Ok::<_, Box<dyn Error>>(())
    };
    let ((), called) = tokio::join!(draining, calling);
    called?;
    first.stop().await;
    second.stop().await;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    Ok(slowest.load(Relaxed) as f64 / 1e3)
}
