//! `mundi mcp`: an MCP server on standard input and output, for assistants. It asks a server over the API.

use super::{
    client::Server,
    exit::{Failed, Outcome},
};
use clap::Args;
use futures_util::{FutureExt, future::BoxFuture};
use mundi_client::{Error, Http};
use mundi_server::mcp::{Ask, Backend, Refusal, Rights, Session, serve_stdio};
use reqwest::Method;
use serde_json::Value;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Mcp {
    #[command(flatten)]
    server: Server,
    /// Rights of the assistant besides reading: some of send, admin. The token must allow them, too.
    #[arg(long, value_delimiter = ',')]
    allow: Vec<String>,
}

impl Mcp {
    pub(super) async fn run(self) -> Outcome {
        let rights = Rights::of_names(self.allow.iter().map(String::as_str))
            .map_err(|unknown| Failed::usage(format!("--allow: `{unknown}` is none of send, admin")))?;
        let universe = self.server.universe().to_owned();
        let backend = Arc::new(OverHttp(self.server.client()));
        Ok(serve_stdio(Session { backend, rights, universe }).await?)
    }
}

struct OverHttp(Http);

impl Backend for OverHttp {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Value, Refusal>> {
        async move {
            let method = match ask.method {
                "GET" => Method::GET,
                "DELETE" => Method::DELETE,
                _ => Method::POST,
            };
            let mut request = self.0.request(method, &ask.path);
            if let Some(key) = ask.idempotency_key {
                request = request.header("idempotency-key", key);
            }
            if let Some(body) = ask.body {
                request = request.header("content-type", "application/json").body(body.to_string());
            }
            let bytes = match self.0.send(request).await {
                Ok(answer) => answer.bytes().await.map_err(|error| broken_off(&error))?,
                Err(error) => return Err(refusal(error)),
            };
            Ok(serde_json::from_slice(&bytes).unwrap_or_default())
        }
        .boxed()
    }
}

fn refusal(error: Error) -> Refusal {
    let call = error.call().map(str::to_owned);
    Refusal { code: error.code, detail: error.detail, hint: error.hint, call }
}

fn broken_off(error: &reqwest::Error) -> Refusal {
    let hint = "Ask again: the connection broke while the answer arrived.".to_owned();
    Refusal { code: "UNREACHABLE".to_owned(), detail: error.to_string(), hint, call: None }
}
