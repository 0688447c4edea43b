//! Timers: many set ahead, all due at one moment.

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::{CONNECTIONS, WORLDS, create},
};
use crate::{
    Again, Common,
    latency::Latencies,
    program::LATE_STEP_NS,
    report::{Once, Report},
};
use futures_util::future::try_join_all;
use std::{
    error::Error,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

const WORLDS_OF_TIMERS: usize = 100;
/// Set by one event: about as many as a step may.
const TIMERS_PER_EVENT: usize = 200;
/// By then all are set.
const AHEAD: Duration = Duration::from_secs(15);

pub(crate) fn timers(
    report: &mut Report,
    common: &Common,
    count: usize,
    again: Again<'_>,
) -> Result<(), Box<dyn Error>> {
    let what = format!("{count} timers of {WORLDS_OF_TIMERS} worlds, set and fired");
    report.repeat(common, &what, |folder| once(folder, count, again)).map(drop)
}

fn once(folder: &Path, count: usize, again: Again<'_>) -> Result<Once, Box<dyn Error>> {
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let worlds = create(server.address, "bench", WORLDS_OF_TIMERS)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (begun, before) = (Instant::now(), server.used());
    let due = begun + AHEAD;
    runtime.block_on(set(server.address, &worlds, count, due))?;
    let set_s = begun.elapsed().as_secs_f64();
    if Instant::now() >= due {
        return Err(format!("{count} timers could not be set within {} s", AHEAD.as_secs()).into());
    }
    std::thread::sleep(due - Instant::now());
    let mut connection = runtime.block_on(Connection::open(server.address))?;
    let mut ask = |world: &str, query: &str| {
        let path = format_args!("{WORLDS}/{world}/query/{query}");
        Ok::<_, Box<dyn Error>>(runtime.block_on(connection.post(path, b"null"))?.to_vec())
    };
    loop {
        let mut fired = 0;
        for world in &worlds {
            fired += serde_json::from_slice::<usize>(&ask(world, "fired")?)?;
        }
        if fired >= count {
            break;
        }
        eprintln!("  {fired} of {count} fired");
        std::thread::sleep(Duration::from_millis(200));
    }
    let (fired_s, after) = (due.elapsed().as_secs_f64(), server.used());
    let late = Latencies::default();
    for world in &worlds {
        let counts: Vec<u64> = serde_json::from_slice(&ask(world, "late")?)?;
        let steps = (1..).map(|step| Duration::from_nanos(step * LATE_STEP_NS));
        steps.zip(counts).for_each(|(late_by, timers)| late.note_many(late_by, timers));
    }
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (number, written) = (count as f64, after.written_bytes_since(before) as f64);
    let mut figures = vec![
        (format!("{count} timers, set"), "timers/s", number / set_s),
        (format!("{count} timers due at once, fired"), "timers/s", number / fired_s),
    ];
    for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        figures.push((format!("how late they were, {name}"), "ms", late.below_us(share) / 1e3));
    }
    figures.push(("processor time per timer, set and fired".to_owned(), "us", after.cpu_us_since(before) / number));
    figures.push(("written per timer, set and fired".to_owned(), "B", written / number));
    figures.push(("memory after that".to_owned(), "MiB", server.resident_mib()));
    Ok(figures)
}

async fn set(address: SocketAddr, worlds: &[String], count: usize, due: Instant) -> Result<(), Box<dyn Error>> {
    let events = count.div_ceil(TIMERS_PER_EVENT);
    let setting = (0..CONNECTIONS).map(async |first| {
        let mut connection = Connection::open(address).await?;
        for event in (first..events).step_by(CONNECTIONS) {
            let world = &worlds[event % worlds.len()];
            let timers = TIMERS_PER_EVENT.min(count - event * TIMERS_PER_EVENT);
            let ahead_ns = due.saturating_duration_since(Instant::now()).as_nanos();
            let body = format!("[{timers},{ahead_ns}]");
            connection.post(format_args!("{WORLDS}/{world}/call/timers"), body.as_bytes()).await?;
        }
        Ok::<_, Box<dyn Error>>(())
    });
    try_join_all(setting).await.map(drop)
}
