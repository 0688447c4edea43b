//! One of the processes that are measured: a node in all roles, and its share of the clients.

use crate::{
    clients::{Kind, measure},
    program::programs,
    runtime::counted,
};
use mundi_model::{
    Value, WorldId, cbor,
    record::{InboxItem, Input, Origin, Payload},
};
use mundi_runtime::Plane;
use mundi_server::{
    api::{AccessPolicy, Api, ApiLimits, router},
    config::Config,
    node::{ConfiguredEngine, Node, Universe},
    serve::{ServeLimits, Server},
};
use mundi_store::protocol::NewItem;
use serde::{Deserialize, Serialize};
use std::{
    error::Error,
    fmt,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

pub(super) const SCHEMA: &str = "mundi_bench";
const BATCH_EVENTS: u64 = 100;
/// Set for the processes that this one starts.
const PART: &str = "MUNDI_BENCH_PART";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(super) enum Workload {
    /// An event to a counter, journaled, stepped and answered.
    Call,
    /// An event to a counter, acknowledged when it is durable.
    Send,
    /// A hundred events to a counter, acknowledged together when they are durable. Counted are events; and the time until the
    /// last of them is journaled counts, too.
    Batch,
    /// From an event over an intent, a request to an HTTP server on the loopback and its receipt to the reply: what `mundi bench
    /// effect` does.
    Effect,
    /// The same with a put into the content store instead of the request.
    Put,
}

impl Workload {
    pub(super) const ALL: [Self; 5] = [Self::Call, Self::Send, Self::Batch, Self::Effect, Self::Put];

    /// Events of one operation.
    const fn events(self) -> u64 {
        match self {
            Self::Batch => BATCH_EVENTS,
            Self::Call | Self::Send | Self::Effect | Self::Put => 1,
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Call | Self::Send | Self::Batch => "counter",
            Self::Effect | Self::Put => "bench",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Send => "send",
            Self::Batch => "send of 100",
            Self::Effect => "effect round trip",
            Self::Put => "put as an effect",
        })
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    workload: Workload,
    clients: usize,
    worlds: usize,
    seconds: u64,
    objects: String,
    /// Where effects ask.
    outside: String,
    /// The URL of its engine.
    database: String,
}

struct Running {
    child: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Starts all, lets them begin together, and keeps each until the last has counted: it serves worlds of the others.
pub(super) fn together(
    workload: Workload,
    processes: usize,
    clients: usize,
    worlds: usize,
    seconds: u64,
    outside: &str,
    database: &str,
) -> Result<Done, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let objects = format!("file://{}", folder.path().display());
    let share = |whole: usize| whole.div_ceil(processes);
    let (clients, worlds) = (share(clients), share(worlds));
    let (outside, database) = (outside.to_owned(), database.to_owned());
    let part = Part { workload, clients, worlds, seconds, objects, outside, database };
    let mut running = Vec::new();
    for _ in 0..processes {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).env(PART, serde_json::to_string(&part)?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(tell), Some(hear)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        let mut one = Running { child, tell, hear: BufReader::new(hear) };
        one.line()?;
        running.push(one);
    }
    for one in &mut running {
        one.tell.write_all(b"\n")?;
    }
    let done = running.iter_mut().map(|one| Ok(serde_json::from_str(&one.line()?)?));
    let done: Vec<Done> = done.collect::<Result<_, Box<dyn Error>>>()?;
    let worst = |quantity: fn(&Done) -> f64| done.iter().map(quantity).fold(0.0, f64::max);
    Ok(Done {
        per_second: done.iter().map(|done| done.per_second).sum(),
        p50_ms: worst(|done| done.p50_ms),
        p99_ms: worst(|done| done.p99_ms),
    })
}

impl Running {
    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        match self.hear.read_line(&mut line)? {
            0 => Err("a process ended before it was done".into()),
            _ => Ok(line),
        }
    }
}

