//! `mundi effect`: open effects of worlds.

use super::{
    client::{Listing, Server, escape, value},
    exit::Outcome,
    output::Out,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum EffectCommand {
    /// Answers an open effect as an operator; the journal records the token's name.
    Answer {
        #[command(flatten)]
        server: Server,
        /// Its intent (`i_…`), or its queue position (`e_…`).
        effect: String,
        /// How the effect ended.
        #[arg(long, value_parser = ["ok", "error", "timeout"])]
        status: String,
        /// The payload of the receipt: JSON, anything else is a string; null by default.
        #[arg(allow_negative_numbers = true)]
        payload: Option<String>,
        /// The world of the intent: also finds one that is in no queue, such as a dead letter's.
        #[arg(long)]
        world: Option<String>,
    },
    /// Cancels an open effect, or a dead letter, with an error receipt.
    Cancel {
        #[command(flatten)]
        of: Effect,
        /// The reason in the receipt.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Shows an effect: its stage, its attempts, and its receipt.
    Describe {
        #[command(flatten)]
        of: Effect,
    },
    /// Lists open effects. One that has ended is in the journal of its world: `mundi world journal`, `mundi effect describe --world`.
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only those of this world.
        #[arg(long)]
        world: Option<String>,
        /// Only those of this kind, such as `http.request`.
        #[arg(long)]
        kind: Option<String>,
        /// Only those that were never tried, that wait for their next attempt, or that are carried out.
        #[arg(long, value_parser = ["pending", "waiting", "claimed"])]
        stage: Option<String>,
        /// By age or by attempts, among the first 10,000; by default in the order of the queue.
        #[arg(long, value_parser = ["oldest", "newest", "attempts"])]
        sort: Option<String>,
    },
    /// Starts the next attempt of a waiting effect, or of a dead letter, now.
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
    /// Its intent (`i_…`), which never changes; or its queue position (`e_…`).
    effect: String,
    /// Its world. Required for an effect that has ended: it is found in the journal of its world only.
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
                let path = server.of(&format!("effects/answer/{}", escape(&effect)));
                let form = json!({ "status": status, "payload": value(payload)?, "world": world });
                out.object(&server.post(&path, &form).await?)
            }
            Self::Cancel { of, reason } => {
                let path = of.server.of(&format!("effects/cancel/{}", escape(&of.effect)));
                out.object(&of.server.post(&path, &json!({ "reason": reason, "world": of.world })).await?)
            }
            Self::Describe { of } => describe(out, &of.server.get(&of.path("")).await?),
            Self::List { listing, world, kind, stage, sort } => {
                let columns = [
                    ("EFFECT", "effect"),
                    ("STAGE", "stage"),
                    ("KIND", "kind"),
                    ("NAME", "world_name"),
                    ("WORLD", "world"),
                    ("ATTEMPTS", "attempts"),
                    ("LAST FAILURE", "failure"),
                ];
                let filters = [("world", world), ("kind", kind), ("stage", stage), ("sort", sort)];
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
