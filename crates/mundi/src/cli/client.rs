//! The client of the API, as commands use it.

use super::{
    exit::{Failed, Outcome},
    output::{Column, Out},
};
use clap::Args;
pub(crate) use mundi_client::escape;
use mundi_client::{Error, Http, Kind};
use mundi_model::{
    Code,
    json::{self, JsonError},
};
use reqwest::{Body, Method, RequestBuilder, Response};
use serde_json::Value;
use std::time::Duration;

/// The server, the token and the universe of a request.
#[derive(Args, Clone)]
pub(crate) struct Server {
    // The heading stands at each of them: one for all would also be that of whatever follows them in a command.
    /// The address of the server.
    #[arg(long, env = "MUNDI_URL", default_value = "http://127.0.0.1:7600", help_heading = "Server")]
    url: String,
    /// A token, if the server requires one.
    #[arg(long, env = "MUNDI_TOKEN", hide_env_values = true, help_heading = "Server")]
    token: Option<String>,
    /// The name or the id of a universe.
    #[arg(long, env = "MUNDI_UNIVERSE", default_value = "default", help_heading = "Server")]
    universe: String,
}

/// A part of a list.
#[derive(Args, Clone)]
pub(crate) struct Paging {
    /// The most to list.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Start after this one.
    #[arg(long)]
    after: Option<String>,
}

/// A list in the universe: its path, and which part of it.
#[derive(Args, Clone)]
pub(crate) struct Listing {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    paging: Paging,
}

impl Listing {
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) async fn pages(&self, noun: &str, filters: &[(&str, Option<String>)]) -> Outcome<(Vec<Value>, Value)> {
        self.server.pages(&self.server.of(noun), filters, &self.paging).await
    }

    pub(crate) async fn show(
        &self,
        out: Out,
        noun: &str,
        filters: &[(&str, Option<String>)],
        columns: &[Column],
    ) -> Outcome {
        self.server.list(out, &self.server.of(noun), filters, &self.paging, columns).await
    }
}

/// How long a server on this machine may take to start.
const START: Duration = Duration::from_secs(3);

/// The longest page of the API.
const PAGE_ITEMS_MAX: usize = 1_000;

impl Server {
    /// A server inside this process.
    pub(crate) fn local(url: &str) -> Self {
        Self { url: url.to_owned(), token: None, universe: "default".to_owned() }
    }

    pub(crate) fn universe(&self) -> &str {
        &self.universe
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A path below the universe.
    pub(crate) fn of(&self, path: &str) -> String {
        format!("/v1/u/{}/{path}", self.universe)
    }

    pub(crate) fn client(&self) -> Http {
        let http = Http::new(&self.url, self.token.as_deref(), &self.universe);
        if self.is_local() { http.connect_for(START) } else { http }
    }

    /// A request, not yet sent.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client().request(method, path)
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Outcome<Response> {
        self.client().send(request).await.map_err(failed)
    }

    fn is_local(&self) -> bool {
        ["http://127.0.0.1", "http://localhost", "http://[::1]"].iter().any(|host| self.url.starts_with(host))
    }

    /// Sends a request; a refusal becomes an error with its code.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<Response> {
        self.ask_with(method, path, &[], body).await
    }

    /// The same, with headers.
    pub(crate) async fn ask_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Outcome<Response> {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.send(request).await
    }

    /// The same, with a body of bytes.
    pub(crate) async fn upload(&self, method: Method, path: &str, body: impl Into<Body>) -> Outcome<Value> {
        let request = self.request(method, path).header("content-type", "application/octet-stream").body(body);
        Ok(serde_json::from_slice(&self.send(request).await?.bytes().await?)?)
    }

    /// A streamed answer.
    pub(crate) async fn stream(&self, path: &str, accept: &str) -> Outcome<Response> {
        self.send(self.request(Method::GET, path).header("accept", accept)).await
    }

    /// The same, with the answer as JSON; null for an empty one.
    pub(crate) async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<Value> {
        json_of(self.ask(method, path, body).await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> Outcome<Value> {
        self.json(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Outcome<Value> {
        self.json(Method::POST, path, Some(body)).await
    }

    /// The requested part of a list. `filters` are query parameters.
    pub(crate) async fn pages(
        &self,
        path: &str,
        filters: &[(&str, Option<String>)],
        paging: &Paging,
    ) -> Outcome<(Vec<Value>, Value)> {
        let filters = filters.iter().filter_map(|(name, value)| Some(format!("&{name}={}", escape(value.as_ref()?))));
        let filters: String = filters.collect();
        let (mut items, mut after) = (Vec::new(), paging.after.clone().map_or(Value::Null, Value::String));
        loop {
            let limit = (paging.limit - items.len()).min(PAGE_ITEMS_MAX);
            let from = match &after {
                Value::Null => String::new(),
                Value::String(text) => format!("&after={}", escape(text)),
                other => format!("&after={other}"),
            };
            let page = self.get(&format!("{path}?limit={limit}{from}{filters}")).await?;
            let more = page["items"].as_array().cloned().unwrap_or_default();
            // A page that a filter left empty is not the last one.
            let ended = page["next"].is_null();
            items.extend(more);
            after = if ended { Value::Null } else { page["next"].clone() };
            if ended || items.len() >= paging.limit {
                return Ok((items, after));
            }
        }
    }

    /// Prints a list that comes in pages.
    pub(crate) async fn list(
        &self,
        out: Out,
        path: &str,
        filters: &[(&str, Option<String>)],
        paging: &Paging,
        columns: &[Column],
    ) -> Outcome {
        let (items, next) = self.pages(path, filters, paging).await?;
        out.rows(columns, &items, &next)
    }

    /// Prints a list that comes whole.
    pub(crate) async fn list_all(&self, out: Out, path: &str, columns: &[Column]) -> Outcome {
        let items = self.get(path).await?;
        out.rows(columns, items.as_array().map_or(&[][..], Vec::as_slice), &Value::Null)
    }
}

/// The answer as JSON; null for an empty one.
pub(crate) async fn json_of(answer: Response) -> Outcome<Value> {
    let bytes = answer.bytes().await?;
    Ok(if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? })
}

impl Paging {
    /// The first ones.
    pub(crate) fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }

    /// Everything.
    pub(crate) fn all() -> Self {
        Self { limit: usize::MAX, after: None }
    }
}

/// A refusal of the server, or the absence of an answer, as a command ends with it.
fn failed(error: Error) -> Failed {
    match (Code::from_name(&error.code), error.kind) {
        (Some(code), _) => Failed::new(code, placed(&error)),
        (None, Kind::Unreachable) => Failed::silent(error.detail),
        (None, _) => {
            let detail = error.problem["detail"].as_str().unwrap_or_default();
            Failed::new(Code::RequestInvalid, format!("the server answered {} {detail}", error.status))
        }
    }
}

/// The failure; of a step that failed, also its height in the journal.
fn placed(error: &Error) -> String {
    match error.problem["height"].as_u64().filter(|_| !error.detail.contains("at height ")) {
        Some(height) => format!("{}, at height {height}", error.detail),
        None => error.detail.clone(),
    }
}

/// JSON if the text is JSON, else the text itself. Ambiguous JSON is refused.
pub(crate) fn value(text: Option<String>) -> Outcome<Value> {
    let Some(text) = text else { return Ok(Value::Null) };
    match json::read(text.as_bytes()) {
        Ok(value) => Ok(value),
        Err(JsonError::Malformed(_)) => Ok(Value::String(text)),
        Err(refused) => Err(Failed::coded(&refused)),
    }
}
