//! Pools: cycles of reserve, activate and release, over HTTP, on one shard and on several; beside PostgreSQL and etcd in the same run.
//!
//! A cycle is three durable commands, one after the other. The baselines do what people do there: a row that is taken with
//! `FOR UPDATE SKIP LOCKED` and carries a fencing number, and a key that a transaction creates and compares by its revision. Neither keeps
//! a history, results of operations, a queue or labels. Each gets the same number of clients and resources.

mod etcd;
mod postgres;

use super::{
    load::{Connection, drive},
    target::{Server, Subject},
};
use crate::{
    Again, Common,
    latency::Latencies,
    machine::Used,
    report::{Once, Report},
};
use serde_json::{Value, json};
use std::{error::Error, net::SocketAddr, path::Path, path::PathBuf, time::Duration};

/// Commands of a cycle.
const COMMANDS: f64 = 3.0;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PoolSettings {
    #[command(flatten)]
    common: Common,
    /// How many clients, one measurement for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32, 256])]
    clients: Vec<usize>,
    /// How many shards, one measurement for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    shards: Vec<usize>,
    /// The resources of a pool: more than clients.
    #[arg(long, default_value_t = 1_000)]
    resources: usize,
    /// The resources of the pool whose commands are compared with those of the other one.
    #[arg(long, default_value_t = 100_000)]
    resources_large: usize,
    /// The database that gets the same load, by `pgbench`: `postgres://…`; left out, none is measured.
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// The program `etcd`, which is started on a folder of its own and gets the same load over its JSON gateway; left out, none is measured.
    #[arg(long, value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
}

/// The result of one measurement of cycles.
struct Cycles {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us_per_command: f64,
    written_bytes_per_command: f64,
}

impl Cycles {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn of(cycles: u64, seconds: f64, latencies: &Latencies, [before, after]: [Used; 2]) -> Self {
        let commands = cycles.max(1) as f64 * COMMANDS;
        Self {
            per_second: cycles as f64 / seconds,
            p50_ms: latencies.below_us(0.5) / 1e3,
            p99_ms: latencies.below_us(0.99) / 1e3,
            cpu_us_per_command: after.cpu_us_since(before) / commands,
            written_bytes_per_command: after.written_bytes_since(before) as f64 / commands,
        }
    }

    fn figures(&self, of: &str) -> Once {
        vec![
            (format!("{of}: cycles"), "cycles/s", self.per_second),
            (format!("{of}: p50 of a cycle"), "ms", self.p50_ms),
            (format!("{of}: p99 of a cycle"), "ms", self.p99_ms),
            (format!("{of}: processor time"), "µs/command", self.cpu_us_per_command),
            (format!("{of}: written"), "bytes/command", self.written_bytes_per_command),
        ]
    }
}

pub(crate) fn pool(settings: &PoolSettings, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    let PoolSettings { common, clients, shards, resources, resources_large, postgres, etcd } = settings;
    if clients.iter().any(|clients| clients >= resources) {
        return Err("there must be more resources than clients: a cycle waits for nobody".into());
    }
    let time = Duration::from_secs(common.seconds);
    let mut report = Report::new();
    for &clients in clients {
        for &shards in shards {
            let of = format!("pool, {clients} clients, {shards} shards");
            let measure = |folder: &Path| Ok(measure(folder, (shards, *resources), clients, time, again)?.figures(&of));
            report.repeat(common, &of, measure)?;
        }
        if let Some(url) = postgres {
            let of = format!("PostgreSQL, {clients} clients");
            report.repeat(common, &of, |_| Ok(postgres::measure(url, *resources, clients, time)?.figures(&of)))?;
        }
        if let Some(program) = etcd {
            let of = format!("etcd, {clients} clients");
            let measure = |folder: &Path| Ok(etcd::measure(program, folder, *resources, clients, time)?.figures(&of));
            report.repeat(common, &of, measure)?;
        }
    }
    for (peer, flag) in [("PostgreSQL", postgres.is_none()), ("etcd", etcd.is_none())] {
        if flag {
            eprintln!("{peer} was not measured: say where it is (`--postgres URL`, `--etcd PROGRAM`)");
        }
    }
    growth(&mut report, common, [*resources, *resources_large], time, again)?;
    report.print(common.format);
    Ok(())
}

