//! `mundi timer`: what worlds will be told, and when.

use super::{
    client::{Paging, Server},
    exit::Outcome,
    output::Out,
};
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum TimerCommand {
    /// Lists pending timers.
    List {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        paging: Paging,
        #[arg(long)]
        world: Option<String>,
    },
}

impl TimerCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self::List { server, paging, world } = self;
        let columns = [("TIMER", "timer"), ("WORLD", "world"), ("DUE", "deliver_at_ns"), ("ATTEMPTS", "attempts")];
        server.list(out, &server.of("timers"), &[("world", world)], &paging, &columns).await
    }
}
