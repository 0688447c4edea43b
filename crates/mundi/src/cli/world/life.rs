//! How worlds come, go, rest and change.

use super::{
    super::{
        client::{Listing, Server},
        exit::Outcome,
        output::Out,
    },
    World,
};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    server: Server,
    /// A name, or an id; drawn at random if it is not given.
    world: Option<String>,
    /// The name of a program: `mundi manifest list`.
    #[arg(long, default_value = "counter", conflicts_with = "manifest")]
    program: String,
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
}

impl List {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { listing, state, parent, held_by, on_hold, failed } = self;
        let [on_hold, failed] = [on_hold, failed].map(|only| only.then(|| "true".to_owned()));
        let filters =
            [("state", state), ("parent", parent), ("held_by", held_by), ("on_hold", on_hold), ("failed", failed)];
        let columns = [
            ("WORLD", "world"),
            ("STATE", "state"),
            ("CREATED", "created_at_ns"),
            ("FIRST", "first_height"),
            ("FAILED", "failures"),
        ];
        listing.show(out, "worlds", &filters, &columns).await
    }
}

#[derive(Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    of: World,
    /// The name or the id of the new one; drawn at random if it is not given.
    child: Option<String>,
    /// It shares all records below this height; at the newest if it is not given.
    #[arg(long)]
    at: Option<u64>,
    /// What becomes of open effects: suppress, recorded or live.
    #[arg(long, default_value = "suppress")]
    effects: String,
    /// The name of another program, which the branch runs from its first input on.
    #[arg(long, conflicts_with = "manifest")]
    program: Option<String>,
    /// Or the hash of its manifest.
    #[arg(long)]
    manifest: Option<String>,
}

impl Fork {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, child, at, effects, program, manifest } = self;
        let form = json!({ "world": child, "at": at, "effects": effects, "program": program, "manifest": manifest });
        out.made(&of.post("/fork", &form).await?, "world")
    }
}

#[derive(Args)]
pub(crate) struct Upgrade {
    #[command(flatten)]
    of: World,
    #[arg(long, required_unless_present = "manifest", conflicts_with = "manifest")]
    program: Option<String>,
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

pub(super) async fn delete(of: &World) -> Outcome {
    of.server.ask(Method::DELETE, &of.path(""), None).await.map(drop)
}
