//! `mundi universe list` and `create`; `export` and `import` stand in `universe.rs`.

use super::{client::Server, exit::Outcome, output::Out, universe::MoveCommand};
use clap::Subcommand;
use serde_json::json;

#[derive(Subcommand)]
pub(super) enum UniversesCommand {
    #[command(flatten)]
    Move(MoveCommand),
    /// Makes a universe. Asked again for the same name, it answers the same.
    Create {
        #[command(flatten)]
        server: Server,
        name: String,
    },
    /// Lists the universes that the caller may see.
    List {
        #[command(flatten)]
        server: Server,
    },
}

impl UniversesCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Move(command) => command.run(out).await,
            Self::Create { server, name } => {
                out.made(&server.post("/v1/universes", &json!({ "name": name })).await?, "universe")
            }
            Self::List { server } => {
                server.list_all(out, "/v1/universes", &[("NAME", "name"), ("UNIVERSE", "universe")]).await
            }
        }
    }
}
