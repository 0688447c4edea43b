//! `mundi lease`: which worker holds which world.

use super::{client::Listing, exit::Outcome, output::Out};
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum LeaseCommand {
    /// Lists held leases.
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only those of this worker.
        #[arg(long)]
        worker: Option<String>,
    },
}

impl LeaseCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self::List { listing, worker } = self;
        let columns = [
            ("NAME", "world_name"),
            ("WORLD", "world"),
            ("HOLDER", "holder"),
            ("EPOCH", "epoch"),
            ("UNTIL", "expires_at_ns"),
        ];
        listing.show(out, "leases", &[("worker", worker)], &columns).await
    }
}
