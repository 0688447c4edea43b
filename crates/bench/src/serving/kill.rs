//! `kill -9` under load, and how long until the first reply after the restart.

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::{WORLDS, batch_of, create},
};
use crate::{Again, Common, report::Report};
use futures_util::future::try_join_all;
use std::{error::Error, path::Path, time::Instant};

const WORLDS_OF_BACKLOG: usize = 1_000;
const CONNECTIONS: usize = 32;

/// So many events are sent and acknowledged; then it is killed at once.
pub(crate) fn kill(
    report: &mut Report,
    common: &Common,
    backlog: usize,
    again: Again<'_>,
) -> Result<(), Box<dyn Error>> {
    let (what, name) = (
        format!("kill -9 after {backlog} events, and the first reply after it"),
        format!("first reply after kill -9, {backlog} events sent"),
    );
    let once = |folder: &Path| Ok(vec![(name.clone(), "ms", once(folder, backlog, again)?)]);
    report.repeat(common, &what, once)?.iter_mut().for_each(|figure| figure.goal = Some("<= 1000".to_owned()));
    Ok(())
}

fn once(folder: &Path, backlog: usize, again: Again<'_>) -> Result<f64, Box<dyn Error>> {
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let worlds = create(server.address, "counter", WORLDS_OF_BACKLOG)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let events = batch_of(backlog.div_ceil(worlds.len()));
    let sending = (0..CONNECTIONS).map(async |first| {
        let mut connection = Connection::open(server.address).await?;
        for world in worlds.iter().skip(first).step_by(CONNECTIONS) {
            connection.post(format_args!("{WORLDS}/{world}/events"), &events).await?;
        }
        Ok::<_, Box<dyn Error>>(())
    });
    runtime.block_on(try_join_all(sending))?;
    drop(server);
    let begun = Instant::now();
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let reply = runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        let reply = connection.post(format_args!("{WORLDS}/{}/call/add", worlds[worlds.len() / 2]), b"0").await?;
        Ok::<_, Box<dyn Error>>(reply.to_vec())
    })?;
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    let expected = backlog.div_ceil(worlds.len()).to_string();
    if reply != expected.as_bytes() {
        return Err(format!("{} events were acknowledged, not {expected}", String::from_utf8_lossy(&reply)).into());
    }
    Ok(millis)
}
