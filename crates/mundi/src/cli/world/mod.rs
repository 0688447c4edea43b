//! `mundi world`. One file per group of verbs.

mod bulk;
mod bundle;
mod child;
mod events;
mod filters;
mod journal;
mod life;
mod logs;
mod look;
mod step;
mod verify;

pub(super) use journal::brief;
pub(super) use life::confirm;
pub(super) use verify::{diverging_functions, offline, online, open_quietly};

use super::{
    client::{Paging, Server, escape, json_of},
    exit::{Failed, Outcome},
    output::Out,
};
use clap::{Args, Subcommand};
use mundi_model::{Code, WorldId};
use reqwest::Method;
use serde_json::Value;

/// A world on a server.
#[derive(Args)]
pub(crate) struct World {
    #[command(flatten)]
    server: Server,
    /// The id or the name of a world.
    world: String,
}

impl World {
    fn path(&self, rest: &str) -> String {
        self.server.of(&format!("worlds/{}{rest}", escape(&self.world)))
    }

    async fn get(&self, rest: &str) -> Outcome<Value> {
        self.server.get(&self.path(rest)).await.map_err(|failed| self.told(failed))
    }

    /// All of a list of it.
    pub(super) async fn pages(&self, rest: &str, paging: &Paging) -> Outcome<(Vec<Value>, Value)> {
        self.server.pages(&self.path(rest), &[], paging).await.map_err(|failed| self.told(failed))
    }

    /// An answer in another form than JSON.
    pub(super) async fn text(&self, rest: &str, accept: &str) -> Outcome<String> {
        let answer = self.server.stream(&self.path(rest), accept).await.map_err(|failed| self.told(failed))?;
        Ok(answer.text().await?)
    }

    async fn post(&self, rest: &str, body: &Value) -> Outcome<Value> {
        self.server.post(&self.path(rest), body).await.map_err(|failed| self.told(failed))
    }

    /// A request that sends an event; with a key it is accepted at most once.
    async fn give(&self, rest: &str, key: Option<&str>, value: &Value) -> Outcome<Value> {
        let key: Vec<_> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
        let given = self.server.ask_with(Method::POST, &self.path(rest), &key, Some(value)).await;
        json_of(given.map_err(|failed| self.told(failed))?).await
    }

    /// Adds the name to an error that mentions only the id.
    fn told(&self, failed: Failed) -> Failed {
        if failed.code != Some(Code::WorldNotFound) || self.world.parse::<WorldId>().is_ok() {
            return failed;
        }
        let detail = format!("there is no world `{}` in the universe `{}`", self.world, self.server.universe());
        Failed::new(Code::WorldNotFound, detail)
    }
}

#[derive(Subcommand)]
pub(super) enum WorldCommand {
    /// Archives a world, or all that filters name: they accept no input until they are unarchived.
    Archive(bulk::Bulk),
    /// The budget of a world's children.
    #[command(subcommand)]
    Budget(child::BudgetCommand),
    /// Sends an event and prints the reply.
    Call(events::Call),
    /// Prints cells, now or at a height.
    Cells(look::Cells),
    /// Runs that a world dispatches: processes and external workers.
    #[command(subcommand)]
    Child(child::ChildCommand),
    /// Counts worlds, by state.
    Count(filters::Count),
    /// Creates a world.
    Create(life::Create),
    /// Deletes a world, or all that filters name; their ids and names are never reused.
    Delete(bulk::Bulk),
    /// Shows the state of a world.
    Describe(World),
    /// Prints the cells that differ between two worlds, or two heights of one; exit code 9 if any do.
    Diff(look::Diff),
    /// Writes a world with its history to one file that can be verified.
    Export(bundle::Export),
    /// Forks a world at a height of its past.
    Fork(life::Fork),
    /// Imports a world from a file, after verifying it.
    Import(bundle::Import),
    /// Prints records; with --follow also new ones.
    Journal(journal::Journal),
    /// Sets and removes labels: `customer=17`, `customer-`.
    Label(filters::Label),
    /// Shows ancestors and forks.
    Lineage(World),
    /// Lists worlds.
    List(filters::List),
    /// Prints the last log lines of a world's program.
    Logs(logs::Logs),
    /// Pauses a world, or all that filters name: they process only commands, and inboxes keep incoming events.
    Pause(bulk::Bulk),
    /// Runs a query of the program, now or at a height.
    Query(events::Query),
    /// Rehearses an upgrade: runs the recorded history with another program, and prints the first divergence.
    Replay(verify::Replay),
    /// Waits for the reply to an earlier call, and prints it.
    Reply(events::Reply),
    /// Resumes a paused world or releases one on hold, or all that filters name.
    Resume(bulk::Bulk),
    /// Runs the failed input of a world on hold again; the journal records the token's name.
    Retry(World),
    /// Sends an event: durable when this returns.
    Send(events::Send),
    /// Skips the failed input of a world on hold; the journal records the token's name.
    Skip(World),
    /// Takes a snapshot and makes it the baseline.
    Snapshot(World),
    /// Lists the snapshots of a world, the newest first.
    Snapshots(look::Snapshots),
    /// Shows what a record changed, and what was open after it.
    Step(step::Step),
    /// Unarchives a world, or all that filters name.
    Unarchive(bulk::Bulk),
    /// Switches a world to another program, after a rehearsal.
    Upgrade(life::Upgrade),
    /// Replays a world from genesis and from its baseline, and proves chain, digests, receipts and roots.
    Verify(verify::Verify),
    /// Says why a world is not moving, and what to do about it.
    Why(World),
}

