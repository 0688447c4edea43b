//! Worlds that nobody talks to: what they cost, and how soon one of them answers.

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::{WORLDS, create},
};
use crate::{Again, report::Report};
use std::{error::Error, path::Path, time::Instant};

pub(crate) fn idle(report: &mut Report, dir: &Path, count: usize, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    report.progress(&format!("{count} idle worlds (after they were made)"));
    let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(dir)?;
    let server = Server::start(&Subject::Mundi(again), folder.path())?;
    let empty_mib = server.resident_mib();
    let begun = Instant::now();
    let worlds = create(server.address, "counter", count)?;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let per_second = count as f64 / begun.elapsed().as_secs_f64();
    drop(server);
    let begun = Instant::now();
    let server = Server::start(&Subject::Mundi(again), folder.path())?;
    let started_ms = begun.elapsed().as_secs_f64() * 1e3;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begun = Instant::now();
    runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        connection.post(format_args!("{WORLDS}/{}/call/add", worlds[count / 2]), b"1").await.map(drop)
    })?;
    let first_ms = begun.elapsed().as_secs_f64() * 1e3;
    report.add("worlds made", "worlds/s", vec![per_second]);
    report.add(format!("start after kill -9 with {count} worlds"), "ms", vec![started_ms]);
    report.add("first event to one of them after the start", "ms", vec![first_ms]);
    report.add("memory of a server with no world", "MiB", vec![empty_mib]);
    report.add(format!("memory with {count} idle worlds"), "MiB", vec![server.resident_mib()]);
    Ok(())
}
