//! Finding among many worlds: what a page, a count and a query cost beside few of them, and what a query over a long journal takes of memory.

mod fill;
mod stream;

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::WORLDS,
};
use crate::{
    Again, Common,
    latency::Latencies,
    report::{Once, Report},
};
pub(crate) use fill::{FillSettings, fill};
use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};
use stream::streamed;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FindSettings {
    #[command(flatten)]
    common: Common,
    /// How many worlds; a tenth of them is measured first.
    #[arg(long, default_value_t = 100_000)]
    worlds: usize,
    /// How many records the long journal has; a tenth of them is read first.
    #[arg(long, default_value_t = 100_000)]
    records: usize,
}

/// The lists that are asked for, with their names. Each is a page of a hundred.
const PAGES: [(&str, &str); 10] = [
    ("all", "worlds?limit=100"),
    ("by a label of a hundred", "worlds?limit=100&label=customer=0"),
    ("by a label of all", "worlds?limit=100&label=tier=gold"),
    ("by the beginning of a name", "worlds?limit=100&name=w"),
    ("by program", "worlds?limit=100&program=counter"),
    ("by state", "worlds?limit=100&state=live"),
    ("the newest", "worlds?limit=100&sort=newest"),
    ("the last active", "worlds?limit=100&sort=active"),
    ("by a part of a name that none has (1,000 looks)", "worlds?limit=100&name_contains=nobody"),
    ("count by a label of a hundred", "world-count?label=customer=0"),
];

/// A server that used less processor time than this in a second rests.
const RESTS_BELOW_US: f64 = 50_000.0;

/// For a million worlds.
const SETTLE_SECONDS_MAX: u32 = 3_600;

pub(crate) fn find(settings: &FindSettings, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    let FindSettings { common, worlds, records } = settings;
    let mut report = Report::new();
    let what = format!("{worlds} worlds and {records} records (after they were made)");
    report.repeat(common, &what, |folder| once(folder, settings, again))?;
    report.print(common.format);
    Ok(())
}

fn once(folder: &Path, settings: &FindSettings, again: Again<'_>) -> Result<Once, Box<dyn Error>> {
    let mut figures = Once::new();
    let few = (settings.worlds / 10).max(1);
    let mut made = 0;
    for (worlds, records) in [(few, settings.records), (settings.worlds, 0)] {
        let begun = Instant::now();
        fill::in_process(folder, (made..worlds, true), records)?;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let per_second = (worlds - made + records) as f64 / begun.elapsed().as_secs_f64();
        eprintln!("  {worlds} worlds; made {per_second:.0} worlds and records a second");
        made = worlds;
        let server = Server::start(&Subject::Mundi(again), folder)?;
        settle(&server);
        figures.extend(pages(&server, worlds, settings.common.seconds)?);
        if worlds == settings.worlds {
            figures.extend(queries(&server, settings)?);
        }
    }
    Ok(figures)
}

/// Waits until the server rests: worlds that were made take a turn first, which journals their labels.
fn settle(server: &Server) {
    for _ in 0..SETTLE_SECONDS_MAX {
        let before = server.used();
        std::thread::sleep(Duration::from_secs(1));
        if server.used().cpu_us_since(before) < RESTS_BELOW_US {
            return;
        }
    }
}

/// A page of each list, asked for again and again by one client.
fn pages(server: &Server, worlds: usize, seconds: u64) -> Result<Once, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = Once::new();
    runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        for (name, query) in PAGES {
            let (latencies, time) = (Latencies::default(), Duration::from_secs(seconds));
            get(&mut connection, query).await?; // caches are warm, as under a reader that asks again
            let (begun, before, mut asked) = (Instant::now(), server.used(), 0.0);
            while begun.elapsed() < time {
                let one = Instant::now();
                get(&mut connection, query).await?;
                latencies.note(one.elapsed());
                asked += 1.0;
            }
            let cpu_us = server.used().cpu_us_since(before) / asked;
            figures.push((format!("{worlds} worlds, {name}: p50"), "ms", latencies.below_us(0.5) / 1e3));
            figures.push((format!("{worlds} worlds, {name}: processor"), "us/page", cpu_us));
        }
        // Part by part, as the command does.
        let (begun, mut counted, mut parts, mut after) = (Instant::now(), 0, 0, String::new());
        loop {
            let part = get(&mut connection, &format!("world-count?{after}")).await?;
            counted += part["count"].as_u64().unwrap_or(0);
            parts += 1;
            match part["next"].as_str() {
                Some(next) => after = format!("after={next}"),
                None => break,
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let each_us = begun.elapsed().as_secs_f64() * 1e6 / counted.max(1) as f64;
        if counted < worlds as u64 {
            return Err(format!("{counted} worlds were counted of {worlds}").into());
        }
        eprintln!("  counted {counted} worlds in {parts} parts");
        figures.push((format!("{worlds} worlds, counted one by one"), "us/world", each_us));
        figures.push((format!("{worlds} worlds: memory of the server after that"), "MiB", server.resident_mib()));
        Ok(figures)
    })
}

async fn get(connection: &mut Connection, query: &str) -> Result<serde_json::Value, Box<dyn Error>> {
    let universe = WORLDS.trim_end_matches("/worlds");
    match connection.ask("GET", format_args!("{universe}/{query}"), b"").await? {
        (200, body) => Ok(serde_json::from_slice(body)?),
        (status, body) => Err(format!("{query}: {status}: {}", String::from_utf8_lossy(body)).into()),
    }
}

/// SQL over all worlds, and over a tenth and all of the long journal.
fn queries(server: &Server, settings: &FindSettings) -> Result<Once, Box<dyn Error>> {
    let FindSettings { worlds, records, .. } = settings;
    let mut figures = Once::new();
    let grouped = streamed(server, "select program, count(*) from worlds group by 1")?;
    figures.push((format!("SQL, {worlds} worlds grouped by program"), "s", grouped.seconds));
    figures.push((format!("SQL, {worlds} worlds grouped: most memory beyond before"), "MiB", grouped.more_mib));
    for records in [records / 10, *records] {
        let query = format!("select height, type, hash from journal('long') where height < {records}");
        let read = streamed(server, &query)?;
        if read.rows < records as u64 {
            return Err(format!("{} rows of {records}", read.rows).into());
        }
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let per_second = read.rows as f64 / read.seconds;
        figures.push((format!("SQL, {records} records streamed"), "records/s", per_second));
        figures.push((format!("SQL, {records} records streamed: most memory beyond before"), "MiB", read.more_mib));
    }
    Ok(figures)
}
