//! Timers: many set ahead, all due at one moment.

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::{CONNECTIONS, WORLDS, create},
};
use crate::{Again, report::Report};
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

pub(crate) fn timers(report: &mut Report, dir: &Path, count: usize, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    report.progress(&format!("{count} timers of {WORLDS_OF_TIMERS} worlds, set and fired"));
    let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(dir)?;
    let server = Server::start(&Subject::Mundi(again), folder.path())?;
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
    let late_ns = loop {
        let (mut fired, mut late_ns) = (0, 0);
        for world in &worlds {
            let path = format_args!("{WORLDS}/{world}/query/fired");
            let answer: [u64; 2] = serde_json::from_slice(runtime.block_on(connection.post(path, b"null"))?)?;
            (fired, late_ns) = (fired + answer[0], late_ns + answer[1]);
        }
        if fired >= count as u64 {
            break late_ns;
        }
        eprintln!("  {fired} of {count} fired");
        std::thread::sleep(Duration::from_millis(200));
    };
    let fired_s = due.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (number, late_ms) = (count as f64, late_ns as f64 / 1e6);
    report.add(format!("{count} timers, set"), "timers/s", vec![number / set_s]);
    report.add(format!("{count} timers due at once, fired"), "timers/s", vec![number / fired_s]);
    report.add("how late they were, on average", "ms", vec![late_ms / number]);
    let cpu_us = server.used().cpu_us_since(before) / number;
    report.add("processor time per timer, set and fired", "us", vec![cpu_us]);
    Ok(())
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
