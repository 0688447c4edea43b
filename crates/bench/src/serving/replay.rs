//! Restore and replay: a world with a long history is proven from its beginning, and comes back after a crash.

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::{WORLDS, batch_of, create},
};
use crate::{
    Again, Common,
    report::{Once, Report},
};
use std::{error::Error, path::Path, time::Instant};

/// Sent together: as many as a batch may have.
const TOGETHER: usize = 250;

pub(crate) fn replay(
    report: &mut Report,
    common: &Common,
    events: usize,
    again: Again<'_>,
) -> Result<(), Box<dyn Error>> {
    let what = format!("a world with {events} events (after they were sent), replayed and restored");
    report.repeat(common, &what, |folder| once(folder, events, again)).map(drop)
}

fn once(folder: &Path, events: usize, again: Again<'_>) -> Result<Once, Box<dyn Error>> {
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let worlds = create(server.address, "counter", 1)?;
    let world = &worlds[0];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let batch = batch_of(TOGETHER);
    let (taken, replay_s, replay_us) = runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        for _ in 0..events.div_ceil(TOGETHER) {
            connection.post(format_args!("{WORLDS}/{world}/events"), &batch).await?;
        }
        let taken = connection.post(format_args!("{WORLDS}/{world}/call/add"), b"1").await?.to_vec();
        let (begun, before) = (Instant::now(), server.used());
        connection.post(format_args!("{WORLDS}/{world}/verify"), b"").await?;
        Ok::<_, Box<dyn Error>>((taken, begun.elapsed().as_secs_f64(), server.used().cpu_us_since(before)))
    })?;
    let taken: f64 = serde_json::from_slice(&taken)?;
    drop(server);
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let begun = Instant::now();
    runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        connection.post(format_args!("{WORLDS}/{world}/call/add"), b"1").await.map(drop)
    })?;
    let restored_ms = begun.elapsed().as_secs_f64() * 1e3;
    Ok(vec![
        ("a world proven from its beginning".to_owned(), "events/s", taken / replay_s),
        ("processor time of that".to_owned(), "us/event", replay_us / taken),
        (format!("its first reply after kill -9 ({taken} events)"), "ms", restored_ms),
        ("memory after that".to_owned(), "MiB", server.resident_mib()),
    ])
}
