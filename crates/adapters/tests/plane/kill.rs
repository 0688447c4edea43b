//! A real process runs worlds on the embedded engine and is killed with `kill -9`, again and again.

use crate::rig::{adapter_worker, check_journal, id};
use futures_util::future::BoxFuture;
use mundi_engine::Embedded;
use mundi_kernel::Registry;
use mundi_model::{
    Height, UniverseId, Value,
    record::{InboxItem, Origin},
};
use mundi_runtime::{
    Plane, Services, Spawn, Task,
    calls::Calls,
    control::Ops,
    effects::{Adapter, AdapterWorkerConfig, Call, usual_retry},
    lifecycle::{NewWorld, create, register_trusted},
    metrics::Metrics,
    testing::{manifest, register, script_event},
    timers::{TimerWorker, TimerWorkerConfig},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    Clock, Entropy,
    blob::Blobs,
    blobs::{Cas, CasConfig},
    journal::History,
    objects,
    protocol::{CreateUniverse, Failure},
    segments::SegmentStore,
    testing::world_id,
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    pin::Pin,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const FOLDER: &str = "MUNDI_PLANE_KILL_FOLDER";
const ROUND: &str = "MUNDI_PLANE_KILL_ROUND";
const ROUNDS: u64 = 6;
const WORLDS: u64 = 4;
const UNIVERSE: UniverseId = UniverseId::from_bytes([9; 16]);

type KillPlane = Services<Embedded, Cas<Embedded>, SegmentStore<Embedded>>;

struct Machine;

impl Clock for Machine {
    #[expect(clippy::disallowed_methods, reason = "the edge: this is where the clock comes from")]
    fn now_ns(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(since.as_nanos()).unwrap()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

impl Entropy for Machine {
    fn fill(&self, bytes: &mut [u8]) {
        std::fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
    }
}

impl Spawn for Machine {
    fn spawn(&self, task: Task) {
        tokio::spawn(task);
    }
}

fn plane(folder: &Path) -> KillPlane {
    let engine = Embedded::open(folder.join("engine")).unwrap();
    std::fs::create_dir_all(folder.join("objects")).unwrap();
    let objects = objects::open(folder.join("objects").to_str().unwrap()).unwrap();
    let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) = (Arc::new(Machine), Arc::new(Machine));
    let blobs = Cas::new(engine.clone(), objects.clone(), clock.clone(), entropy.clone(), CasConfig::default());
    let segments = SegmentStore::new(engine.clone(), objects);
    let mut registry = Registry::new();
    register(&mut registry);
    let (registry, spawner) = (Arc::new(registry), Arc::new(Machine));
    Services { engine, blobs, segments, clock, entropy, registry, spawner, retry: usual_retry() }
}

async fn create_worlds(plane: &KillPlane) {
    plane.run(&CreateUniverse { universe: UNIVERSE, now_ns: 1 }).await.unwrap();
    let descriptor = register(&mut Registry::new());
    Blobs::put(&plane.blobs, UNIVERSE, descriptor.into(), &[]).await.unwrap();
    let manifest = Blobs::put(&plane.blobs, UNIVERSE, manifest().to_bytes().into(), &[]).await.unwrap();
    register_trusted(plane, UNIVERSE, &[manifest]).await.unwrap();
    for n in 0..WORLDS {
        let new = NewWorld { universe: UNIVERSE, world: world_id(n), manifest, inbox: None, now_ns: 1 };
        create(plane, new).await.unwrap();
    }
}

/// Answers at once, and one call in seven never: when the process is killed, some effects are in flight.
#[derive(Default)]
struct Echo {
    hangs: bool,
    calls: AtomicU64,
}

impl Adapter for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn kinds(&self) -> &[&str] {
        &["http"]
    }

    fn call<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async {
            if self.hangs && self.calls.fetch_add(1, Ordering::SeqCst) % 7 == 6 {
                std::future::pending::<()>().await;
            }
            Ok(Value::Null)
        })
    }
}