/// The cost of a command must not grow with the pool.
fn growth(
    report: &mut Report,
    common: &Common,
    sizes: [usize; 2],
    time: Duration,
    again: Again<'_>,
) -> Result<(), Box<dyn Error>> {
    let clients = 32.min(sizes[0].saturating_sub(1)).max(1);
    let [small, large] = sizes;
    let what = format!("a pool of {large} resources beside one of {small}, {clients} clients, 1 shard");
    let figures = report.repeat(common, &what, |folder| {
        let small_cycles = measure(&folder.join("small"), (1, small), clients, time, again)?;
        let large_cycles = measure(&folder.join("large"), (1, large), clients, time, again)?;
        let of = |of: fn(&Cycles) -> f64| of(&large_cycles) / of(&small_cycles);
        Ok(vec![
            (format!("{large} resources: cycles"), "cycles/s", large_cycles.per_second),
            (format!("{large} resources: processor time"), "µs/command", large_cycles.cpu_us_per_command),
            ("large pool to small one: processor time".to_owned(), "ratio", of(|it| it.cpu_us_per_command)),
            ("large pool to small one: written".to_owned(), "ratio", of(|it| it.written_bytes_per_command)),
            ("large pool to small one: cycles".to_owned(), "ratio", of(|it| it.per_second)),
        ])
    })?;
    for figure in figures.iter_mut().filter(|figure| figure.name.ends_with("processor time") && figure.unit == "ratio")
    {
        figure.goal = Some("about 1".to_owned());
    }
    Ok(())
}

fn measure(
    folder: &Path,
    (shards, resources): (usize, usize),
    clients: usize,
    time: Duration,
    again: Again<'_>,
) -> Result<Cycles, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let server = Server::start(&Subject::Mundi(again), folder)?;
    prepare(server.address, shards, resources)?;
    let driven = drive(server.address, clients, time, || server.used(), cycle)?;
    Ok(Cycles::of(driven.events, driven.seconds, &driven.latencies, driven.noted))
}

/// A pool whose history and results are kept for seconds, so that a run of any length fits its tables.
fn prepare(address: SocketAddr, shards: usize, resources: usize) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = Connection::open(address).await?;
        let config = json!({
            "resources_max": 1_000_000, "operations_max": 2_000_000, "leases_max": 2_000_000,
            "operation_slots": 5, "history_slots": 5,
        });
        let form = json!({ "name": "bench", "shards": shards, "config": config });
        connection.post(format_args!("/v1/u/default/pools"), form.to_string().as_bytes()).await?;
        let names: Vec<usize> = (0..resources).collect();
        for names in names.chunks(1_000) {
            let resource = |n: &usize| json!({ "resource": format!("resource-{n}") });
            let form = json!({ "resources": names.iter().map(resource).collect::<Vec<_>>() });
            let path = format_args!("/v1/u/default/pools/bench/resources");
            connection.post(path, form.to_string().as_bytes()).await?;
        }
        Ok(())
    })
}

/// Reserves one resource, activates the lease and releases it.
async fn cycle(connection: &mut Connection, turn: u64) -> Result<u64, Box<dyn Error>> {
    let form = format!(r#"{{"holder":"holder-{turn}","ttl_slots":60}}"#);
    let path = format_args!("/v1/u/default/pools/bench/reserve");
    let reserved: Value = serde_json::from_slice(connection.post(path, form.as_bytes()).await?)?;
    let lease = reserved["lease_id"].as_str().ok_or("a reservation without a lease")?;
    let token = format!(r#"{{"holder":"holder-{turn}","lease_id":"{lease}","lease_epoch":1}}"#);
    connection.post(format_args!("/v1/u/default/pools/bench/activate"), token.as_bytes()).await?;
    connection.post(format_args!("/v1/u/default/pools/bench/release"), token.as_bytes()).await?;
    Ok(1)
}
