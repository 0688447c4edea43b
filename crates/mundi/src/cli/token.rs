//! `mundi token`: tokens over the API, or in the data folder or database for the first one.

use super::{
    ServerArgs,
    client::{Server, escape},
    exit::{Failed, Outcome},
    output::Out,
    quotas::{QuotaSetting, changed, object_of},
};
use clap::Subcommand;
use mundi_model::Code;
use mundi_server::{
    api::{NewToken, verbs_of},
    config::Config,
    node::{Node, NodeConfig},
    programs::Programs,
};
use mundi_store::protocol::WriteToken;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(super) enum TokenCommand {
    /// Creates a token and prints it once.
    Create {
        #[command(flatten)]
        server: Server,
        /// For the first token: creates it in this data folder, while no server uses it.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// The same in the engine of a configuration; processes that share a database may be running.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Some of read, send, admin, work, metrics.
        #[arg(long, value_delimiter = ',', required = true)]
        can: Vec<String>,
        /// For all universes instead of one.
        #[arg(long)]
        all_universes: bool,
        /// A label; operator's answers are journaled with it.
        #[arg(long, default_value = "")]
        label: String,
        /// A quota, such as `events_per_second_max=100`; may be repeated.
        #[arg(long = "quota", value_name = "NAME=NUMBER")]
        quotas: Vec<QuotaSetting>,
    },
    /// Sets quotas of a token. Others keep their value.
    Quotas {
        #[command(flatten)]
        server: Server,
        /// As `mundi token list` names it: not the secret.
        id: String,
        /// Such as `calls_max=10`, or `calls_max=default` for the server's configuration; may be repeated.
        #[arg(required = true, value_name = "NAME=NUMBER|default")]
        quotas: Vec<QuotaSetting>,
    },
    /// Lists tokens, without their secrets.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Revokes a token.
    Revoke {
        #[command(flatten)]
        server: Server,
        /// The id that `mundi token list` prints, not the secret.
        id: String,
    },
}

impl TokenCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Create { server, data, config, can, all_universes, label, quotas } => {
                let (universe, quotas) = ((!all_universes).then(|| server.universe().to_owned()), object_of(&quotas));
                if data.is_none() && config.is_none() {
                    let form = json!({ "universe": universe, "can": can, "label": label, "quotas": quotas });
                    return out.made(&server.post("/v1/tokens", &form).await?, "token");
                }
                let config = ServerArgs { data, config, bind: None, roles: None, replay_log: None }.load()?;
                out.made(&on_engine(&config, universe.as_deref(), &can, label, quotas).await?, "token")
            }
            Self::Quotas { server, id, quotas } => {
                let tokens = server.get("/v1/tokens").await?;
                let known = tokens.as_array().into_iter().flatten().find(|token| token["id"] == id.as_str());
                let before = known.map_or(Value::Null, |token| token["quotas"].clone());
                let path = format!("/v1/tokens/{}/quotas", escape(&id));
                server.json(Method::PUT, &path, Some(&changed(before, &quotas))).await.map(drop)
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
                server.json(Method::DELETE, &format!("/v1/tokens/{}", escape(&id)), None).await.map(drop)
            }
        }
    }
}

async fn on_engine(
    config: &Config,
    universe: Option<&str>,
    can: &[String],
    label: String,
    quotas: Value,
) -> Outcome<Value> {
    let quotas =
        serde_json::from_value(quotas).map_err(|error| Failed::new(Code::RequestInvalid, error.to_string()))?;
    let verbs = verbs_of(can).map_err(|problem| Failed::new(problem.code, problem.detail))?;
    let no_roles = NodeConfig { roles: [].into(), ..config.node().map_err(|error| Failed::coded(&error))? };
    let node = Node::open_configured_as(config, Programs::new(), no_roles).await;
    let node = node.map_err(|error| Failed::coded(&error))?;
    let universe = match universe {
        Some(name) => Some(node.create_universe(name).await.map_err(|error| Failed::coded(&error))?.0.id()),
        None => None,
    };
    let NewToken { text, id, record } = NewToken::new(node.plane(), universe, verbs, label, quotas);
    let write = WriteToken { id, record: Some(record) };
    let written = mundi_store::run(&node.plane().engine, &*node.plane().clock, &write).await;
    written.map_err(|error| Failed::coded(&error))?;
    node.stop().await;
    Ok(json!({ "id": format!("{id:016x}"), "token": text }))
}
