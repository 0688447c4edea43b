//! `mundi universe list`, `create`, `summary`, `usage` and `sweep`; `export` and `import` stand in `universe.rs`, `events` in `universe_events.rs`.

use super::{
    client::Server, exit::Outcome, output::Out, progress::Progress, quotas::QuotasCommand, universe::MoveCommand,
    universe_events::Events,
};
use clap::Subcommand;
use serde_json::{Value, json};
use std::time::Duration;

/// The interval between two polls of a sweep.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Polls of a sweep that no process has begun, before a hint is printed.
const LOOKS_UNTIL_HINT: u32 = 50;

#[derive(Subcommand)]
pub(super) enum UniversesCommand {
    #[command(flatten)]
    Move(MoveCommand),
    /// Creates a universe; idempotent.
    Create {
        #[command(flatten)]
        server: Server,
        /// 1 to 64 of a-z, 0-9 and -.
        name: String,
    },
    /// Prints what changes in the universe, at most one line in a second: worlds, dead_letters, workers, timers.
    Events(Events),
    /// Lists the universes that the caller may see.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Counts worlds by state, effects, timers and dead letters.
    Summary {
        #[command(flatten)]
        server: Server,
    },
    /// Shows the space of worlds, objects and segments, and how much waits for removal.
    Usage {
        #[command(flatten)]
        server: Server,
    },
    /// The quotas of the universe.
    #[command(subcommand)]
    Quotas(QuotasCommand),
    /// Sweeps now and waits for the result: removes objects without a reference after their grace period. A server sweeps by itself, too.
    Sweep {
        #[command(flatten)]
        server: Server,
        /// Prints what would be removed, and removes nothing.
        #[arg(long)]
        dry_run: bool,
        /// Requests the sweep and does not wait.
        #[arg(long)]
        no_wait: bool,
    },
}

impl UniversesCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Move(command) => command.run(out).await,
            Self::Create { server, name } => {
                out.made(&server.post("/v1/universes", &json!({ "name": name })).await?, "universe")
            }
            Self::Events(events) => events.run(out).await,
            Self::Summary { server } => out.object(&server.get(&server.of("summary")).await?),
            Self::Usage { server } => out.object(&server.get(&server.of("usage")).await?),
            Self::Quotas(command) => command.run(out).await,
            Self::Sweep { server, dry_run, no_wait } => {
                let asked = server.post(&server.of("sweep"), &json!({ "dry_run": dry_run })).await?;
                if no_wait {
                    return out.object(&asked);
                }
                let (progress, worlds) = (Progress::default(), |worlds| format!("{worlds} worlds walked"));
                let run = asked["run"].as_u64().unwrap_or(0);
                let ended = progress.during(out, "sweeping", worlds, ended(&server, run, &progress)).await?;
                out.object(&ended)
            }
            Self::List { server } => {
                server.list_all(out, "/v1/universes", &[("NAME", "name"), ("UNIVERSE", "universe")]).await
            }
        }
    }
}

/// The result of a sweep, once it has ended.
async fn ended(server: &Server, run: u64, progress: &Progress) -> Outcome<Value> {
    let mut looks = 0;
    loop {
        let sweep = server.get(&server.of("sweep")).await?;
        if sweep["last"]["run"].as_u64().is_some_and(|last| last >= run) {
            return Ok(sweep["last"].clone());
        }
        looks += 1;
        if looks == LOOKS_UNTIL_HINT && sweep["running"].is_null() {
            eprintln!("nobody has begun it: is there a process with the role `orchestrator`?");
        }
        progress.set(sweep["running"]["worlds"].as_u64().unwrap_or(0));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
