//! `mundi timer`: what worlds will be told, and when.

use super::{client::Listing, exit::Outcome, output::Out};
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum TimerCommand {
    /// Lists pending timers.
    List {
        #[command(flatten)]
        listing: Listing,
        #[arg(long)]
        world: Option<String>,
    },
}

impl TimerCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self::List { listing, world } = self;
        let columns = [("TIMER", "timer"), ("WORLD", "world"), ("DUE", "deliver_at_ns"), ("ATTEMPTS", "attempts")];
        listing.show(out, "timers", &[("world", world)], &columns).await
    }
}
