//! `mundi token`: over the API, or on a data folder that no server has open.

use super::{
    client::Server,
    exit::{Failed, Outcome},
    output::{Out, print},
};
use clap::Subcommand;
use mundi_server::{
    api::{NewToken, verbs_of},
    node::{Node, NodeConfig},
    programs::Programs,
};
use mundi_store::protocol::WriteToken;
use reqwest::Method;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(super) enum TokenCommand {
    /// Makes a token, and shows it this once.
    Create {
        #[command(flatten)]
        server: Server,
        /// The first one, for a server that asks for tokens: made on its folder while it does not run.
        #[arg(long)]
        data: Option<PathBuf>,
        /// Of read, send, admin, work.
        #[arg(long, value_delimiter = ',', required = true)]
        can: Vec<String>,
        /// For all universes instead of the one that is named.
        #[arg(long)]
        all_universes: bool,
        #[arg(long, default_value = "")]
        label: String,
    },
    /// Lists tokens, without their secrets.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// From now on a token is not known.
    Revoke {
        #[command(flatten)]
        server: Server,
        id: String,
    },
}

impl TokenCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Create { server, data, can, all_universes, label } => {
                let universe = (!all_universes).then(|| server.universe().to_owned());
                match data {
                    Some(folder) => print(&on_folder(&folder, universe.as_deref(), &can, label).await?),
                    None => {
                        let form = json!({ "universe": universe, "can": can, "label": label });
                        out.made(&server.post("/v1/tokens", &form).await?, "token")
                    }
                }
            }
            Self::List { server } => {
                let columns = [
                    ("ID", "id"),
                    ("UNIVERSE", "universe"),
                    ("CAN", "can"),
                    ("LABEL", "label"),
                    ("SINCE", "created_at_ns"),
                ];
                server.list_all(out, "/v1/tokens", &columns).await
            }
            Self::Revoke { server, id } => {
                server.json(Method::DELETE, &format!("/v1/tokens/{id}"), None).await.map(drop)
            }
        }
    }
}

async fn on_folder(folder: &Path, universe: Option<&str>, can: &[String], label: String) -> Outcome<String> {
    let verbs = verbs_of(can).map_err(|problem| Failed::new(problem.code, problem.detail))?;
    let config = NodeConfig { roles: [].into(), ..NodeConfig::default() };
    let node = Node::open(folder, Programs::new(), config).await.map_err(|error| Failed::coded(&error))?;
    let universe = match universe {
        Some(name) => Some(node.create_universe(name).await.map_err(|error| Failed::coded(&error))?.0.id()),
        None => None,
    };
    let NewToken { text, id, record } = NewToken::new(node.plane(), universe, verbs, label);
    let write = WriteToken { id, record: Some(record) };
    let written = mundi_store::run(&node.plane().engine, &*node.plane().clock, &write).await;
    written.map_err(|error| Failed::coded(&error))?;
    node.stop().await;
    Ok(text)
}
