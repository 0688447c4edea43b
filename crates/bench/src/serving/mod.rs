//! The server's workloads, over HTTP: the real program in a process of its own, beside the raw limit.

mod load;
mod process;

use crate::{
    Common, Format,
    clients::Kind,
    machine::Machine,
    raw::{Room, measure_raw},
};
use load::{Connection, drive};
use process::Server;
use serde::Serialize;
use std::{error::Error, path::Path, time::Duration};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CallSettings {
    #[command(flatten)]
    common: Common,
    /// How many clients call at a time.
    #[arg(long, default_value_t = 256)]
    clients: usize,
    /// How many worlds they call.
    #[arg(long, default_value_t = 1_000)]
    worlds: usize,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SendSettings {
    #[command(flatten)]
    call: CallSettings,
    /// How many events one request brings.
    #[arg(long, default_value_t = 1)]
    batch: usize,
}

/// What one run, or the median of several, came to. The names are stable.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Figures {
    events_per_s: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    cpu_us_per_call: f64,
    written_bytes_per_call: f64,
    rss_mib: f64,
    /// What appending as many bytes per event to one synced file reaches, in the same run.
    raw_events_per_s: f64,
    /// Of the raw limit.
    efficiency: f64,
}

type Quantity = (&'static str, fn(&mut Figures) -> &mut f64);

const QUANTITIES: [Quantity; 9] = [
    ("events_per_s", |figures| &mut figures.events_per_s),
    ("p50_ms", |figures| &mut figures.p50_ms),
    ("p95_ms", |figures| &mut figures.p95_ms),
    ("p99_ms", |figures| &mut figures.p99_ms),
    ("cpu_us_per_call", |figures| &mut figures.cpu_us_per_call),
    ("written_bytes_per_call", |figures| &mut figures.written_bytes_per_call),
    ("rss_mib", |figures| &mut figures.rss_mib),
    ("raw_events_per_s", |figures| &mut figures.raw_events_per_s),
    ("efficiency", |figures| &mut figures.efficiency),
];

#[derive(Debug, Serialize)]
struct Measured {
    workload: &'static str,
    clients: usize,
    worlds: usize,
    batch: usize,
    seconds: u64,
    /// The median of all runs, quantity by quantity.
    #[serde(flatten)]
    median: Figures,
    low: Figures,
    high: Figures,
    runs: Vec<Figures>,
    machine: Machine,
}

pub(crate) fn call(settings: &CallSettings, mundi: &Path) -> Result<(), Box<dyn Error>> {
    measure("call", settings, 1, mundi)
}

pub(crate) fn send(settings: &SendSettings, mundi: &Path) -> Result<(), Box<dyn Error>> {
    measure("send", &settings.call, settings.batch, mundi)
}

fn measure(workload: &'static str, settings: &CallSettings, batch: usize, mundi: &Path) -> Result<(), Box<dyn Error>> {
    let CallSettings { common, clients, worlds } = settings;
    let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(&common.dir)?;
    let mut runs = Vec::new();
    for run in 1..=common.runs {
        eprintln!("measuring {workload} by {clients} clients on {worlds} worlds, run {run} of {} …", common.runs);
        let folder = tempfile::tempdir_in(folder.path())?;
        runs.push(run_once(workload, settings, batch, mundi, folder.path())?);
    }
    let [low, median, high] = spread(&runs);
    let machine = Machine::read();
    let (clients, worlds, seconds) = (*clients, *worlds, common.seconds);
    print(&Measured { workload, clients, worlds, batch, seconds, median, low, high, runs, machine }, common.format)
}

fn run_once(
    workload: &'static str,
    settings: &CallSettings,
    batch: usize,
    mundi: &Path,
    folder: &Path,
) -> Result<Figures, Box<dyn Error>> {
    let time = Duration::from_secs(settings.common.seconds);
    let server = Server::start(mundi, &folder.join("data"))?;
    create(&server, settings.worlds)?;
    let worlds = settings.worlds as u64;
    let events = batch_of(batch);
    let note = || (server.used(), server.resident_mib());
    let driven = drive(server.address, settings.clients, time, note, async move |connection, turn| {
        // A stride that no client shares keeps them apart, as users are.
        let world = turn.wrapping_mul(7_919) % worlds;
        match (workload, batch) {
            ("call", _) => drop(connection.post(format_args!("{WORLDS}/bench-{world}/call/add"), b"1").await?),
            (_, 1) => drop(connection.post(format_args!("{WORLDS}/bench-{world}/send/add"), b"1").await?),
            _ => drop(connection.post(format_args!("{WORLDS}/bench-{world}/events"), &events).await?),
        }
        Ok(batch as u64)
    })?;
    let [(before, _), (after, rss_mib)] = driven.noted;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (events, written) = (driven.events.max(1) as f64, after.written_bytes_since(before) as f64);
    drop(server);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred bytes")]
    let record_bytes = (written / events).clamp(1.0, 1e6) as usize;
    let (room, kind) = (Room::Preallocated, Kind::Tasks);
    let raw = measure_raw(&runtime, &folder.join("raw"), room, kind, settings.clients, time, record_bytes)?;
    let events_per_s = events / driven.seconds;
    let below_ms = |share| driven.latencies.below_us(share) / 1e3;
    Ok(Figures {
        events_per_s,
        p50_ms: below_ms(0.5),
        p95_ms: below_ms(0.95),
        p99_ms: below_ms(0.99),
        cpu_us_per_call: after.cpu_us_since(before) / events,
        written_bytes_per_call: written / events,
        rss_mib,
        raw_events_per_s: raw.per_second,
        efficiency: events_per_s / raw.per_second,
    })
}

const WORLDS: &str = "/v1/u/default/worlds";

/// So many counters, by a few connections.
fn create(server: &Server, worlds: usize) -> Result<(), Box<dyn Error>> {
    const CONNECTIONS: usize = 32;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let creating = (0..CONNECTIONS).map(async |first| {
        let mut connection = Connection::open(server.address).await?;
        for world in (first..worlds).step_by(CONNECTIONS) {
            let form = format!(r#"{{"world":"bench-{world}","program":"counter"}}"#);
            connection.post(format_args!("{WORLDS}"), form.as_bytes()).await?;
        }
        Ok::<_, Box<dyn Error>>(())
    });
    runtime.block_on(futures_util::future::try_join_all(creating)).map(drop)
}

fn batch_of(events: usize) -> Vec<u8> {
    let events: Vec<_> = (0..events).map(|_| serde_json::json!({ "event": "add", "value": 1 })).collect();
    serde_json::Value::from(events).to_string().into_bytes()
}

/// The lowest, the median and the highest of every quantity.
fn spread(runs: &[Figures]) -> [Figures; 3] {
    let mut spread = [Figures::default(); 3];
    for (_, quantity) in QUANTITIES {
        let mut values: Vec<f64> = runs.iter().map(|run| *quantity(&mut run.clone())).collect();
        values.sort_by(f64::total_cmp);
        let places = [0, values.len() / 2, values.len().saturating_sub(1)];
        for (figures, place) in spread.iter_mut().zip(places) {
            *quantity(figures) = values.get(place).copied().unwrap_or_default();
        }
    }
    spread
}

#[expect(clippy::print_stdout, reason = "the figures are what the command is for")]
fn print(measured: &Measured, format: Format) -> Result<(), Box<dyn Error>> {
    if format == Format::Json {
        println!("{}", serde_json::to_string_pretty(measured)?);
        return Ok(());
    }
    let Measured { workload, clients, worlds, batch, machine, .. } = measured;
    println!("{machine:?}");
    println!("{workload}: {clients} clients, {worlds} worlds, {batch} events per request");
    for (name, quantity) in QUANTITIES {
        let [median, low, high] =
            [measured.median, measured.low, measured.high].map(|mut figures| *quantity(&mut figures));
        println!("  {name:<24} {median:>12.2}   ({low:.2} … {high:.2})");
    }
    Ok(())
}
