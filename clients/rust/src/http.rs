//! Requests: the token, refusals as errors, retries of what may be repeated.

use crate::{error::Error, holders::Holders};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, stream};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const RETRY_FOR: Duration = Duration::from_secs(30);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A connection whose other end is gone without a word fails after so many probes; a request may wait long for a server that lives.
const SILENCE_PROBED_AFTER: Duration = Duration::from_secs(10);
const SILENT_PROBES_MAX: u32 = 3;

/// Pauses that double.
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    pub(crate) async fn wait(&mut self, at_least: Duration) {
        sleep(self.0.max(at_least)).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }

    pub(crate) fn reset(&mut self) {
        self.0 = FIRST_PAUSE;
    }
}

/// A server, a token and a universe.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
    url: String,
    token: Option<String>,
    universe: String,
    pub(crate) retry_for: Duration,
    connect_for: Duration,
    holders: Option<Holders>,
}

/// Whether and how long a request is repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Repeat {
    Never,
    /// As long as the client is set to.
    Usual,
    For(Duration),
}

impl Http {
    /// # Panics
    ///
    /// If the system gives no randomness for TLS.
    pub fn new(url: &str, token: Option<&str>, universe: &str) -> Self {
        // A provider that was installed before does as well.
        let _before = rustls::crypto::ring::default_provider().install_default();
        // The default client has the same settings but the proxy of the environment.
        let client = Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .tcp_keepalive(SILENCE_PROBED_AFTER)
            .tcp_keepalive_interval(SILENCE_PROBED_AFTER)
            .tcp_keepalive_retries(SILENT_PROBES_MAX)
            .build()
            .unwrap_or_default();
        Self {
            client,
            url: url.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
            universe: universe.to_owned(),
            retry_for: RETRY_FOR,
            connect_for: Duration::ZERO,
            holders: None,
        }
    }

    /// How long a request that may be repeated is repeated while the server is away or busy.
    #[must_use]
    pub fn retry_for(self, retry_for: Duration) -> Self {
        Self { retry_for, ..self }
    }

    /// How long any request waits for a server that does not listen yet: nothing was sent to it.
    #[must_use]
    pub fn connect_for(self, connect_for: Duration) -> Self {
        Self { connect_for, ..self }
    }

    /// Sends calls and events to the process of a fleet that holds their world, once an answer has named it (`mundi-holder`). The token
    /// goes there, too. An address that cannot be reached is forgotten, and the request goes to the server's own.
    #[must_use]
    pub fn follow_holders(self) -> Self {
        Self { holders: Some(Holders::default()), ..self }
    }

