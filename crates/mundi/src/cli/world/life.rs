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
    /// A program by name: `todo`, the newest version, or `todo@2` (`mundi program list`).
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
    /// Only those that are on hold because their turns failed again and again.
    #[arg(long)]
    on_hold: bool,
    /// Only those that run this program: `todo` for all of its versions, `todo@2`, or the hash of a manifest.
    #[arg(long)]
    program: Option<String>,
}

impl List {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { listing, state, parent, held_by, on_hold, program } = self;
        let on_hold = on_hold.then(|| "true".to_owned());
        let filters =
            [("state", state), ("parent", parent), ("held_by", held_by), ("on_hold", on_hold), ("program", program)];
        let columns = [
            ("WORLD", "world"),
            ("STATE", "state"),
            ("PROGRAM", "program"),
            ("CREATED", "created_at_ns"),
            ("FIRST", "first_height"),
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
}

impl Fork {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, child, at, effects } = self;
        out.made(&of.post("/fork", &json!({ "world": child, "at": at, "effects": effects })).await?, "world")
    }
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

pub(super) async fn delete(of: &World) -> Outcome {
    of.server.ask(Method::DELETE, &of.path(""), None).await.map(drop)
}
