//! The workloads of clients, for our server and for a peer.

use super::{
    load::{Connection, Driven, drive},
    loopback,
    target::Server,
};
use std::{error::Error, net::SocketAddr, rc::Rc, time::Duration};

pub(super) const WORLDS: &str = "/v1/u/default/worlds";
/// By which worlds are made and filled.
pub(super) const CONNECTIONS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    /// An event to a counter; journaled, stepped, and the reply is waited for.
    Call,
    /// An event to a counter; acknowledged when it is durable.
    Send { batch: usize },
    /// A call that asks an HTTP server on the loopback, and replies when the answer is journaled.
    Effect,
    /// A call that sends a message to another world, and replies when that is durable.
    Message,
}

impl Workload {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Send { .. } => "send",
            Self::Effect => "effect",
            Self::Message => "message",
        }
    }

    pub(super) fn batch(self) -> usize {
        match self {
            Self::Send { batch } => batch,
            _ => 1,
        }
    }

    pub(super) fn is_known_to_peers(self) -> bool {
        self.batch() == 1
    }

    fn program(self) -> &'static str {
        match self {
            Self::Call | Self::Send { .. } => "counter",
            Self::Effect | Self::Message => "bench",
        }
    }
}

/// A server with its worlds, ready to be asked.
pub(super) struct Prepared {
    workload: Workload,
    /// The name of each world, or its id.
    worlds: Rc<[String]>,
    url: String,
    is_peer: bool,
}

impl Prepared {
    pub(super) fn new(workload: Workload, server: &Server, worlds: usize) -> Result<Self, Box<dyn Error>> {
        let url = if workload == Workload::Effect { loopback::start()? } else { String::new() };
        let worlds = match server.is_peer {
            true => (0..worlds).map(|world| format!("bench-{world}")).collect(), // they come to be when they are called
            false => create(server.address, workload.program(), worlds)?.into(),
        };
        Ok(Self { workload, worlds, url, is_peer: server.is_peer })
    }

    pub(super) fn drive<T>(
        self,
        address: SocketAddr,
        clients: usize,
        time: Duration,
        note: impl Fn() -> T,
    ) -> Result<Driven<T>, Box<dyn Error>> {
        let batch = self.workload.batch();
        let events = batch_of(batch);
        let worlds = self.worlds.clone();
        drive(address, clients, time, note, async move |connection, turn| {
            // A stride that no client shares keeps them apart, as users are.
            let place = |turn: u64| usize::try_from(turn.wrapping_mul(7_919) % worlds.len() as u64).unwrap_or(0);
            let (world, other) = (&worlds[place(turn)], &worlds[place(turn + 1)]);
            match (self.workload, self.is_peer) {
                (Workload::Call, false) => post(connection, format_args!("{WORLDS}/{world}/call/add"), b"1").await?,
                (Workload::Call, true) => post(connection, format_args!("/Bench/{world}/add"), b"1").await?,
                (Workload::Send { .. }, true) => {
                    post(connection, format_args!("/Bench/{world}/add/send"), b"1").await?;
                }
                (Workload::Send { .. }, false) if batch == 1 => {
                    post(connection, format_args!("{WORLDS}/{world}/send/add"), b"1").await?;
                }
                (Workload::Send { .. }, false) => {
                    post(connection, format_args!("{WORLDS}/{world}/events"), &events).await?;
                }
                (Workload::Effect, is_peer) => {
                    let url = format!("\"{}\"", self.url);
                    match is_peer {
                        true => post(connection, format_args!("/Bench/{world}/http"), url.as_bytes()).await?,
                        false => post(connection, format_args!("{WORLDS}/{world}/call/http"), url.as_bytes()).await?,
                    }
                }
                (Workload::Message, is_peer) => {
                    let other = format!("\"{other}\"");
                    match is_peer {
                        true => post(connection, format_args!("/Bench/{world}/message"), other.as_bytes()).await?,
                        false => {
                            post(connection, format_args!("{WORLDS}/{world}/call/message"), other.as_bytes()).await?;
                        }
                    }
                }
            }
            Ok(batch as u64)
        })
    }
}

async fn post(connection: &mut Connection, path: std::fmt::Arguments<'_>, body: &[u8]) -> Result<(), Box<dyn Error>> {
    connection.post(path, body).await.map(drop)
}

/// So many worlds of a program, by a few connections; their ids.
pub(super) fn create(address: SocketAddr, program: &str, worlds: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let creating = (0..CONNECTIONS.min(worlds)).map(async |first| {
        let mut connection = Connection::open(address).await?;
        let mut created = Vec::new();
        for world in (first..worlds).step_by(CONNECTIONS) {
            let form = format!(r#"{{"world":"bench-{world}","program":"{program}"}}"#);
            let answer = connection.post(format_args!("{WORLDS}"), form.as_bytes()).await?;
            let answer: serde_json::Value = serde_json::from_slice(answer)?;
            created.push(answer["world"].as_str().unwrap_or_default().to_owned());
        }
        Ok::<_, Box<dyn Error>>(created)
    });
    Ok(runtime.block_on(futures_util::future::try_join_all(creating))?.into_iter().flatten().collect())
}

/// So many additions of one.
pub(crate) fn batch_of(events: usize) -> Vec<u8> {
    let events: Vec<_> = (0..events).map(|_| serde_json::json!({ "event": "add", "value": 1 })).collect();
    serde_json::Value::from(events).to_string().into_bytes()
}
