//! The server's workloads, over HTTP: the real server in a process of its own, beside the raw limit and, if there is one, a
//! peer under the same load.

mod cold;
mod figures;
mod find;
mod floor;
mod idle;
mod kill;
pub(crate) mod load;
pub(crate) mod loopback;
mod loops;
mod node;
mod pool;
mod replay;
mod target;
mod targets;
mod tenants;
mod timers;
mod workload;

use crate::{
    Again, Common, Format,
    clients::Kind,
    machine::Machine,
    raw::{Room, measure_raw},
};
pub(crate) use cold::cold;
use figures::{Figures, spread};
pub(crate) use figures::{Measured, QUANTITIES};
pub(crate) use find::{FillSettings, FindSettings, fill, find};
pub(crate) use floor::floor;
pub(crate) use idle::idle;
pub(crate) use kill::kill;
pub(crate) use loops::loops;
pub(crate) use node::{NodeSettings, node};
pub(crate) use pool::{PoolSettings, pool};
pub(crate) use replay::replay;
use std::{
    error::Error,
    path::{Path, PathBuf},
    time::Duration,
};
use target::{Server, Subject};
pub(crate) use targets::targets;
pub(crate) use tenants::tenants;
pub(crate) use timers::timers;
pub(crate) use workload::batch_of;
use workload::{Prepared, Workload};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CallSettings {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How many clients call at a time.
    #[arg(long, default_value_t = 256)]
    pub(crate) clients: usize,
    /// How many worlds they call.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) worlds: usize,
    /// The folder of a peer, such as `bench/peers/restate`: it gets the same load, in turns.
    #[arg(long)]
    pub(crate) peer: Option<PathBuf>,
    /// The floor too: a bare HTTP counter with a synced log gets the same load, in turns.
    #[arg(long)]
    pub(crate) floor: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SendSettings {
    #[command(flatten)]
    pub(crate) call: CallSettings,
    /// How many events one request brings.
    #[arg(long, default_value_t = 1)]
    pub(crate) batch: usize,
}

pub(crate) fn call(settings: &CallSettings, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    print(&measure(Workload::Call, settings, again)?, settings.common.format)
}

pub(crate) fn send(settings: &SendSettings, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    print(&send_measured(settings, again)?, settings.call.common.format)
}

pub(crate) fn effect(settings: &CallSettings, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    print(&measure(Workload::Effect, settings, again)?, settings.common.format)
}

pub(crate) fn message(settings: &CallSettings, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    print(&measure(Workload::Message, settings, again)?, settings.common.format)
}

fn send_measured(settings: &SendSettings, again: Again<'_>) -> Result<Vec<Measured>, Box<dyn Error>> {
    measure(Workload::Send { batch: settings.batch.max(1) }, &settings.call, again)
}

/// All that the load of clients tells: calls by few and by many, sends one by one and together, effects, messages.
pub(crate) fn measure_all(
    common: &Common,
    peer: Option<&Path>,
    again: Again<'_>,
) -> Result<Vec<Measured>, Box<dyn Error>> {
    let plan = [
        (Workload::Call, 1),
        (Workload::Call, 32),
        (Workload::Call, 256),
        (Workload::Send { batch: 1 }, 256),
        (Workload::Send { batch: 100 }, 32),
        (Workload::Effect, 256),
        (Workload::Message, 256),
    ];
    let mut measured = Vec::new();
    for (workload, clients) in plan {
        let peer = peer.map(Path::to_owned);
        let floor = workload == Workload::Call;
        let settings = CallSettings { common: common.clone(), clients, worlds: 1_000, peer, floor };
        measured.extend(measure(workload, &settings, again)?);
    }
    Ok(measured)
}

/// Ours; the floor's, if it is asked for; and the peer's, if there is one that knows the workload.
fn measure(workload: Workload, settings: &CallSettings, again: Again<'_>) -> Result<Vec<Measured>, Box<dyn Error>> {
    let CallSettings { common, clients, worlds, peer, floor } = settings;
    let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(&common.dir)?;
    let peer = peer.as_deref().filter(|_| workload.is_known_to_peers()).map(Subject::Peer);
    let floor = floor.then_some(Subject::Floor(again));
    let subjects: Vec<Subject<'_>> = [Subject::Mundi(again)].into_iter().chain(floor).chain(peer).collect();
    let mut runs: Vec<Vec<Figures>> = subjects.iter().map(|_| Vec::new()).collect();
    for run in 1..=common.runs {
        for (subject, runs) in subjects.iter().zip(&mut runs) {
            let name = subject.name();
            eprintln!(
                "measuring {} of {name} by {clients} clients on {worlds} worlds, run {run} of {} …",
                workload.name(),
                common.runs
            );
            let folder = tempfile::tempdir_in(folder.path())?;
            runs.push(run_once(workload, settings, subject, folder.path())?);
        }
    }
    let measured = subjects.iter().zip(runs).map(|(subject, runs)| {
        let [low, median, high] = spread(&runs);
        let (clients, worlds, seconds) = (*clients, *worlds, common.seconds);
        let (workload, of, batch, machine) = (workload.name(), subject.name(), workload.batch(), Machine::read());
        Measured { workload, of, clients, worlds, batch, seconds, median, low, high, runs, machine }
    });
    Ok(measured.collect())
}

fn run_once(
    workload: Workload,
    settings: &CallSettings,
    subject: &Subject<'_>,
    folder: &Path,
) -> Result<Figures, Box<dyn Error>> {
    let time = Duration::from_secs(settings.common.seconds);
    let server = Server::start(subject, &folder.join("data"))?;
    let prepared = Prepared::new(workload, &server, settings.worlds)?;
    let note = || (server.used(), server.resident_mib());
    let driven = prepared.drive(server.address, settings.clients, time, note)?;
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

/// One, as it is; several, as a list.
#[expect(clippy::print_stdout, reason = "the figures are what the command is for")]
fn print(measured: &[Measured], format: Format) -> Result<(), Box<dyn Error>> {
    match (format, measured) {
        (Format::Json, [one]) => println!("{}", serde_json::to_string_pretty(one)?),
        (Format::Json, several) => println!("{}", serde_json::to_string_pretty(several)?),
        (Format::Table, _) => measured.iter().for_each(|measured| println!("{measured}")),
    }
    Ok(())
}
