//! The first call to worlds that are in no memory, beside the second call to the same worlds.

use super::{
    load::Connection,
    target::{Server, Subject},
    workload::{WORLDS, create},
};
use crate::{
    Again, Common,
    latency::Latencies,
    report::{Once, Report},
};
use std::{error::Error, net::SocketAddr, path::Path, time::Instant};

/// So many worlds are made; the server is killed and started again; each is called twice, by one client.
pub(crate) fn cold(
    report: &mut Report,
    common: &Common,
    worlds: usize,
    peer: Option<&Path>,
    again: Again<'_>,
) -> Result<(), Box<dyn Error>> {
    for subject in [Subject::Mundi(again)].into_iter().chain(peer.map(Subject::Peer)) {
        let what = format!("the first call to each of {worlds} worlds of {} after a restart", subject.name());
        let figures = report.repeat(common, &what, |folder| once(folder, worlds, &subject))?;
        if let (Subject::Mundi(_), Some(ratio)) = (&subject, figures.last_mut()) {
            ratio.goal = Some("<= 2".to_owned());
        }
    }
    Ok(())
}

fn once(folder: &Path, worlds: usize, subject: &Subject<'_>) -> Result<Once, Box<dyn Error>> {
    let folder = folder.join("data");
    let server = Server::start(subject, &folder)?;
    let worlds = match server.is_peer {
        true => {
            let names: Vec<String> = (0..worlds).map(|world| format!("bench-{world}")).collect();
            call_each(server.address, true, &names)?; // they come to be when they are called
            names
        }
        false => create(server.address, "counter", worlds)?,
    };
    drop(server);
    let server = Server::start(subject, &folder)?;
    call_each(server.address, server.is_peer, &worlds[..1])?; // what the process itself does once is not the worlds'
    let first = call_each(server.address, server.is_peer, &worlds[1..])?;
    let second = call_each(server.address, server.is_peer, &worlds[1..])?;
    let of = subject.name();
    let figure = |call: &str, share: f64, took: &Latencies| {
        (format!("{of}: {call} call, p{:.0}", share * 100.0), "ms", took.below_us(share) / 1e3)
    };
    Ok(vec![
        figure("first", 0.5, &first),
        figure("first", 0.99, &first),
        figure("second", 0.5, &second),
        figure("second", 0.99, &second),
        (format!("{of}: first / second call, p50"), "ratio", first.below_us(0.5) / second.below_us(0.5)),
    ])
}

fn call_each(address: SocketAddr, is_peer: bool, worlds: &[String]) -> Result<Latencies, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut connection, took) = (Connection::open(address).await?, Latencies::default());
        for world in worlds {
            let begun = Instant::now();
            match is_peer {
                true => connection.post(format_args!("/Bench/{world}/add"), b"1").await?,
                false => connection.post(format_args!("{WORLDS}/{world}/call/add"), b"1").await?,
            };
            took.note(begun.elapsed());
        }
        Ok(took)
    })
}