impl Part {
    /// What this process was started for, if it is one of several.
    pub(super) fn given() -> Result<Option<Self>, Box<dyn Error>> {
        match std::env::var(PART) {
            Ok(part) => Ok(Some(serde_json::from_str(&part)?)),
            Err(_) => Ok(None),
        }
    }

    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let node = runtime.block_on(self.open())?;
        let _api = runtime.block_on(advertise(&node))?;
        let universe = node.universe("default").ok_or("the default universe is missing")?;
        let workload = self.workload;
        let mut worlds = Vec::new();
        for _ in 0..self.worlds {
            worlds.push(runtime.block_on(universe.create(workload.program()))?);
        }
        say("ready")?;
        wait()?;
        let (clients, worlds) = (self.clients, Arc::new(worlds));
        let (calling, called, outside) = (universe.clone(), worlds.clone(), self.outside);
        let time = Duration::from_secs(self.seconds);
        let done = measure(&runtime, Kind::Tasks, clients, time, move |client, turn| {
            let place = (client as u64 + turn * clients as u64) % called.len().max(1) as u64;
            let (universe, world) = (calling.clone(), called[usize::try_from(place).unwrap_or(0)]);
            let outside = outside.clone();
            async move { counted(once(universe, workload, world, outside)).await * workload.events() }
        });
        let (per_second, [p50_us, _, p99_us]) = (done.per_second, done.latency_us);
        let per_second = match workload {
            // What was sent in the time must be taken before it counts.
            Workload::Batch => {
                let seconds = time.as_secs_f64();
                per_second * seconds / (seconds + runtime.block_on(until_taken(&universe, &worlds))?.as_secs_f64())
            }
            Workload::Call | Workload::Send | Workload::Effect | Workload::Put => per_second,
        };
        let done = Done { per_second, p50_ms: p50_us / 1e3, p99_ms: p99_us / 1e3 };
        say(&serde_json::to_string(&done)?)?;
        wait().or(Ok(()))
    }

    async fn open(&self) -> Result<Node<ConfiguredEngine>, Box<dyn Error>> {
        let settings = [
            ("MUNDI_ENGINE__URL", &*self.database),
            ("MUNDI_ENGINE__SCHEMA", SCHEMA),
            ("MUNDI_OBJECTS__URL", &self.objects),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut config = Config::load(None, settings, &[])?;
        config.http.private_hosts_allowed.insert("127.0.0.1".to_owned()); // where effects ask
        Ok(Node::open_configured(&config, programs()).await?)
    }
}

/// Serves the API where the other processes find it: they hand on what is for worlds of this one.
async fn advertise(node: &Node<ConfiguredEngine>) -> Result<Server, Box<dyn Error>> {
    let router = router(Api::new(node.clone(), ApiLimits::default(), AccessPolicy::default()));
    let server = Server::start(([127, 0, 0, 1], 0).into(), router, None, ServeLimits::default()).await?;
    node.advertise(&format!("http://{}", server.address()));
    Ok(server)
}

async fn once(
    universe: Arc<Universe<ConfiguredEngine>>,
    workload: Workload,
    world: WorldId,
    outside: String,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    match workload {
        Workload::Call => drop(universe.call(world, "add", Value::Integer(1.into())).await?),
        Workload::Send => drop(universe.send(world, "add", Value::Integer(1.into())).await?),
        Workload::Batch => drop(universe.ops().enqueue_batch(world, batch(&universe)).await?),
        Workload::Effect => drop(universe.call(world, "http", Value::Text(outside)).await?),
        Workload::Put => drop(universe.call(world, "effect", Value::Null).await?),
    }
    Ok(())
}

fn batch(universe: &Universe<ConfiguredEngine>) -> Vec<NewItem> {
    let value = Payload::Inline(cbor::encode(&Value::Integer(1.into())));
    let input = Input::Event { schema: "add".to_owned(), value, key: None };
    let enqueued_at_ns = universe.plane().now_ns();
    let origin = Origin::new(enqueued_at_ns);
    (0..BATCH_EVENTS)
        .map(|_| NewItem { item: InboxItem { input: input.clone(), origin: origin.clone() }, dedupe: None })
        .collect()
}

/// How long it takes until each world has answered a call, which stands behind all that was sent to it.
async fn until_taken(universe: &Universe<ConfiguredEngine>, worlds: &[WorldId]) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    let calls = worlds.iter().map(|world| universe.call(*world, "add", Value::Integer(1.into())));
    futures_util::future::try_join_all(calls).await?;
    Ok(begun.elapsed())
}

#[expect(clippy::print_stdout, reason = "how the processes of one measurement speak")]
fn say(line: &str) -> Result<(), Box<dyn Error>> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// For a line, which says that all are there.
fn wait() -> Result<(), Box<dyn Error>> {
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
