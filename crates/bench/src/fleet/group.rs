//! Several processes on one database, with worlds that are spread over them.

use super::{
    part::{PART, Part},
    workload::{Reach, WORLDS, Workload},
};
use crate::{machine::Used, serving::load::Connection};
use futures_util::{StreamExt, stream};
use std::{
    error::Error,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

/// How long it may take until each world is held by some process, and each process holds its part.
const PLACED_TIMEOUT: Duration = Duration::from_secs(120);
/// Requests at a time while worlds are prepared.
const CONCURRENT: usize = 32;

pub(super) struct Group {
    processes: Vec<Process>,
    _objects: tempfile::TempDir,
}

struct Process {
    child: Child,
    /// Closed with it, which ends the process.
    tell: Option<ChildStdin>,
    address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A process that gives its worlds away and ends.
pub(super) struct Draining(Process);

impl Draining {
    pub(super) fn has_ended(&mut self) -> Result<bool, std::io::Error> {
        Ok(self.0.child.try_wait()?.is_some())
    }
}

/// Worlds, by the process that holds them.
pub(super) struct Placed(pub(super) Vec<Vec<String>>);

impl Placed {
    /// The addresses that a client of a process calls.
    pub(super) fn reached_by(&self, process: usize, reach: Reach) -> Vec<String> {
        match reach {
            Reach::Holder => self.0[process].clone(),
            Reach::Any => self.0.concat(),
        }
    }
}

/// How many processes there are, and how they are set up.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupConfig {
    pub(super) processes: usize,
    pub(super) lease_ttl_ms: Option<u32>,
}

impl GroupConfig {
    pub(super) const fn new(processes: usize) -> Self {
        Self { processes, lease_ttl_ms: None }
    }
}

impl Group {
    pub(super) fn start(config: GroupConfig, database: &str) -> Result<Self, Box<dyn Error>> {
        let GroupConfig { processes, lease_ttl_ms } = config;
        let folder = tempfile::tempdir()?;
        let objects = format!("file://{}", folder.path().display());
        let mut running = Vec::new();
        for number in 1..=processes as u64 {
            let part = Part { worker: number, objects: objects.clone(), database: database.to_owned(), lease_ttl_ms };
            let mut command = Command::new(std::env::current_exe()?);
            command.args(std::env::args_os().skip(1)).env(PART, serde_json::to_string(&part)?);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (Some(tell), Some(hear)) = (child.stdin.take(), child.stdout.take()) else {
                return Err("a process without pipes".into());
            };
            let mut line = String::new();
            BufReader::new(hear).read_line(&mut line)?;
            let address = line.trim().parse().map_err(|_| "a process ended before it served")?;
            running.push(Process { child, tell: Some(tell), address });
        }
        Ok(Self { processes: running, _objects: folder })
    }

    /// As the machine would: at once, and gone when this returns.
    pub(super) fn kill_first(&mut self) {
        drop(self.processes.remove(0));
    }

    /// Lets the first process drain and end, as an operator does.
    pub(super) fn drain_first(&mut self) -> Draining {
        let mut process = self.processes.remove(0);
        process.tell = None;
        Draining(process)
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.processes.iter().map(|process| process.address).collect()
    }

    /// Of all processes together.
    pub(super) fn used(&self) -> Used {
        self.processes.iter().map(|process| Used::of(process.child.id())).sum()
    }

    /// Creates worlds, and waits until processes hold them and no more of them move.
    pub(super) fn place(&self, workload: Workload, worlds: usize) -> Result<Placed, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let until = Instant::now() + PLACED_TIMEOUT;
        let names: Vec<String> = (0..worlds).map(|world| format!("bench-{}-{world}", workload.program())).collect();
        runtime.block_on(self.each(&names, async |connection, world| {
            let form = serde_json::json!({ "world": world, "program": workload.program() }).to_string();
            connection.post(format_args!("{WORLDS}"), form.as_bytes()).await.map(drop)
        }))?;
        let mut before = Vec::new();
        loop {
            runtime.block_on(self.wake(&names))?;
            let holders = runtime.block_on(self.each(&names, holder))?;
            let mut placed = vec![Vec::new(); self.processes.len()];
            for (name, holder) in names.iter().zip(&holders) {
                if let Some(process) = holder.and_then(|holder| placed.get_mut(holder)) {
                    process.push(name.clone());
                }
            }
            let share = worlds / self.processes.len();
            let is_spread = placed.iter().all(|held| held.len() > share / 4);
            if is_spread && placed.iter().map(Vec::len).sum::<usize>() == worlds && placed == before {
                return Ok(Placed(placed));
            }
            if Instant::now() >= until {
                let held: Vec<_> = placed.iter().map(Vec::len).collect();
                return Err(format!("worlds are not spread over the processes: {held:?}").into());
            }
            before = placed;
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// One event to each world, behind all that was sent before; all are taken when this returns.
    pub(super) async fn wake(&self, worlds: &[String]) -> Result<(), Box<dyn Error>> {
        let touch = async |connection: &mut Connection, world: &str| {
            let (event, body) = if world.starts_with("bench-counter") { ("add", "1") } else { ("timers", "[0,0]") };
            connection.post(format_args!("{WORLDS}/{world}/call/{event}"), body.as_bytes()).await.map(drop)
        };
        self.each(worlds, touch).await.map(drop)
    }

    /// Asks something about each world, of the processes in turns.
    async fn each<T>(
        &self,
        worlds: &[String],
        ask: impl AsyncFn(&mut Connection, &str) -> Result<T, Box<dyn Error>>,
    ) -> Result<Vec<T>, Box<dyn Error>> {
        let asking = worlds.iter().zip(self.processes.iter().cycle()).map(|(world, process)| {
            let ask = &ask;
            async move { ask(&mut Connection::open(process.address).await?, world).await }
        });
        let answers: Vec<_> = stream::iter(asking).buffered(CONCURRENT).collect().await;
        answers.into_iter().collect()
    }
}

/// The process that holds a world, as the API says.
async fn holder(connection: &mut Connection, world: &str) -> Result<Option<usize>, Box<dyn Error>> {
    let (status, said) = connection.ask("GET", format_args!("{WORLDS}/{world}"), b"").await?;
    let said: serde_json::Value = serde_json::from_slice(said).map_err(|error| format!("{status}: {error}"))?;
    let worker = said["lease"]["holder"].as_str().and_then(|holder| holder.strip_prefix("k_"));
    Ok(worker.and_then(|number| usize::from_str_radix(number, 16).ok()?.checked_sub(1)))
}
