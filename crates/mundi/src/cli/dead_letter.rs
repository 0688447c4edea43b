//! `mundi dead-letter`: what could not be done, to look at, try again or drop.

use super::{
    client::{Listing, Server},
    exit::{Failed, Outcome},
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
        /// As `mundi dead-letter list` names it.
        letter: String,
    },
    /// Drops letters for good.
    Drop(Chosen),
    /// Lists letters by queue, the oldest first.
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only those of effects, timers, mailboxes or inboxes.
        #[arg(long)]
        queue: Option<String>,
        /// Only those of this world.
        #[arg(long)]
        world: Option<String>,
    },
    /// Puts letters back into their queue, with their attempts restored.
    Replay(Chosen),
}

/// Letters by name, or all of a queue that fit.
#[derive(Args)]
pub(super) struct Chosen {
    #[command(flatten)]
    server: Server,
    /// As `mundi dead-letter list` names them.
    #[arg(required_unless_present = "queue")]
    letters: Vec<String>,
    /// All of this queue that fit: effects, timers, mailboxes or inboxes.
    #[arg(long, conflicts_with = "letters")]
    queue: Option<String>,
    /// Only those of this world.
    #[arg(long, requires = "queue")]
    world: Option<String>,
    /// Only those that failed with this code.
    #[arg(long, requires = "queue")]
    code: Option<String>,
}

impl Chosen {
    async fn run(self, out: Out, action: &str) -> Outcome {
        let Self { server, letters, queue, world, code } = self;
        let letters = (!letters.is_empty()).then_some(letters);
        let form = json!({ "action": action, "queue": queue, "world": world, "code": code, "letters": letters });
        let done = server.post(&server.of("dead-letters"), &form).await?;
        out.object(&done)?;
        if done["more"] == true {
            eprintln!("{}", out.dim("there are more: run it again"));
        }
        match done["refused"].as_array().map_or(0, Vec::len) {
            0 => Ok(()),
            refused => Err(Failed::plain(format!("letters that were refused: {refused}"))),
        }
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
