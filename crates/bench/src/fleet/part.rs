//! One of the processes that are measured: a node in all roles, and its share of the clients.

use crate::{
    clients::{Kind, measure},
    program::programs,
    runtime::counted,
};
use mundi_model::Value;
use mundi_server::{
    config::Config,
    node::{ConfiguredEngine, Node, Universe},
};
use serde::{Deserialize, Serialize};
use std::{
    error::Error,
    fmt,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

pub(super) const SCHEMA: &str = "mundi_bench";
/// Set for the processes that this one starts.
const PART: &str = "MUNDI_BENCH_PART";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(super) enum Workload {
    /// An event to a counter, journaled, stepped and answered.
    Call,
    /// An event to a counter, acknowledged when it is durable.
    Send,
    /// From an event over an intent, a call and its receipt to the reply.
    Effect,
}

impl Workload {
    pub(super) const ALL: [Self; 3] = [Self::Call, Self::Send, Self::Effect];
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Send => "send",
            Self::Effect => "effect round trip",
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
) -> Result<Done, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let objects = format!("file://{}", folder.path().display());
    let share = |whole: usize| whole.div_ceil(processes);
    let part = Part { workload, clients: share(clients), worlds: share(worlds), seconds, objects };
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

    pub(super) fn run(self, database: &str) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let node = runtime.block_on(self.open(database))?;
        let universe = node.universe("default").ok_or("the default universe is missing")?;
        let (program, workload) =
            if self.workload == Workload::Effect { ("bench", Workload::Effect) } else { ("counter", self.workload) };
        let mut worlds = Vec::new();
        for _ in 0..self.worlds {
            worlds.push(runtime.block_on(universe.create(program))?);
        }
        say("ready")?;
        wait()?;
        let (clients, worlds) = (self.clients, Arc::new(worlds));
        let done = measure(&runtime, Kind::Tasks, clients, Duration::from_secs(self.seconds), move |client, turn| {
            let place = (client as u64 + turn * clients as u64) % worlds.len().max(1) as u64;
            let (universe, world) = (universe.clone(), worlds[usize::try_from(place).unwrap_or(0)]);
            counted(once(universe, workload, world))
        });
        let [p50_us, _, p99_us] = done.latency_us;
        let done = Done { per_second: done.per_second, p50_ms: p50_us / 1e3, p99_ms: p99_us / 1e3 };
        say(&serde_json::to_string(&done)?)?;
        wait().or(Ok(()))
    }

    async fn open(&self, database: &str) -> Result<Node<ConfiguredEngine>, Box<dyn Error>> {
        let settings =
            [("MUNDI_ENGINE__URL", database), ("MUNDI_ENGINE__SCHEMA", SCHEMA), ("MUNDI_OBJECTS__URL", &self.objects)];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(None, settings, &[])?;
        Ok(Node::open_configured(&config, programs()).await?)
    }
}

async fn once(
    universe: Arc<Universe<ConfiguredEngine>>,
    workload: Workload,
    world: mundi_model::WorldId,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    match workload {
        Workload::Call => drop(universe.call(world, "add", Value::Integer(1.into())).await?),
        Workload::Send => drop(universe.send(world, "add", Value::Integer(1.into())).await?),
        Workload::Effect => drop(universe.call(world, "effect", Value::Null).await?),
    }
    Ok(())
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
