//! etcd: a resource is a key, which a transaction creates if it is not there. Its revision is the fence: each later step compares it.
//!
//! Over the JSON gateway of etcd itself, because that needs nothing but HTTP; a client over gRPC spares the server some work.

use super::{
    super::load::{Connection, drive},
    Cycles,
};
use crate::machine::Used;
use serde_json::{Value, json};
use std::{
    error::Error,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(30);

struct Etcd {
    child: Child,
    address: SocketAddr,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Etcd {
    fn start(program: &Path, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let port = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let (address, peers) = (port()?, port()?);
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(folder.join("etcd")).args(["--log-level", "error", "--name", "bench"]);
        command.args(["--listen-client-urls".to_owned(), format!("http://{address}")]);
        command.args(["--advertise-client-urls".to_owned(), format!("http://{address}")]);
        command.args(["--listen-peer-urls".to_owned(), format!("http://{peers}")]);
        command.args(["--initial-advertise-peer-urls".to_owned(), format!("http://{peers}")]);
        command.args(["--initial-cluster".to_owned(), format!("bench=http://{peers}")]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("{}: {error}", program.display()))?;
        let started = Self { child, address };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > START_MAX {
                return Err("etcd did not start".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(500)); // it listens before it has elected itself
        Ok(started)
    }
}

pub(super) fn measure(
    program: &Path,
    folder: &Path,
    resources: usize,
    clients: usize,
    time: Duration,
) -> Result<Cycles, Box<dyn Error>> {
    let etcd = Etcd::start(program, folder)?;
    let pid = etcd.child.id();
    let driven = drive(
        etcd.address,
        clients,
        time,
        || Used::of(pid),
        async move |connection, turn| cycle(connection, turn, resources as u64).await,
    )?;
    Ok(Cycles::of(driven.events, driven.seconds, &driven.latencies, driven.noted))
}

async fn cycle(connection: &mut Connection, turn: u64, resources: u64) -> Result<u64, Box<dyn Error>> {
    // Each client has a part of the resources of its own, so nobody comes in vain.
    let (key, value) = (base64(&format!("resource-{}", turn % resources)), base64(&format!("holder-{turn}")));
    let put = json!([{ "requestPut": { "key": key, "value": value } }]);
    let absent = json!({ "target": "VERSION", "key": key, "result": "EQUAL", "version": "0" });
    let reserved = transaction(connection, &absent, &put).await?;
    let same = |revision: &str| json!({ "target": "MOD", "key": key, "result": "EQUAL", "modRevision": revision });
    let activated = transaction(connection, &same(&reserved), &put).await?;
    let delete = json!([{ "requestDeleteRange": { "key": key } }]);
    transaction(connection, &same(&activated), &delete).await?;
    Ok(1)
}

/// The revision that it made; an error if what it compares is otherwise.
async fn transaction(connection: &mut Connection, compare: &Value, success: &Value) -> Result<String, Box<dyn Error>> {
    let body = json!({ "compare": [compare], "success": success }).to_string();
    let answer: Value = serde_json::from_slice(connection.post(format_args!("/v3/kv/txn"), body.as_bytes()).await?)?;
    match (&answer["succeeded"], answer["header"]["revision"].as_str()) {
        (Value::Bool(true), Some(revision)) => Ok(revision.to_owned()),
        _ => Err(format!("etcd refused: {answer}").into()),
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bytes = [chunk[0], chunk.get(1).copied().unwrap_or(0), chunk.get(2).copied().unwrap_or(0)];
        let bits = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            encoded.push(if place > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn texts_are_encoded_as_everywhere() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        pairs.into_iter().for_each(|(text, expected)| assert_eq!(base64(text), expected));
    }
}
