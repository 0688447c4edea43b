//! `mundi dead-letter`: inspect, replay or drop dead letters.

use super::{
    client::{Listing, Server, escape},
    exit::{Failed, Outcome},
    output::Out,
    world::confirm,
};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

#[derive(Subcommand)]
pub(super) enum DeadLetterCommand {
    /// Shows one dead letter with its content.
    Describe {
        #[command(flatten)]
        server: Server,
        /// The id that `mundi dead-letter list` prints.
        letter: String,
    },
    /// Deletes dead letters.
    Drop {
        #[command(flatten)]
        chosen: Chosen,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
    },
    /// Lists dead letters by queue, the oldest first.
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
    /// Requeues dead letters, with all their attempts.
    Replay(Chosen),
}

/// Dead letters by id, or all of a queue that match.
#[derive(Args)]
pub(super) struct Chosen {
    #[command(flatten)]
    server: Server,
    /// The ids that `mundi dead-letter list` prints.
    #[arg(required_unless_present = "queue")]
    letters: Vec<String>,
    /// All of this queue that match: effects, timers, mailboxes or inboxes.
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
    /// The chosen letters, for people.
    fn named(&self) -> String {
        let fits = [("of", &self.world), ("with", &self.code)];
        let fits = fits.iter().filter_map(|(how, what)| Some(format!(" {how} {}", what.as_ref()?)));
        match &self.queue {
            Some(queue) => format!("all letters of {queue}{}", fits.collect::<String>()),
            None => self.letters.join(", "),
        }
    }

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
            Self::Describe { server, letter } => out.object(
                &server.json(Method::GET, &server.of(&format!("dead-letters/{}", escape(&letter))), None).await?,
            ),
            Self::Drop { chosen, yes } => {
                if !yes {
                    confirm(&format!("drop {} for good?", chosen.named()))?;
                }
                chosen.run(out, "drop").await
            }
            Self::List { listing, queue, world } => {
                let columns = [
                    ("LETTER", "letter"),
                    ("NAME", "world_name"),
                    ("WORLD", "world"),
                    ("CODE", "code"),
                    ("REASON", "reason"),
                    ("AT", "at_ns"),
                ];
                listing.show(out, "dead-letters", &[("queue", queue), ("world", world)], &columns).await
            }
            Self::Replay(chosen) => chosen.run(out, "replay").await,
        }
    }
}
