//! `mundi effect`: what worlds asked of the outside and has no receipt yet.

use super::{
    client::{Listing, Server, escape, value},
    exit::Outcome,
    output::Out,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum EffectCommand {
    /// Answers an open effect by hand; who did it is on record.
    Answer {
        #[command(flatten)]
        server: Server,
        /// Its intent (`i_…`), or its place (`e_…`).
        effect: String,
        /// How the effect ended.
        #[arg(long, value_parser = ["ok", "error", "timeout"])]
        status: String,
        /// JSON that the program gets with the receipt; null if it is not given.
        payload: Option<String>,
        /// The world of the intent: finds one that is in no queue, such as a dead letter's.
        #[arg(long)]
        world: Option<String>,
    },
    /// Ends an effect that is under way, or a dead letter, with an error receipt.
    Cancel {
        #[command(flatten)]
        of: Effect,
        /// Stands in the receipt.
        #[arg(long)]
        reason: Option<String>,
    },
    /// All that is known about an effect: its attempts, and how it ended.
    Describe {
        #[command(flatten)]
        of: Effect,
    },
    /// Lists effects that are under way.
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only those of this world.
        #[arg(long)]
        world: Option<String>,
        /// Only those of this kind, such as `http.request`.
        #[arg(long)]
        kind: Option<String>,
    },
    /// Tries an effect now that waits for its next attempt, or that is a dead letter.
    Retry {
        #[command(flatten)]
        of: Effect,
    },
}

/// An effect on a server.
#[derive(Args)]
pub(super) struct Effect {
    #[command(flatten)]
    server: Server,
    /// Its intent (`i_…`), which stays the same; or its place (`e_…`).
    effect: String,
    /// Its world: finds one that is over in the world's journal.
    #[arg(long)]
    world: Option<String>,
}

impl Effect {
    fn path(&self, verb: &str) -> String {
        let world = self.world.as_ref().map_or_else(String::new, |world| format!("?world={}", escape(world)));
        self.server.of(&format!("effects/{verb}{}{world}", escape(&self.effect)))
    }
}

impl EffectCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Answer { server, effect, status, payload, world } => {
                let path = server.of(&format!("effects/answer/{effect}"));
                let form = json!({ "status": status, "payload": value(payload)?, "world": world });
                out.object(&server.post(&path, &form).await?)
            }
            Self::Cancel { of, reason } => {
                let path = of.server.of(&format!("effects/cancel/{}", escape(&of.effect)));
                out.object(&of.server.post(&path, &json!({ "reason": reason, "world": of.world })).await?)
            }
            Self::Describe { of } => describe(out, &of.server.get(&of.path("")).await?),
            Self::List { listing, world, kind } => {
                let columns = [
                    ("EFFECT", "effect"),
                    ("STAGE", "stage"),
                    ("KIND", "kind"),
                    ("WORLD", "world"),
                    ("ATTEMPTS", "attempts"),
                    ("LAST FAILURE", "failure"),
                ];
                let filters = [("world", world), ("kind", kind)];
                let (mut effects, next) = listing.pages("effects", &filters).await?;
                if !out.is_json() {
                    effects.iter_mut().for_each(|effect| effect["failure"] = failure(effect).into());
                }
                out.rows(&columns, &effects, &next)
            }
            Self::Retry { of } => out.object(&of.server.post(&of.path("retry/"), &Value::Null).await?),
        }
    }
}

/// The newest failure, in one line.
fn failure(effect: &Value) -> Option<String> {
    let code = effect["last_failure"].as_str()?;
    Some(effect["last_reason"].as_str().map_or_else(|| code.to_owned(), |reason| format!("{code}: {reason}")))
}

/// The fields of an effect, and its failed attempts as a table.
fn describe(out: Out, effect: &Value) -> Outcome {
    if out.is_json() {
        return out.object(effect);
    }
    let mut fields = effect.clone();
    let failed = fields["failed"].take();
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|name, _| !["failed", "intent"].contains(&name.as_str()));
    }
    out.object(&fields)?;
    let failed = failed.as_array().map_or(&[][..], Vec::as_slice);
    if failed.is_empty() {
        return Ok(());
    }
    let columns = [
        ("ATTEMPT", "attempt"),
        ("FAILED", "at_ns"),
        ("WORKER", "worker"),
        ("CODE", "code"),
        ("REASON", "reason"),
        ("NEXT", "next_ns"),
    ];
    out.rows(&columns, failed, &Value::Null)
}
