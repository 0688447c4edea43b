//! How worlds come, go, rest and change.

use super::{
    super::{
        client::{Listing, Server},
        exit::{Failed, Outcome},
        output::Out,
    },
    World,
};
use clap::Args;
use mundi_model::Code;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    fmt::Display,
    io::IsTerminal,
    path::{Path, PathBuf},
};

#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    server: Server,
    /// A name, or an id; drawn at random if it is not given.
    world: Option<String>,
    /// A program by name: `todo`, the newest version, or `todo@2` (`mundi program list`).
    #[arg(long, required_unless_present_any = ["manifest", "seed"], conflicts_with_all = ["manifest", "seed"])]
    program: Option<String>,
    /// Or the hash of a manifest.
    #[arg(long, conflicts_with = "seed")]
    manifest: Option<String>,
    /// Or a world, with whose newest snapshot it begins; it repeats none of its effects.
    #[arg(long, value_name = "WORLD")]
    seed: Option<String>,
    /// The height of the seed's snapshot, if not the newest: `mundi world snapshots`.
    #[arg(long, value_name = "HEIGHT", requires = "seed")]
    snapshot: Option<u64>,
}

impl Create {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { server, world, program, manifest, seed, snapshot } = self;
        let form = match (manifest, seed) {
            (Some(manifest), _) => json!({ "world": world, "manifest": manifest }),
            (None, Some(seed)) => json!({ "world": world, "seed": { "world": seed, "height": snapshot } }),
            (None, None) => json!({ "world": world, "program": program }),
        };
        out.made(&server.post(&server.of("worlds"), &form).await?, "world")
    }
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    listing: Listing,
    /// Only those that are live, archived, deleting or deleted.
    #[arg(long)]
    state: Option<String>,
    /// Only forks of this world.
    #[arg(long)]
    parent: Option<String>,
    /// Only those that this worker runs; `anybody` or `nobody`.
    #[arg(long)]
    held_by: Option<String>,
    /// Only those that are on hold because their turns, or a step, failed.
    #[arg(long)]
    on_hold: bool,
    /// Only those of which a step failed since they were last upgraded, resumed, retried or skipped.
    #[arg(long)]
    failed: bool,
    /// Only those that run this program: `todo` for all of its versions, `todo@2`, or the hash of a manifest.
    #[arg(long)]
    program: Option<String>,
}

impl List {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { listing, state, parent, held_by, on_hold, failed, program } = self;
        let [on_hold, failed] = [on_hold, failed].map(|only| only.then(|| "true".to_owned()));
        let filters = [
            ("state", state),
            ("parent", parent),
            ("held_by", held_by),
            ("on_hold", on_hold),
            ("failed", failed),
            ("program", program),
        ];
        let columns = [
            ("NAME", "name"),
            ("WORLD", "world"),
            ("STATE", "state"),
            ("PROGRAM", "program"),
            ("CREATED", "created_at_ns"),
            ("FIRST", "first_height"),
            ("FAILED", "failures"),
        ];
        listing.show(out, "worlds", &filters, &columns).await
    }
}

#[derive(Args)]
#[command(after_long_help = format!("What becomes of the effects of a fork:\n\n{}", mundi_model::FORK_POLICIES))]
pub(crate) struct Fork {
    #[command(flatten)]
    of: World,
    /// The name or the id of the new one; drawn at random if it is not given.
    child: Option<String>,
    /// It shares all records below this height; at the newest if it is not given.
    #[arg(long)]
    at: Option<u64>,
    /// What becomes of its effects: see the table below. If it is not given: suppress; but sandbox for a fork of a sandbox, and
    /// recorded for one of a recorded fork.
    #[arg(long, value_name = "POLICY")]
    effects: Option<String>,
    /// Of a sandbox: a JSON file with what answers effects for which its parent has no receipt:
    /// `[{"kind": "http.request", "params": {"url": "…"}, "status": "ok", "payload": {…}}]`, with `nth` for one effect only.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// The name of another program, which the branch runs from its first input on.
    #[arg(long, conflicts_with = "manifest")]
    program: Option<String>,
    /// Or the hash of its manifest.
    #[arg(long)]
    manifest: Option<String>,
}

impl Fork {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, child, at, effects, answers, program, manifest } = self;
        let answers = answers.as_deref().map(read_answers).transpose()?;
        let form = json!({
            "world": child, "at": at, "effects": effects, "answers": answers, "program": program, "manifest": manifest,
        });
        out.made(&of.post("/fork", &form).await?, "world")
    }
}

/// The scripted answers in a file: the server says what is wrong with them, and this only what is not JSON.
fn read_answers(file: &Path) -> Outcome<Value> {
    let named = |error: &dyn Display| Failed::new(Code::AnswersInvalid, format!("{}: {error}", file.display()));
    let text = std::fs::read(file).map_err(|error| named(&error))?;
    mundi_model::json::read(&text).map_err(|error| named(&error))
}

#[derive(Args)]
pub(crate) struct Upgrade {
    #[command(flatten)]
    of: World,
    /// A program by name: `todo`, the newest version, or `todo@2`.
    #[arg(long, required_unless_present = "manifest", conflicts_with = "manifest")]
    program: Option<String>,
    /// Or the hash of a manifest.
    #[arg(long)]
    manifest: Option<String>,
    /// Insists although a rehearsal diverges.
    #[arg(long)]
    force: bool,
}

impl Upgrade {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, program, manifest, force } = self;
        let form = json!({ "program": program, "manifest": manifest, "forced": force });
        out.object(&of.post("/upgrade", &form).await?)
    }
}

/// A command that answers nothing worth printing.
pub(super) async fn done(of: &World, verb: &str) -> Outcome {
    of.post(verb, &Value::Null).await.map(drop)
}

#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    of: World,
    /// Asks nothing.
    #[arg(long, short)]
    yes: bool,
}

impl Delete {
    pub(super) async fn run(self) -> Outcome {
        let Self { of, yes } = self;
        if !yes {
            let found = of.get("").await?;
            let records = found["head"].as_u64().unwrap_or(0);
            confirm(&format!("delete `{}` ({records} records) for good?", of.world))?;
        }
        let deleted = of.server.ask(Method::DELETE, &of.path(""), None).await;
        deleted.map(drop).map_err(|failed| of.told(failed))
    }
}

/// Asks whoever sits at the terminal. Where nobody does, nobody can say yes.
fn confirm(question: &str) -> Outcome {
    if !std::io::stdin().is_terminal() {
        return Err(Failed::usage(format!("{question} Say so with --yes")));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failed::plain("nothing was deleted")),
    }
}