    #[must_use]
    pub fn in_universe(&self, universe: &str) -> Self {
        Self { universe: universe.to_owned(), ..self.clone() }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A path below the universe.
    pub fn of(&self, path: &str) -> String {
        format!("/v1/u/{}/{path}", escape(&self.universe))
    }

    /// A request, not yet sent.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request once; a refusal is an error.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        // A body that is a stream can be sent once only: the server must be there before.
        if !self.connect_for.is_zero() && request.try_clone().is_none() {
            self.connected(self.request(Method::GET, "/livez")).await?;
        }
        let response = self.connected(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let after = retry_after(&response);
        let body = response.bytes().await.map_err(|error| Error::unreachable(&self.url, &error))?;
        let mut error = Error::refused(status, &body);
        if let (Some(after), Some(problem)) = (after, error.problem.as_object_mut()) {
            problem.entry("retry_after_s").or_insert(after.into());
        }
        Err(error)
    }

    async fn connected(&self, request: RequestBuilder) -> Result<Response, Error> {
        let until = Instant::now() + self.connect_for;
        loop {
            let (now, rest) = match request.try_clone() {
                Some(again) => (again, true),
                None => return self.once(request).await.map_err(|error| Error::unreachable(&self.url, &error)),
            };
            match self.once(now).await {
                Err(error) if rest && error.is_connect() && Instant::now() < until => sleep(FIRST_PAUSE).await,
                answer => return answer.map_err(|error| Error::unreachable(&self.url, &error)),
            }
        }
    }

    async fn once(&self, request: RequestBuilder) -> Result<Response, reqwest::Error> {
        match &self.holders {
            Some(holders) => holders.send(request).await,
            None => request.send().await,
        }
    }

    /// The same, and the body of the answer. Repeated while the server is away or busy, if it may be.
    pub(crate) async fn bytes(&self, request: RequestBuilder, repeat: Repeat) -> Result<Bytes, Error> {
        let retry_for = match repeat {
            Repeat::Never => Duration::ZERO,
            Repeat::Usual => self.retry_for,
            Repeat::For(retry_for) => retry_for,
        };
        let (until, mut backoff, mut request) = (Instant::now() + retry_for, Backoff::new(), request);
        loop {
            let again = request.try_clone();
            let answer = match self.send(request).await {
                Ok(answer) => answer.bytes().await.map_err(|error| Error::unreachable(&self.url, &error)),
                Err(error) => Err(error),
            };
            // Whether a call that timed out is asked for again, and how, is up to the call.
            match (answer, again) {
                (Err(error), Some(next)) if error.is_transient() && !error.is_call_timeout() => {
                    let after = Duration::from_secs(error.problem["retry_after_s"].as_u64().unwrap_or(0));
                    if Instant::now() + after >= until {
                        return Err(error);
                    }
                    backoff.wait(after).await;
                    request = next;
                }
                (answer, _) => return answer,
            }
        }
    }

    pub(crate) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder, repeat: Repeat) -> Result<T, Error> {
        let bytes = self.bytes(request, repeat).await?;
        let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(text).map_err(|error| Error::unexpected(&error))
    }

    /// Any request of the API, with its answer as JSON; null for an empty one.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let repeat = if method == Method::GET { Repeat::Usual } else { Repeat::Never };
        self.json(with_json(self.request(method, path), body), repeat).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Error> {
        self.ask(Method::GET, path, None).await
    }

    /// A request that changes nothing, or is done once however often it is sent.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.json(with_json(self.request(Method::POST, path), Some(body)), Repeat::Usual).await
    }

    /// Every item of a list that comes in pages.
    pub(crate) fn items(
        &self,
        path: &str,
        filters: &[(&str, String)],
    ) -> impl Stream<Item = Result<Value, Error>> + use<> {
        let (http, base) = (self.clone(), format!("{path}{}", query(filters)));
        let joint = if base.contains('?') { '&' } else { '?' };
        let pages = stream::try_unfold(Some(base.clone()), move |next| {
            let (http, base) = (http.clone(), base.clone());
            async move {
                let Some(path) = next else { return Ok(None) };
                let page = http.get(&path).await?;
                let next = match &page["next"] {
                    Value::Null => None,
                    Value::String(after) => Some(format!("{base}{joint}after={}", escape(after))),
                    after => Some(format!("{base}{joint}after={after}")),
                };
                let items = page["items"].as_array().cloned().unwrap_or_default();
                Ok::<_, Error>(Some((stream::iter(items.into_iter().map(Ok)), next)))
            }
        });
        pages.try_flatten()
    }
}

fn retry_after(response: &Response) -> Option<u64> {
    response.headers().get("retry-after")?.to_str().ok()?.parse().ok()
}

pub(crate) fn with_json(request: RequestBuilder, body: Option<&Value>) -> RequestBuilder {
    match body {
        Some(body) => request.header("content-type", "application/json").body(body.to_string()),
        None => request,
    }
}

/// Parameters of an address.
pub(crate) fn query(parameters: &[(&str, String)]) -> String {
    let written: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if written.is_empty() { String::new() } else { format!("?{}", written.join("&")) }
}

/// A text escaped for a path or a parameter.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// A key that no other request has.
pub(crate) fn unique_key() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::no_randomness(&error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
