//! Idle worlds: their cost, and how soon one of them answers.

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::{WORLDS, create},
};
use crate::{
    Again, Common,
    report::{Once, Report},
};
use std::{error::Error, path::Path, time::Instant};

pub(crate) fn idle(report: &mut Report, common: &Common, count: usize, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    let what = format!("{count} idle worlds (after they were made)");
    report.repeat(common, &what, |folder| once(folder, count, again)).map(drop)
}

fn once(folder: &Path, count: usize, again: Again<'_>) -> Result<Once, Box<dyn Error>> {
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let empty_mib = server.resident_mib();
    let begun = Instant::now();
    let worlds = create(server.address, "counter", count)?;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let per_second = count as f64 / begun.elapsed().as_secs_f64();
    drop(server);
    let begun = Instant::now();
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let started_ms = begun.elapsed().as_secs_f64() * 1e3;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begun = Instant::now();
    runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        connection.post(format_args!("{WORLDS}/{}/call/add", worlds[count / 2]), b"1").await.map(drop)
    })?;
    let first_ms = begun.elapsed().as_secs_f64() * 1e3;
    Ok(vec![
        ("worlds made".to_owned(), "worlds/s", per_second),
        (format!("start after kill -9 with {count} worlds"), "ms", started_ms),
        ("first event to one of them after the start".to_owned(), "ms", first_ms),
        ("memory of a server with no world".to_owned(), "MiB", empty_mib),
        (format!("memory with {count} idle worlds"), "MiB", server.resident_mib()),
    ])
}
