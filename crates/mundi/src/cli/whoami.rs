//! `mundi whoami`: what the token allows.

use super::{client::Server, exit::Outcome, output::Out};
use clap::Args;

#[derive(Args)]
pub(super) struct Whoami {
    #[command(flatten)]
    server: Server,
}

impl Whoami {
    pub(super) async fn run(self, out: Out) -> Outcome {
        out.object(&self.server.get("/v1/whoami").await?)
    }
}
