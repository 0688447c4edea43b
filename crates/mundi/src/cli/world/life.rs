//! The life cycle of worlds: create, fork, upgrade.

use super::{
    super::{
        client::Server,
        exit::{Failed, Outcome},
        output::Out,
    },
    World,
    filters::labels_of,
};
use clap::Args;
use mundi_model::Code;
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
    /// A name or an id; a random id by default.
    world: Option<String>,
    /// A program by name: `todo`, the newest version, or `todo@2` (`mundi program list`).
    #[arg(long, required_unless_present_any = ["manifest", "seed"], conflicts_with_all = ["manifest", "seed"])]
    program: Option<String>,
    /// Or the hash of a manifest.
    #[arg(long, conflicts_with = "seed")]
    manifest: Option<String>,
    /// Or a world whose newest snapshot is the initial state; its effects are not repeated.
    #[arg(long, value_name = "WORLD")]
    seed: Option<String>,
    /// The height of another snapshot of the seed: `mundi world snapshots`.
    #[arg(long, value_name = "HEIGHT", requires = "seed")]
    snapshot: Option<u64>,
    /// A label by which it can be found. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
}

impl Create {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { server, world, program, manifest, seed, snapshot, label } = self;
        let mut form = match (manifest, seed) {
            (Some(manifest), _) => json!({ "world": world, "manifest": manifest }),
            (None, Some(seed)) => json!({ "world": world, "seed": { "world": seed, "height": snapshot } }),
            (None, None) => json!({ "world": world, "program": program }),
        };
        form["labels"] = labels_of(&label)?;
        out.made(&server.post(&server.of("worlds"), &form).await?, "world")
    }
}

#[derive(Args)]
#[command(after_long_help = format!("What becomes of the effects of a fork:\n\n{}", mundi_model::FORK_POLICIES))]
pub(crate) struct Fork {
    #[command(flatten)]
    of: World,
    /// The name or the id of the fork; by default a name after its parent: `alice-fork-2`.
    child: Option<String>,
    /// The fork shares all records below this height; the newest possible by default.
    #[arg(long)]
    at: Option<u64>,
    /// Or an await of a durable function, FUNCTION/KEY/NUMBER, or its NUMBER in a world with one instance: the fork has not seen its result yet.
    #[arg(long, value_name = "AWAIT", conflicts_with = "at")]
    at_await: Option<String>,
    /// The await ends with this result in the fork, before anything else happens there: JSON.
    #[arg(
        long,
        value_name = "JSON",
        requires = "at_await",
        conflicts_with = "with_error",
        allow_negative_numbers = true
    )]
    with: Option<String>,
    /// Or it fails with this error: `CARD_REFUSED` or `CARD_REFUSED: no money`.
    #[arg(long, value_name = "CODE", requires = "at_await")]
    with_error: Option<String>,
    /// The policy for its effects: see the table below. By default suppress; sandbox for a fork of a sandbox, and
    /// recorded for a fork of a recorded fork.
    #[arg(long, value_name = "POLICY")]
    effects: Option<String>,
    /// For a sandbox: a JSON file with answers to effects for which its parent has no receipt:
    /// `[{"kind": "http.request", "params": {"url": "…"}, "status": "ok", "payload": {…}}]`, with `nth` for one effect only.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// The name of another program for the fork.
    #[arg(long, conflicts_with = "manifest")]
    program: Option<String>,
    /// Or the hash of its manifest.
    #[arg(long)]
    manifest: Option<String>,
    /// A label that it has beside those of its parent, or instead of them. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
}

impl Fork {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, child, at, at_await, with, with_error, effects, answers, program, manifest, label } = self;
        let read = |text: String| match mundi_model::json::read(text.as_bytes()) {
            Ok(result) => Ok(result),
            Err(error) => Err(Failed::new(Code::RequestInvalid, format!("--with: {error}: it is JSON"))),
        };
        let with = with.map(read).transpose()?;
        let with_error = with_error.map(|error| match error.split_once(':') {
            Some((code, reason)) => json!({ "code": code.trim(), "reason": reason.trim() }),
            None => json!({ "code": error }),
        });
        let answers = answers.as_deref().map(read_answers).transpose()?;
        let mut form = json!({
            "world": child, "at": at, "at_await": at_await, "with_error": with_error, "effects": effects,
            "answers": answers, "program": program, "manifest": manifest, "labels": labels_of(&label)?,
        });
        if let Some(with) = with {
            form["with"] = with;
        }
        out.made(&of.post("/fork", &form).await?, "world")
    }
}

/// The scripted answers in a file. Only JSON syntax is checked here; the server checks the rest.
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
    /// Upgrades although the rehearsal diverges.
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

/// Asks for confirmation at the terminal; without a terminal the answer is no.
pub(crate) fn confirm(question: &str) -> Outcome {
    if !std::io::stdin().is_terminal() {
        return Err(Failed::usage(format!("{question} Say so with --yes")));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failed::plain("nothing was done")),
    }
}
