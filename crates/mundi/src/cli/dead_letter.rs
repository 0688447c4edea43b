//! `mundi dead-letter`: what could not be done, to look at, try again or drop.

use super::{
    client::{Listing, Server},
    exit::Outcome,
    output::Out,
};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

#[derive(Subcommand)]
pub(super) enum DeadLetterCommand {
    /// One letter, with what it carries.
    Describe {
        #[command(flatten)]
        server: Server,
        letter: String,
    },
    /// Drops letters for good.
    Drop(Chosen),
    /// Lists letters, the oldest first.
    List {
        #[command(flatten)]
        listing: Listing,
        /// Of effects, timers, mailboxes, inboxes.
        #[arg(long)]
        queue: Option<String>,
        #[arg(long)]
        world: Option<String>,
    },
    /// Puts letters back into their queue.
    Replay(Chosen),
}

/// Letters by name, or all of a queue that fit.
#[derive(Args)]
pub(super) struct Chosen {
    #[command(flatten)]
    server: Server,
    letters: Vec<String>,
    /// Of effects, timers, mailboxes, inboxes.
    #[arg(long, default_value = "effects")]
    queue: String,
    #[arg(long)]
    world: Option<String>,
    /// Only those that failed with this code.
    #[arg(long)]
    code: Option<String>,
}

impl Chosen {
    async fn run(self, out: Out, action: &str) -> Outcome {
        let Self { server, letters, queue, world, code } = self;
        let letters = (!letters.is_empty()).then_some(letters);
        let form = json!({ "action": action, "queue": queue, "world": world, "code": code, "letters": letters });
        out.object(&server.post(&server.of("dead-letters"), &form).await?)
    }
}

impl DeadLetterCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Describe { server, letter } => {
                out.object(&server.json(Method::GET, &server.of(&format!("dead-letters/{letter}")), None).await?)
            }
            Self::Drop(chosen) => chosen.run(out, "drop").await,
            Self::List { listing, queue, world } => {
                let columns =
                    [("LETTER", "letter"), ("WORLD", "world"), ("CODE", "code"), ("REASON", "reason"), ("AT", "at_ns")];
                listing.show(out, "dead-letters", &[("queue", queue), ("world", world)], &columns).await
            }
            Self::Replay(chosen) => chosen.run(out, "replay").await,
        }
    }
}
