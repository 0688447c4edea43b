//! `llm.chat`: a conversation with a model behind an OpenAI-compatible endpoint.
//!
//! Parameters: `messages` (a list of `{role, content}`), and optionally `model` (one that the configuration allows) and
//! `options`, which are passed on (`temperature`, `max_tokens`, `tools`, ...). The answer is streamed, so that a dead
//! connection is noticed, and collected into `{model, content, finish_reason, tool_calls, usage}`; `usage` holds
//! `prompt_tokens`, `completion_tokens` and `total_tokens` as the endpoint reports them.
//!
//! The key belongs to the adapter and reaches neither journal nor receipt. Base URL and key come from the configuration
//! only: a program that could choose the one would be handed the other.

mod stream;

use crate::{
    Params,
    http::{HttpAdapter, Outgoing, asks_for_another_try},
    params::{map, text},
};
use futures_util::future::BoxFuture;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use mundi_model::Value;
use mundi_runtime::effects::{Adapter, Call, denied, failed, invalid};
use mundi_store::protocol::{Failure, Repeat};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use stream::Collected;
use url::Url;

#[derive(Clone)]
pub struct LlmConfig {
    /// Up to and including the version, such as `https://api.openai.com/v1`.
    pub base_url: Url,
    /// Sent as a bearer token. Resolved by the code that creates the adapter.
    pub api_key: Option<String>,
    pub model: String,
    /// Other models that a program may name.
    pub models_allowed: BTreeSet<String>,
}

pub struct LlmAdapter {
    http: HttpAdapter,
    config: LlmConfig,
}

impl LlmAdapter {
    /// The rules of the HTTP adapter hold: an endpoint on this machine must be allowed there.
    pub fn new(http: HttpAdapter, config: LlmConfig) -> Self {
        Self { http, config }
    }

    async fn chat(&self, call: &Call) -> Result<Value, Failure> {
        let answer = self.http.send(call, self.outgoing(Params::of(&call.params)?)?).await?;
        if let Some(failure) = asks_for_another_try(&answer.head) {
            answer.let_go().await;
            return Err(failure);
        }
        let status = answer.head.status;
        let body = self.http.body(answer).await?;
        if !status.is_success() {
            let reason = format!("the endpoint answered {status}: {}", String::from_utf8_lossy(&body));
            let repeat = if status.is_server_error() { Repeat::Backoff } else { Repeat::Never };
            return Err(Failure { repeat, ..failed(reason.chars().take(400).collect::<String>()) });
        }
        let collected = Collected::read(&body).map_err(failed)?;
        Ok(self.answer(collected))
    }

    fn outgoing(&self, params: Params<'_>) -> Result<Outgoing, Failure> {
        let model = params.text_or_none("model")?.unwrap_or(&self.config.model);
        if model != self.config.model && !self.config.models_allowed.contains(model) {
            return Err(denied(format!("the model `{model}` is not in the setting `llm.models_allowed`")));
        }
        let mut body = match params.get("options") {
            None => Map::new(),
            Some(options) => match options.to_json() {
                Ok(Json::Object(options)) => options,
                _ => return Err(invalid("`options` is not a map that JSON can say")),
            },
        };
        let messages = params.get("messages").ok_or_else(|| invalid("`messages` is missing"))?;
        let messages = messages.to_json().map_err(|error| invalid(format!("`messages`: {error}")))?;
        body.insert("messages".into(), messages);
        body.insert("model".into(), model.into());
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({ "include_usage": true }));
        Ok(Outgoing {
            method: Method::POST,
            url: self.url()?,
            headers: self.headers()?,
            body: Json::Object(body).to_string().into(),
        })
    }

    fn url(&self) -> Result<Url, Failure> {
        let url = format!("{}/chat/completions", self.config.base_url.as_str().trim_end_matches('/'));
        Url::parse(&url).map_err(|error| denied(format!("the setting `llm.base_url`: {error}")))
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        if let Some(key) = &self.config.api_key {
            let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut bearer = bearer.map_err(|_| denied("the setting `llm.api_key` cannot be sent as a header"))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(headers)
    }

    fn answer(&self, collected: Collected) -> Value {
        let or_null = |found: Option<String>| found.map_or(Value::Null, text);
        map([
            ("model", text(collected.model.unwrap_or_else(|| self.config.model.clone()))),
            ("content", text(collected.content)),
            ("finish_reason", or_null(collected.finish_reason)),
            ("tool_calls", Value::Array(collected.tool_calls.into_values().map(Value::from).collect())),
            ("usage", collected.usage.map_or(Value::Null, Value::from)),
        ])
    }
}

impl Adapter for LlmAdapter {
    fn name(&self) -> &str {
        "llm"
    }

    fn kinds(&self) -> &[&str] {
        &["llm.chat"]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.chat(call))
    }
}