/// Everything that runs worlds, in this process. A claim lasts an hour: what a killed process has held is taken up because its folder is
/// open again, and for no other reason.
fn start(plane: &KillPlane, calls: Calls, hangs: bool) {
    let mut config = WorkerConfig::new(UNIVERSE, id(1)); // a process that comes back takes its own leases again
    config.snapshots.records = 50;
    config.segments.records = mundi_store::protocol::ExportPolicy {
        margin: 10,
        records_min: 40,
        ..mundi_store::protocol::ExportPolicy::DEFAULT
    };
    WorldWorker::start(plane.clone(), config, calls, Arc::new(Metrics::default()));
    let claim_ttl = Duration::from_secs(3_600);
    let config = AdapterWorkerConfig { claim_ttl, is_alone: true, ..AdapterWorkerConfig::default() };
    let echo = Arc::new(Echo { hangs, ..Echo::default() });
    let adapters = adapter_worker(plane, UNIVERSE, id(2), config, plane.entropy.clone()).serve(echo);
    tokio::spawn(async move { drop(adapters.run(std::future::pending()).await) });
    let (engine, clock) = (plane.engine.clone(), plane.clock.clone());
    let timers = TimerWorker::new(engine, clock, UNIVERSE, TimerWorkerConfig::default());
    tokio::spawn(async move { drop(timers.run(std::future::pending()).await) });
}

fn item(script: &str) -> InboxItem {
    let origin = Origin::new(0);
    InboxItem { input: script_event(script), origin }
}

/// Not a test by itself: the process that is killed. It writes a line for each event that was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plane_that_is_killed() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) else { return };
    let plane = plane(Path::new(&folder));
    create_worlds(&plane).await;
    start(&plane, Calls::default(), true);
    let ops = Ops::new(plane.clone(), UNIVERSE, Calls::default());
    for n in 0.. {
        let world = world_id(n % WORLDS);
        let script = format!("add n\nemit e{round}-{n}\ntimer t{round}-{n} {}", plane.now_ns());
        ops.enqueue_ingress(world, item(&script), Some(&format!("{round}-{n}"))).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {}", n % WORLDS).unwrap();
        out.flush().unwrap();
    }
}

/// Lets a process work for a while, kills it, and counts what it had acknowledged.
fn run_and_kill(folder: &Path, round: u64, acknowledged: &mut [u64]) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::the_plane_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if let Some((_, world)) = line.split_once("acknowledged ") {
            acknowledged[world.parse::<usize>().unwrap()] += 1;
            lines += 1;
        }
        if lines == 20 + round * 31 {
            child.kill().unwrap(); // what is still in the pipe was acknowledged, too, and is read on
        }
    }
    assert!(!child.wait().unwrap().success());
    assert!(lines >= 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worlds_survive_kill_9_with_every_acknowledged_event_and_one_answer_each() {
    if std::env::var(FOLDER).is_ok() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = vec![0; usize::try_from(WORLDS).unwrap()];
    for round in 0..ROUNDS {
        run_and_kill(folder.path(), round, &mut acknowledged);
    }
    let plane = plane(folder.path());
    start(&plane, Calls::default(), false);
    let ops = Ops::new(plane.clone(), UNIVERSE, Calls::default());
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut waiting = ops.list_effects(None, None, None, 1).await.unwrap().items.len();
        waiting += ops.list_timers(None, None, 1).await.unwrap().items.len();
        for n in 0..WORLDS {
            waiting += usize::try_from(ops.describe_world(world_id(n)).await.unwrap().inbox.items).unwrap();
        }
        if waiting == 0 {
            break;
        }
    }
    for (n, acknowledged) in (0..WORLDS).zip(acknowledged) {
        let world = world_id(n);
        let history =
            History::open(&plane.engine, plane.segments.clone(), UNIVERSE, world, Height::GENESIS).await.unwrap();
        let journal: Vec<_> = history.collect().await.unwrap().into_iter().map(|record| record.bytes).collect();
        check_journal(&journal);
        let params = mundi_model::cbor::encode(&Value::Text("n".into()));
        let taken = ops.world_query(world, "cell", &params, None).await.unwrap();
        let taken = u64::from_be_bytes(taken.try_into().unwrap());
        // At most one event per round was on its way and not acknowledged.
        assert!((acknowledged..=acknowledged + ROUNDS).contains(&taken), "{taken} of {acknowledged}");
        assert!(ops.describe_world(world).await.unwrap().exported_to.is_some(), "old records were exported, too");
    }
}
