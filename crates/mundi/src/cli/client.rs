//! A small client of the API.

use clap::Args;
use reqwest::{Method, Response};
use serde_json::Value;
use std::error::Error;

/// Where the server is, and as whom it is spoken to.
#[derive(Args, Clone)]
pub(crate) struct Server {
    #[arg(long, env = "MUNDI_URL", default_value = "http://127.0.0.1:7600")]
    url: String,
    #[arg(long, env = "MUNDI_TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[arg(long, env = "MUNDI_UNIVERSE", default_value = "default")]
    universe: String,
}

pub(crate) type Answer<T> = Result<T, Box<dyn Error + Send + Sync>>;

impl Server {
    pub(crate) fn universe(&self) -> &str {
        &self.universe
    }

    /// The address of something in the universe.
    pub(crate) fn of(&self, path: &str) -> String {
        format!("/v1/u/{}/{path}", self.universe)
    }

    /// Sends a request; a refusal becomes an error with its code.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Answer<Response> {
        // Whoever came first has chosen one that does as well.
        let _before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut request = client.request(method, format!("{}{path}", self.url.trim_end_matches('/')));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let sent = request.send().await;
        let response = sent.map_err(|error| format!("{} does not answer: {error}", self.url))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let problem: Value = serde_json::from_slice(&response.bytes().await?).unwrap_or_default();
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        Err(match problem["code"].as_str() {
            Some(code) => format!("{code}: {}", text("detail")).into(),
            None => format!("the server answered {status}").into(),
        })
    }

    /// The same, for an answer in JSON; of no answer, null.
    pub(crate) async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Answer<Value> {
        let bytes = self.ask(method, path, body).await?.bytes().await?;
        Ok(if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? })
    }
}
