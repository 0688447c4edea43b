//! `mundi worker`: workers and their worlds.

use super::{
    client::{Paging, Server, escape},
    exit::Outcome,
    output::Out,
};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum WorkerCommand {
    /// Lists the worlds that are assigned to a worker.
    Assignments {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        paging: Paging,
        /// The id that `mundi worker list` prints.
        worker: String,
    },
    /// Makes a worker release its worlds.
    Drain {
        #[command(flatten)]
        server: Server,
        /// The id that `mundi worker list` prints.
        worker: String,
    },
    /// Lists running workers.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Pins a world to a worker.
    Pin {
        #[command(flatten)]
        server: Server,
        /// The id or the name of a world.
        world: String,
        /// The id that `mundi worker list` prints.
        worker: String,
        /// A lower number is served first.
        #[arg(long)]
        priority: Option<u8>,
    },
    /// Unpins a world: the orchestrator places it again.
    Unpin {
        #[command(flatten)]
        server: Server,
        /// The id or the name of a world.
        world: String,
    },
}

impl WorkerCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Assignments { server, paging, worker } => {
                let path = server.of(&format!("assignments/{}", escape(&worker)));
                let (rows, next) = server.pages(&path, &[], &paging).await?;
                out.rows(&[("NAME", "world_name"), ("WORLD", "world")], &rows, &next)
            }
            Self::Drain { server, worker } => {
                server.post(&server.of(&format!("workers/drain/{}", escape(&worker))), &Value::Null).await.map(drop)
            }
            Self::List { server } => {
                let columns = [
                    ("WORKER", "worker"),
                    ("SINCE", "started_at_ns"),
                    ("UNTIL", "expires_at_ns"),
                    ("WORLDS", "worlds"),
                    ("WORLDS MAX", "worlds_max"),
                    ("DRAINING", "draining"),
                    ("ROLES", "roles"),
                    ("ADDRESS", "address"),
                ];
                server.list_all(out, &server.of("workers"), &columns).await
            }
            Self::Pin { server, world, worker, priority } => {
                let form = json!({ "worker": worker, "priority": priority });
                let path = server.of(&format!("worlds/{}/assignment", escape(&world)));
                server.json(Method::PUT, &path, Some(&form)).await.map(drop)
            }
            Self::Unpin { server, world } => server
                .json(Method::DELETE, &server.of(&format!("worlds/{}/assignment", escape(&world))), None)
                .await
                .map(drop),
        }
    }
}
