//! `mundi token`: over the API, or on a data folder that no server has open.

use super::{
    Outcome,
    client::{Answer, Server},
    print,
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
    pub(super) async fn run(self) -> Outcome {
        match self {
            Self::Create { server, data, can, all_universes, label } => {
                let universe = (!all_universes).then(|| server.universe().to_owned());
                let text = match data {
                    Some(folder) => on_folder(&folder, universe.as_deref(), &can, label).await?,
                    None => {
                        let form = json!({ "universe": universe, "can": can, "label": label });
                        let made = server.json(Method::POST, "/v1/tokens", Some(&form)).await?;
                        made["token"].as_str().unwrap_or_default().to_owned()
                    }
                };
                print(&text);
            }
            Self::List { server } => print(&server.json(Method::GET, "/v1/tokens", None).await?.to_string()),
            Self::Revoke { server, id } => {
                server.json(Method::DELETE, &format!("/v1/tokens/{id}"), None).await?;
            }
        }
        Ok(())
    }
}

async fn on_folder(folder: &Path, universe: Option<&str>, can: &[String], label: String) -> Answer<String> {
    let verbs = verbs_of(can).map_err(|problem| problem.detail)?;
    let config = NodeConfig { roles: [].into(), ..NodeConfig::default() };
    let node = Node::open(folder, Programs::new(), config).await?;
    let universe = match universe {
        Some(name) => Some(node.create_universe(name).await?.0.id()),
        None => None,
    };
    let NewToken { text, id, record } = NewToken::new(node.plane(), universe, verbs, label);
    mundi_store::run(&node.plane().engine, &*node.plane().clock, &WriteToken { id, record: Some(record) }).await?;
    node.stop().await;
    Ok(text)
}
