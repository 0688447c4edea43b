//! `mundi effect`: what worlds asked of the outside and has no receipt yet.

use super::{
    client::{Listing, Server, value},
    exit::Outcome,
    output::Out,
};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum EffectCommand {
    /// Answers an open effect by hand; who did it is on record.
    Answer {
        #[command(flatten)]
        server: Server,
        /// Its place (`e_…`) or its intent.
        effect: String,
        #[arg(long, value_parser = ["ok", "error", "timeout"])]
        status: String,
        /// JSON that the program gets with the receipt; null if it is not given.
        payload: Option<String>,
        /// The world of the intent: finds one that is in no queue, such as a dead letter's.
        #[arg(long)]
        world: Option<String>,
    },
    /// Ends an effect with an error receipt.
    Cancel {
        #[command(flatten)]
        server: Server,
        effect: String,
        #[arg(long)]
        reason: Option<String>,
    },
    /// All that is known about an effect.
    Describe {
        #[command(flatten)]
        server: Server,
        effect: String,
    },
    /// Lists effects that are under way.
    List {
        #[command(flatten)]
        listing: Listing,
        #[arg(long)]
        world: Option<String>,
        #[arg(long)]
        kind: Option<String>,
    },
    /// Tries an effect again now, instead of later.
    Retry {
        #[command(flatten)]
        server: Server,
        effect: String,
    },
}

impl EffectCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Answer { server, effect, status, payload, world } => {
                let path = server.of(&format!("effects/answer/{effect}"));
                let form = json!({ "status": status, "payload": value(payload)?, "world": world });
                out.object(&server.post(&path, &form).await?)
            }
            Self::Cancel { server, effect, reason } => {
                let path = server.of(&format!("effects/cancel/{effect}"));
                out.object(&server.post(&path, &json!({ "reason": reason })).await?)
            }
            Self::Describe { server, effect } => {
                out.object(&server.get(&server.of(&format!("effects/{effect}"))).await?)
            }
            Self::List { listing, world, kind } => {
                let columns = [
                    ("EFFECT", "effect"),
                    ("STAGE", "stage"),
                    ("KIND", "kind"),
                    ("WORLD", "world"),
                    ("ATTEMPTS", "attempts"),
                    ("LAST FAILURE", "last_failure"),
                ];
                listing.show(out, "effects", &[("world", world), ("kind", kind)], &columns).await
            }
            Self::Retry { server, effect } => {
                out.object(&server.post(&server.of(&format!("effects/retry/{effect}")), &Value::Null).await?)
            }
        }
    }
}
