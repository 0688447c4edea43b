//! The end of a process: from its death to the next turn of each world that it held, or calls to its worlds while it drains.

use super::{
    database::Database,
    group::{Group, GroupConfig},
    open,
    workload::{WORLDS, Workload},
};
use crate::{
    Common,
    latency::Latencies,
    report::{Once, Report},
    serving::load::Connection,
};
use futures_util::future::join_all;
use std::{
    cell::Cell,
    error::Error,
    net::SocketAddr,
    time::{Duration, Instant},
};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FailoverSettings {
    #[command(flatten)]
    common: Common,
    /// The database, as for `fleet`.
    #[arg(long)]
    database: String,
    /// How many worlds there are; the process that is killed holds its part of them.
    #[arg(long, default_value_t = 300)]
    worlds: usize,
    /// How many processes.
    #[arg(long, default_value_t = 2)]
    processes: usize,
    /// The term of a lease, in milliseconds.
    #[arg(long, default_value_t = 3_000)]
    lease_ms: u32,
    /// Lets the process drain instead of killing it, and calls its worlds meanwhile.
    #[arg(long)]
    drain: bool,
}

/// How many clients call the worlds of a process that drains.
const CALLERS: usize = 32;

/// How long a world may be without a turn before the measurement fails.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(settings: &FailoverSettings) -> Result<(), Box<dyn Error>> {
    let mut report = Report::new();
    let FailoverSettings { worlds, processes, lease_ms, .. } = settings;
    let end = if settings.drain { "the drain" } else { "a kill" };
    let what = format!("{end} of one of {processes} processes with {worlds} worlds and leases of {lease_ms} ms");
    let figures = report.repeat(&settings.common, &what, |_| once(settings))?;
    for figure in figures.iter_mut().filter(|figure| figure.name == SLOWEST_WHILE_DRAINED) {
        figure.goal = Some("at most 500".to_owned());
    }
    for (figure, goal) in
        figures.iter_mut().filter(|figure| figure.unit == "leases").zip(["at most 1.1", "at most 1.5"])
    {
        figure.goal = Some(goal.to_owned());
    }
    report.print(settings.common.format);
    Ok(())
}

fn once(settings: &FailoverSettings) -> Result<Once, Box<dyn Error>> {
    let (url, _): (String, Database) = open(&settings.database, "failover")?;
    let config = GroupConfig { lease_ttl_ms: Some(settings.lease_ms), ..GroupConfig::new(settings.processes.max(2)) };
    let mut group = Group::start(config, &url)?;
    let placed = group.place(Workload::Call, settings.worlds)?;
    if settings.drain {
        return drained(group, &placed.0[0]);
    }
    group.kill_first();
    let killed = Instant::now();
    let (orphans, survivors) = (&placed.0[0], group.addresses());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let calls = orphans.iter().zip(survivors.iter().cycle());
    let calls = calls.map(async |(world, address)| until_answered(*address, world, killed).await);
    let latencies = Latencies::default();
    for took in runtime.block_on(join_all(calls)) {
        latencies.note(took?);
    }
    let lease_us = f64::from(settings.lease_ms) * 1e3;
    let [p50, p99, all] = [0.5, 0.99, 1.0].map(|share| latencies.below_us(share));
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let count = orphans.len() as f64;
    Ok(vec![
        ("worlds of the killed process".to_owned(), "worlds", count),
        ("from the kill to the next turn, p50".to_owned(), "leases", p50 / lease_us),
        ("from the kill to the next turn, p99".to_owned(), "leases", p99 / lease_us),
        ("from the kill to the next turn, all".to_owned(), "ms", all / 1e3),
    ])
}

const SLOWEST_WHILE_DRAINED: &str = "call while it drains, slowest";

/// Calls to the worlds of a process that drains, by the others, until it has ended and each world was called once more.
fn drained(mut group: Group, worlds: &[String]) -> Result<Once, Box<dyn Error>> {
    let mut draining = group.drain_first();
    let (began, others) = (Instant::now(), group.addresses());
    let latencies = Latencies::default();
    let is_over = Cell::new(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = async {
        while !draining.has_ended()? {
            if began.elapsed() > TURN_TIMEOUT {
                return Err("the process does not end".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        is_over.set(true);
        Ok::<_, Box<dyn Error>>(began.elapsed())
    };
    let callers = worlds.chunks(worlds.len().div_ceil(CALLERS).max(1)).zip(others.iter().cycle());
    let callers = callers.map(async |(part, address)| {
        let mut connection = Connection::open(*address).await?;
        loop {
            let is_last = is_over.get();
            for world in part {
                let called = Instant::now();
                connection.post(format_args!("{WORLDS}/{world}/call/add"), b"1").await?;
                latencies.note(called.elapsed());
            }
            if is_last {
                return Ok::<_, Box<dyn Error>>(());
            }
        }
    });
    let (ended, calls) = runtime.block_on(futures_util::future::join(ended, join_all(callers)));
    calls.into_iter().collect::<Result<Vec<_>, _>>()?;
    let [p50, p99, slowest] = [0.5, 0.99, 1.0].map(|share| latencies.below_us(share) / 1e3);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let count = worlds.len() as f64;
    Ok(vec![
        ("worlds of the drained process".to_owned(), "worlds", count),
        ("from the signal to its end".to_owned(), "ms", ended?.as_secs_f64() * 1e3),
        ("call while it drains, p50".to_owned(), "ms", p50),
        ("call while it drains, p99".to_owned(), "ms", p99),
        (SLOWEST_WHILE_DRAINED.to_owned(), "ms", slowest),
    ])
}

/// When a call is answered, since the kill. One of unknown fate is made again: what counts is that a turn was made.
async fn until_answered(address: SocketAddr, world: &str, killed: Instant) -> Result<Duration, Box<dyn Error>> {
    let mut failed = None;
    while killed.elapsed() < TURN_TIMEOUT {
        let mut connection = Connection::open(address).await?;
        match connection.post(format_args!("{WORLDS}/{world}/call/add"), b"1").await {
            Ok(_) => return Ok(killed.elapsed()),
            Err(error) => failed = Some(error.to_string()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(format!("{world} made no turn: {failed:?}").into())
}
