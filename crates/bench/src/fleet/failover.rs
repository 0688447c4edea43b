//! From the death of a process to the next turn of each world that it held.

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
}

/// How long a world may be without a turn before the measurement fails.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(settings: &FailoverSettings) -> Result<(), Box<dyn Error>> {
    let mut report = Report::new();
    let FailoverSettings { worlds, processes, lease_ms, .. } = settings;
    let what = format!("a kill of one of {processes} processes with {worlds} worlds and leases of {lease_ms} ms");
    let figures = report.repeat(&settings.common, &what, |_| once(settings))?;
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
