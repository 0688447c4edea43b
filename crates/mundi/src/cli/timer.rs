//! `mundi timer`: pending timers of worlds.

use super::{client::Listing, exit::Outcome, output::Out, world::brief};
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum TimerCommand {
    /// Lists pending timers.
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only those of this world.
        #[arg(long)]
        world: Option<String>,
    },
}

impl TimerCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self::List { listing, world } = self;
        let columns = [
            ("TIMER", "timer"),
            ("NAME", "world_name"),
            ("WORLD", "world"),
            ("DUE", "deliver_at_ns"),
            ("PAYLOAD", "payload"),
        ];
        let (mut timers, next) = listing.pages("timers", &[("world", world)]).await?;
        if !out.is_json() {
            timers.iter_mut().for_each(|timer| timer["payload"] = brief(&timer["payload"]).into());
        }
        out.rows(&columns, &timers, &next)
    }
}
