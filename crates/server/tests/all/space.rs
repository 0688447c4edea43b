//! The space of what was deleted comes back, and nothing that is needed goes: on a real disk, and in a bucket of a real S3 server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_engine::{
    AnyEngine, Embedded, Engine, Postgres,
    embedded::Options,
    postgres::{
        self,
        testing::{fresh_schema, shared},
    },
};
use mundi_model::{
    Hash, Value, WorkerId, WorldId, cbor,
    record::{EffectPolicy, InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_runtime::{Plane, lifecycle::ForkAt, metrics::Metric, world::SnapshotPolicy};
use mundi_server::{
    node::{Node, NodeConfig, SystemClock, Universe},
    programs::Programs,
};
use mundi_store::{
    Clock,
    blobs::CasConfig,
    keyspace::{kept_object::Kind, sweep_state::Finished},
    objects::{self, Objects},
    protocol::{KeepObject, ReadSweep, ReleaseObject, RequestSweep},
    reachability::{GRACE_MIN, SweepConfig, usage},
    testing::Rng,
};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    pin::Pin,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The machine's clock, and as much ahead of it as a test says.
#[derive(Default)]
struct JumpingClock(AtomicU64);

impl JumpingClock {
    fn jump(&self, duration: Duration) {
        self.0.fetch_add(u64::try_from(duration.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now_ns(&self) -> u64 {
        SystemClock.now_ns() + self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep(duration)
    }
}

const WORLDS: u64 = 30;
const VALUES: u64 = 8;

struct Bench {
    clock: Arc<JumpingClock>,
    objects: Objects,
    node: Node,
    universe: Arc<Universe>,
}

fn open(folder: &Path) -> Embedded {
    let options = Options { segment_bytes: 1 << 20, memtable_bytes: 1 << 20, ..Options::default() };
    Embedded::open_with(folder, &options).unwrap()
}

impl Bench {
    async fn start(engine: impl Into<AnyEngine>, objects: Objects, clock: Arc<JumpingClock>) -> Self {
        let sweep = SweepConfig { grace: GRACE_MIN, ..SweepConfig::default() };
        let snapshots = SnapshotPolicy { records: 6, ..SnapshotPolicy::default() };
        let config = NodeConfig { sweep, sweep_interval: None, snapshots, ..NodeConfig::default() };
        Self::start_with(engine, objects, clock, config).await
    }

    async fn start_with(
        engine: impl Into<AnyEngine>,
        objects: Objects,
        clock: Arc<JumpingClock>,
        config: NodeConfig,
    ) -> Self {
        let node =
            Node::start_by(clock.clone(), engine.into(), objects.clone(), Programs::builtin(), config).await.unwrap();
        let universe = node.universe("default").unwrap();
        Self { clock, objects, node, universe }
    }

    async fn put(&self, world: WorldId, key: u64, value: &str) -> Value {
        let fields = [("key", format!("key-{key}")), ("value", value.to_owned())];
        let fields = fields.map(|(name, text)| (name.to_owned(), Value::Text(text)));
        self.universe.call(world, "put", Value::Map(BTreeMap::from(fields))).await.unwrap()
    }

    /// A world with values that no compression makes small, and an object of its own that its journal names.
    async fn fill(&self, seed: u64) -> (WorldId, Hash) {
        let world = self.universe.create("kv").await.unwrap();
        let object = Bytes::from(Rng::new(1_000 + seed).bytes(50_000));
        let object = mundi_store::blob::Blobs::put(&self.universe.plane().blobs, self.universe.id(), object, &[]).await;
        let object = object.unwrap();
        for key in 0..VALUES {
            self.put(world, key, &value(seed, key)).await;
        }
        self.put(world, VALUES, &object.to_string()).await;
        (world, object)
    }

    /// The bytes that engine and object store occupy.
    async fn bytes(&self) -> (u64, u64) {
        let mut stored = 0;
        self.objects.list(&"".into(), |meta| stored += meta.size).await.unwrap();
        (self.universe.plane().engine.disk_bytes().await.unwrap().unwrap(), stored)
    }

    /// Asks for a sweep, as an operator does, and waits for its end.
    async fn sweep(&self) -> Finished {
        let (plane, universe) = (self.universe.plane(), self.universe.id());
        let request = RequestSweep { universe, dry_run: false, now_ns: plane.now_ns() };
        let run = plane.run(&request).await.unwrap().output;
        loop {
            match plane.run(&ReadSweep { universe }).await.unwrap().output.last {
                Some(last) if last.run >= run => return last,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn has(&self, hash: Hash) -> bool {
        self.universe.plane().blobs.has(self.universe.id(), hash).await.unwrap()
    }

    /// A world has what was put into it; what it has besides is none of its business.
    async fn check(&self, (world, object): (WorldId, Hash), seed: u64) {
        for key in 0..VALUES {
            assert_eq!(self.put(world, key, &value(seed, key)).await, Value::Text(value(seed, key)));
        }
        assert!(self.has(object).await);
        let verify = mundi_store::blobs::Verify::Always;
        self.universe.plane().blobs.get(self.universe.id(), object, verify).await.unwrap();
    }
}

fn value(seed: u64, key: u64) -> String {
    Rng::new(seed * 100 + key).bytes(6_000).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// On an engine that gives its own disk space back, if `shrinks`.
async fn space_comes_back(open: impl AsyncFn() -> AnyEngine, shrinks: bool, objects: Objects) {
    let clock = Arc::new(JumpingClock::default());
    let bench = Bench::start(open().await, objects.clone(), clock.clone()).await;
    let (plane, id) = (bench.universe.plane().clone(), bench.universe.id());
    let kept = bench.fill(1).await;
    let mut worlds = Vec::new();
    for seed in 0..WORLDS {
        worlds.push(bench.fill(10 + seed).await);
    }
    let fork = WorldId::from_bytes([7; 16]);
    let ops = bench.universe.ops();
    ops.world_fork(kept.0, fork, ForkAt::Newest, EffectPolicy::Suppress, plane.now_ns()).await.unwrap();
    let put = async |seed| {
        let program = Bytes::from(Rng::new(seed).bytes(300_000));
        let hash = mundi_store::blob::Blobs::put(&plane.blobs, id, program, &[]).await.unwrap();
        let keep = KeepObject { universe: id, hash, kind: Kind::Program, now_ns: plane.now_ns() };
        plane.run(&keep).await.unwrap();
        hash
    };
    let (program, kept_program) = (put(2).await, put(3).await);
    plane.engine.reclaim(); // so that all of it is in files
    let before = loop {
        let bytes = bench.bytes().await;
        if !shrinks || bytes.0 > WORLDS * VALUES * 12_000 {
            break bytes;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(before.1 > WORLDS * 50_000 + 600_000, "{before:?}");

    for world in worlds.iter().map(|(world, _)| *world).chain([fork]) {
        ops.world_delete(world).await.unwrap();
    }
    let release = ReleaseObject { universe: id, hash: program, kind: Kind::Program };
    assert!(plane.run(&release).await.unwrap().output);
    let mut removed = 0;
    for _ in 0..3 {
        bench.clock.jump(GRACE_MIN + Duration::from_secs(1));
        removed += bench.sweep().await.totals.removed;
    }
    assert!(removed > WORLDS, "{removed}");
    assert_eq!(bench.node.metrics().get(Metric::SweepObjectsRemoved), removed);
    // What the object store gave back is gone at once; the engine merges its files in the background.
    let (_, stored) = bench.bytes().await;
    assert!(stored < before.1 / 2, "{stored} of {} bytes", before.1);
    while shrinks && bench.bytes().await.0 > before.0 / 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!bench.has(program).await && bench.has(kept_program).await);
    for (_, object) in &worlds {
        assert!(!bench.has(*object).await);
    }
    bench.check(kept, 1).await;
    let counted = usage(&plane.blobs, id).await.unwrap();
    assert_eq!((counted.worlds, counted.worlds_deleting, counted.worlds_deleted), (1, 0, WORLDS + 1));

    bench.node.stop().await;
    drop((bench, plane));
    let again = Bench::start(open().await, objects, clock).await;
    again.check(kept, 1).await;
    assert_eq!(again.sweep().await.totals.worlds, 1);
    again.node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_what_was_deleted_comes_back_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, objects) = (folder.path().join("engine"), folder.path().join("objects"));
    let objects = objects::open(&objects.display().to_string()).unwrap();
    space_comes_back(async || open(&engine).into(), true, objects).await;
}

/// A database keeps the pages that it has, and uses them again; what is counted falls all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_what_was_deleted_comes_back_on_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let objects = objects::open(&folder.path().display().to_string()).unwrap();
    let schema = fresh_schema();
    let open = async || {
        let options = postgres::Options { schema: schema.clone(), ..postgres::Options::default() };
        Postgres::open_with(shared().url(), options).await.unwrap().into()
    };
    space_comes_back(open, false, objects).await;
}

/// A missing object store is a fault of the installation and not of a world: once it is mounted, all worlds run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_world_is_put_on_hold_because_the_object_store_is_not_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let [engine, mounted, elsewhere] = ["engine", "objects", "elsewhere"].map(|name| folder.path().join(name));
    let clock = Arc::new(JumpingClock::default());
    let config = NodeConfig {
        worker: WorkerId::new(1),
        lease_ttl: Duration::from_secs(2),
        snapshots: SnapshotPolicy { records: 6, ..SnapshotPolicy::default() },
        content: CasConfig { inline_bytes_max: 4_096, ..CasConfig::default() }, // what programs are made of stays there
        ..NodeConfig::default()
    };
    let start = async || {
        std::fs::create_dir_all(&mounted).unwrap();
        let objects = objects::open(&mounted.display().to_string()).unwrap();
        Bench::start_with(open(&engine), objects, clock.clone(), config.clone()).await
    };
    let bench = start().await;
    let world = bench.fill(1).await;
    bench.node.drain().await;
    bench.node.stop().await;
    drop(bench);

    std::fs::rename(&mounted, &elsewhere).unwrap();
    let bench = start().await;
    let (universe, calling) = (bench.universe.clone(), world.0);
    let fields = [("key", "key-1".to_owned()), ("value", value(1, 1))];
    let fields = fields.map(|(name, text)| (name.to_owned(), Value::Text(text)));
    let input = Input::Event {
        schema: "put".to_owned(),
        value: Payload::Inline(cbor::encode(&Value::Map(BTreeMap::from(fields)))),
        key: None,
    };
    let put = InboxItem { input, origin: Origin::new(0) };
    // Longer than any machine takes for the attempts that fail meanwhile.
    let an_hour = Duration::from_secs(3_600);
    let call = tokio::spawn(async move { universe.ops().call(calling, put, None, an_hour).await });
    while bench.node.metrics().get(Metric::ObjectsAbsent) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ops = bench.universe.ops();
    assert_eq!(ops.describe_world(world.0).await.unwrap().meta.hold, None);
    std::fs::remove_dir_all(&mounted).unwrap();
    std::fs::rename(&elsewhere, &mounted).unwrap();
    let reply = call.await.unwrap().unwrap(); // it was waited for, and answered as soon as the store was there
    assert!(matches!(reply, ReplyOutcome::Ok(_)), "{reply:?}");
    bench.check(world, 1).await;
    assert_eq!(ops.describe_world(world.0).await.unwrap().meta.hold, None);
    bench.node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_what_was_deleted_comes_back_in_a_bucket() {
    let moto = Moto::start();
    moto.make_bucket("bucket");
    let folder = tempfile::tempdir().unwrap();
    let objects = objects::open_with("s3://bucket/space", moto.settings()).unwrap();
    space_comes_back(async || open(folder.path()).into(), true, objects).await;
}

/// An S3 server that ends with the test.
struct Moto {
    child: Child,
    port: u16,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Moto {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
        let mut command = Command::new(cache.unwrap_or_else(home).join("mundi/moto/bin/moto_server"));
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("moto is not installed: `cargo xtask services` installs it");
        let moto = Self { child, port };
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return moto;
            }
            #[expect(clippy::disallowed_methods, reason = "a process takes its time to start")]
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("moto does not answer");
    }

    fn make_bucket(&self, name: &str) {
        let mut line = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let host = format!("127.0.0.1:{}", self.port);
        write!(line, "PUT /{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        line.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
    }

    fn settings(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let settings = [
            ("aws_endpoint", endpoint.as_str()),
            ("aws_allow_http", "true"),
            ("aws_region", "us-east-1"),
            ("aws_access_key_id", "anyone"),
            ("aws_secret_access_key", "secret"),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }
}
