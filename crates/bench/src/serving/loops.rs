//! Endless loops in one universe: what calls of another universe and `/livez` wait beside them.

use super::{
    load::{Connection, drive},
    target::{Server, Subject},
};
use crate::{
    Again, Common,
    latency::Latencies,
    report::{Once, Report},
};
use mundi_model::{Hash, limits};
use serde_json::{Value, json};
use std::{error::Error, net::SocketAddr, path::Path, time::Duration};

/// Few enough that all of them have begun, and far more than that.
const LOOPS: [usize; 2] = [32, 256];
/// Loops that wait in the inbox of each world: each is stopped when its fuel is spent, about a second of a processor.
const LOOPS_OF_WORLD: usize = 8;
const CLIENTS: usize = 4;

const LOUD: &str = "/v1/u/loud";
const QUIET: &str = "/v1/u/quiet";

pub(crate) fn loops(report: &mut Report, common: &Common, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    let time = Duration::from_secs(common.seconds);
    let figures = report.repeat(common, "calls beside endless loops", |folder| once(folder, time, again))?;
    for figure in figures.iter_mut().filter(|figure| figure.name.ends_with("p99")) {
        figure.goal = Some("< 100".to_owned());
    }
    Ok(())
}

fn once(folder: &Path, time: Duration, again: Again<'_>) -> Result<Once, Box<dyn Error>> {
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let manifest = runtime.block_on(prepare(server.address))?;
    let (mut figures, mut running) = (measure(server.address, time, "without loops")?, 0);
    for count in LOOPS {
        runtime.block_on(start_loops(server.address, &manifest, running..count))?;
        running = count;
        figures.extend(measure(server.address, time, &format!("beside {count} loops"))?);
    }
    Ok(figures)
}

fn measure(address: SocketAddr, time: Duration, beside: &str) -> Result<Once, Box<dyn Error>> {
    let calls = drive(
        address,
        CLIENTS,
        time,
        || (),
        async |connection, _| {
            connection.post(format_args!("{QUIET}/worlds/quiet/call/touch"), b"1").await?;
            Ok(1)
        },
    )?;
    let looks = drive(
        address,
        CLIENTS,
        time,
        || (),
        async |connection, _| match connection.ask("GET", format_args!("/livez"), b"").await? {
            (200, _) => Ok(1),
            (status, _) => Err(format!("/livez: {status}").into()),
        },
    )?;
    let of = |what: &str, latencies: &Latencies| {
        [("p50", 0.5), ("p99", 0.99)]
            .map(|(name, share)| (format!("{what} {beside}, {name}"), "ms", latencies.below_us(share) / 1e3))
    };
    Ok([of("call in another universe", &calls.latencies), of("`/livez`", &looks.latencies)].concat())
}

/// Both universes with the program, and the world that is called. Says which manifest lets loops run for as long as may be.
async fn prepare(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut connection = Connection::open(address).await?;
    let code = mundi_wasm::build::componentize(include_bytes!("loops.wasm"))?;
    let mut manifest = String::new();
    for (name, path) in [("quiet", QUIET), ("loud", LOUD)] {
        asked(&mut connection, "POST", "/v1/universes", &json!({ "name": name })).await?;
        let mut registered = upload(&mut connection, path, &code).await?;
        registered["wasm"]["limits"]["fuel_max"] = json!(limits::WASM_FUEL_MAX);
        let stored = asked(&mut connection, "POST", &format!("{path}/manifests"), &registered).await?;
        stored["hash"].as_str().ok_or("a manifest has a hash")?.clone_into(&mut manifest);
    }
    create(&mut connection, QUIET, "quiet", &manifest).await?;
    Ok(manifest)
}

/// Uploads the program, waits until it is compiled, and says by which manifest it runs.
async fn upload(connection: &mut Connection, universe: &str, code: &[u8]) -> Result<Value, Box<dyn Error>> {
    let path = format!("{universe}/programs/{}", Hash::of(code));
    connection.ask("PUT", format_args!("{path}"), code).await?;
    loop {
        let state = asked(connection, "GET", &path, &Value::Null).await?;
        match state["state"].as_str() {
            Some("ready") => return Ok(state["manifest"].clone()),
            Some("queued" | "compiling") => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => return Err(state.to_string().into()),
        }
    }
}

async fn start_loops(
    address: SocketAddr,
    manifest: &str,
    worlds: std::ops::Range<usize>,
) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::open(address).await?;
    for number in worlds {
        let world = format!("loop-{number}");
        create(&mut connection, LOUD, &world, manifest).await?;
        for _ in 0..LOOPS_OF_WORLD {
            asked(&mut connection, "POST", &format!("{LOUD}/worlds/{world}/send/loop"), &Value::Null).await?;
        }
    }
    Ok(())
}

async fn create(
    connection: &mut Connection,
    universe: &str,
    world: &str,
    manifest: &str,
) -> Result<(), Box<dyn Error>> {
    let form = json!({ "world": world, "manifest": manifest });
    asked(connection, "POST", &format!("{universe}/worlds"), &form).await.map(drop)
}

/// Anything but success is an error.
async fn asked(connection: &mut Connection, method: &str, path: &str, body: &Value) -> Result<Value, Box<dyn Error>> {
    let body = if method == "GET" { Vec::new() } else { serde_json::to_vec(body)? };
    match connection.ask(method, format_args!("{path}"), &body).await? {
        (200..300, answer) => Ok(serde_json::from_slice(answer)?),
        (status, answer) => Err(format!("{path}: {status}: {}", String::from_utf8_lossy(answer)).into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_program_is_what_its_text_says() {
        assert_eq!(wat::parse_str(include_str!("loops.wat")).unwrap(), include_bytes!("loops.wasm"));
    }
}