impl WorldCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Archive(bulk) => bulk.run(out, "archive").await,
            Self::Budget(budget) => budget.run(out).await,
            Self::Call(call) => call.run(out).await,
            Self::Cells(cells) => cells.run(out).await,
            Self::Child(child) => child.run(out).await,
            Self::Count(count) => count.run(out).await,
            Self::Create(create) => create.run(out).await,
            Self::Delete(bulk) => bulk.run(out, "delete").await,
            Self::Describe(of) => out.object(&of.get("").await?),
            Self::Diff(diff) => diff.run(out).await,
            Self::Export(export) => export.run(out).await,
            Self::Fork(fork) => fork.run(out).await,
            Self::Import(import) => import.run(out).await,
            Self::Journal(journal) => journal.run(out).await,
            Self::Label(label) => label.run(out).await,
            Self::Lineage(of) => look::lineage(&of, out).await,
            Self::List(list) => list.run(out).await,
            Self::Logs(logs) => logs.run(out).await,
            Self::Pause(bulk) => bulk.run(out, "pause").await,
            Self::Query(query) => query.run(out).await,
            Self::Replay(replay) => replay.run(out).await,
            Self::Reply(reply) => reply.run(out).await,
            Self::Resume(bulk) => bulk.run(out, "resume").await,
            Self::Retry(of) => out.object(&of.post("/retry", &Value::Null).await?),
            Self::Send(send) => send.run(out).await,
            Self::Skip(of) => out.object(&of.post("/skip", &Value::Null).await?),
            Self::Snapshot(of) => {
                let taken = of.post("/snapshots", &Value::Null).await?;
                // Programs get the whole document; people what was done.
                let done = taken.get("done").filter(|done| !out.is_json() && done.is_object());
                out.object(done.unwrap_or(&taken))
            }
            Self::Snapshots(snapshots) => snapshots.run(out).await,
            Self::Step(step) => step.run(out).await,
            Self::Unarchive(bulk) => bulk.run(out, "unarchive").await,
            Self::Upgrade(upgrade) => upgrade.run(out).await,
            Self::Verify(verify) => verify.run(out).await,
            Self::Why(of) => filters::why(&of, out).await,
        }
    }
}

/// The ids of all worlds of the universe that are in a state, with their names.
pub(super) async fn worlds_in(server: &Server, state: &str) -> Outcome<Vec<(String, Value)>> {
    let filters = [("state", Some(state.to_owned()))];
    let (worlds, _) = server.pages(&server.of("worlds"), &filters, &Paging::all()).await?;
    Ok(worlds.iter().filter_map(|world| Some((world["world"].as_str()?.to_owned(), world["name"].clone()))).collect())
}
