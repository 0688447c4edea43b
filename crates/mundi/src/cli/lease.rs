//! `mundi lease`: who holds which world.

use super::{
    client::{Paging, Server},
    exit::Outcome,
    output::Out,
};
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum LeaseCommand {
    /// Lists the leases that are held.
    List {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        paging: Paging,
        /// Only those of this worker.
        #[arg(long)]
        worker: Option<String>,
    },
}

impl LeaseCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self::List { server, paging, worker } = self;
        let columns = [("WORLD", "world"), ("HOLDER", "holder"), ("EPOCH", "epoch"), ("UNTIL", "expires_at_ns")];
        server.list(out, &server.of("leases"), &[("worker", worker)], &paging, &columns).await
    }
}
