//! `http.request`: one HTTP request to the outside.
//!
//! Parameters: `url`, and optionally `method` (`GET`), `headers` and `body`. The answer is `{status, headers, body}`,
//! whatever the status: what it means is the program's business. Only a server that asks for another try (429, 502, 503,
//! 504) is given one, after the time that its `retry-after` names.
//!
//! Every request carries `idempotency-key: <intent hash>`, the same for each attempt, and the `traceparent` of the intent. A program may give a
//! key of its own that begins with the id of its world, `w_…/`, for several intents that ask for the same thing.
//!
//! Addresses that are not public (loopback, private, link-local, and what a cloud keeps there) are denied unless they are
//! allowed by name. The check is made on what a name resolves to, at the moment of the connection, and on each redirect:
//! a name that resolves to something else the second time gains nothing. No proxy of the environment is used.

mod address;
pub mod client;
mod probe;

use crate::{
    Params,
    params::{map, text},
};
use address::is_public;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use client::{Answer, Client, ClientConfig, ClientError};
use futures_util::future::BoxFuture;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode,
    header::{ACCEPT, AUTHORIZATION, LOCATION, RETRY_AFTER},
    response::Parts,
};
use http_body_util::Full;
use mundi_model::{Value, limits};
use mundi_runtime::effects::{Adapter, Call, denied, failed, invalid, too_large};
use mundi_store::protocol::{Failure, Repeat};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};
use url::Url;

/// How long a connection is kept that nobody uses.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Hosts that may be reached although they are not public: names or addresses, as they stand in the URL.
    pub private_hosts_allowed: BTreeSet<String>,
    pub body_bytes_max: usize,
    pub redirects_max: usize,
    pub connect_timeout: Duration,
    /// How long the other side may say nothing. The manifest bounds the whole call.
    pub read_timeout: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            private_hosts_allowed: BTreeSet::new(),
            body_bytes_max: limits::PAYLOAD_BYTES_MAX - 64 * 1024, // the headers stand beside it
            redirects_max: 5,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
        }
    }
}

/// A client that knows the rules.
#[derive(Clone)]
pub struct HttpAdapter {
    client: Client,
    config: Arc<HttpConfig>,
}

impl HttpAdapter {
    /// Fails if the machine gives no root certificates.
    pub fn new(config: HttpConfig) -> io::Result<Self> {
        let config = Arc::new(config);
        let (connect_timeout, read_timeout) = (config.connect_timeout, Some(config.read_timeout));
        let rules = config.clone();
        let may_reach = move |name: &str, found| is_public(found) || rules.private_hosts_allowed.contains(name);
        let client = ClientConfig { connect_timeout, read_timeout, idle_timeout: IDLE_TIMEOUT };
        Ok(Self { client: Client::new(client, may_reach)?, config })
    }

    /// Sends a request by the rules, follows redirects by the rules, and gives the answer before its body.
    pub(crate) async fn send(&self, call: &Call, mut asked: Outgoing) -> Result<Answer, Failure> {
        for _ in 0..=self.config.redirects_max {
            self.check(&asked.url)?;
            let mut request = Request::new(Full::new(asked.body.clone()));
            *request.method_mut() = asked.method.clone();
            *request.headers_mut() = completed(&asked, call)?;
            let answer = self.client.send(&asked.url, request).await.map_err(unreachable)?;
            match next_hop(&asked, &answer.head)? {
                Some(next) => {
                    asked = next;
                    answer.let_go().await;
                }
                None => return Ok(answer),
            }
        }
        Err(denied(format!("more than {} redirects", self.config.redirects_max)))
    }

    /// A name is checked when it is resolved; an address in the URL is never resolved, so it is checked here.
    fn check(&self, url: &Url) -> Result<(), Failure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(denied(format!("the scheme `{}` is not served", url.scheme())));
        }
        let host = url.host_str().ok_or_else(|| invalid("`url` has no host"))?;
        let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        match address {
            Some(address) if !is_public(address) && !self.config.private_hosts_allowed.contains(host) => {
                Err(denied(address::NotPublic(host.to_owned()).to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The body, up to the bound.
    pub(crate) async fn body(&self, answer: Answer) -> Result<Vec<u8>, Failure> {
        answer.body(self.config.body_bytes_max).await.map_err(unreachable)
    }

    async fn request(&self, call: &Call) -> Result<Value, Failure> {
        let answer = self.send(call, Outgoing::read(Params::of(&call.params)?)?).await?;
        if let Some(failure) = asks_for_another_try(&answer.head) {
            answer.let_go().await;
            return Err(failure);
        }
        let status = Value::Integer(answer.head.status.as_u16().into());
        let headers = answer
            .head
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value.to_str().ok()?))));
        let headers = Value::Map(headers.collect::<BTreeMap<_, _>>());
        let body = Value::Bytes(self.body(answer).await?);
        Ok(map([("status", status), ("headers", headers), ("body", body)]))
    }
}

impl Adapter for HttpAdapter {
    fn name(&self) -> &str {
        "http"
    }

    fn kinds(&self) -> &[&str] {
        &["http.request"]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.request(call))
    }
}

/// The pool and the lease under which a request is made, and the epoch: what the other side compares.
const LEASE: &str = "mundi-lease";
const LEASE_EPOCH: &str = "mundi-lease-epoch";

/// A request on its way out.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Outgoing {
    fn read(params: Params<'_>) -> Result<Self, Failure> {
        let method = params.text_or_none("method")?.unwrap_or("GET").parse();
        Ok(Self {
            method: method.map_err(|_| invalid("`method` is no HTTP method"))?,
            url: Url::parse(params.text("url")?).map_err(|error| invalid(format!("`url`: {error}")))?,
            headers: headers(&params.texts("headers")?)?,
            body: Bytes::copy_from_slice(params.bytes_or_none("body")?.unwrap_or_default()),
        })
    }
}

fn headers(texts: &BTreeMap<String, String>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in texts {
        let bad = || invalid(format!("`headers`: `{name}` cannot be sent"));
        let parsed: HeaderName = name.parse().map_err(|_| bad())?;
        headers.insert(parsed, HeaderValue::from_str(value).map_err(|_| bad())?);
    }
    Ok(headers)
}

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The headers with those that a program cannot choose. The key keeps a repeated attempt from acting twice.
fn completed(asked: &Outgoing, call: &Call) -> Result<HeaderMap, Failure> {
    let mut headers = asked.headers.clone();
    let own = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
    // A fork never shares a key with its parent: one that names another world is replaced.
    if own.is_none_or(|key| !key.starts_with(&format!("{}/", call.world))) {
        let key = HeaderValue::from_str(&call.intent.to_string()).map_err(|error| failed(error.to_string()))?;
        headers.insert(HeaderName::from_static(IDEMPOTENCY_KEY), key);
    }
    // Only the host says which lease an effect has: the other side relies on it.
    for name in [LEASE, LEASE_EPOCH] {
        headers.remove(name);
    }
    if let Some(lease) = &call.lease {
        let value = HeaderValue::from_str(&lease.name()).map_err(|error| failed(error.to_string()))?;
        headers.insert(HeaderName::from_static(LEASE), value);
        headers.insert(HeaderName::from_static(LEASE_EPOCH), lease.lease_epoch.into());
    }
    if let Some(trace) = call.trace.as_deref().and_then(|trace| HeaderValue::from_str(trace).ok()) {
        headers.insert(HeaderName::from_static("traceparent"), trace);
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    if !asked.url.username().is_empty() || asked.url.password().is_some() {
        headers.entry(AUTHORIZATION).or_insert(basic(&asked.url)?);
    }
    Ok(headers)
}

/// The name and password that stand in a URL.
fn basic(url: &Url) -> Result<HeaderValue, Failure> {
    let [mut given, password] = [url.username(), url.password().unwrap_or_default()]
        .map(|part| percent_encoding::percent_decode_str(part).collect::<Vec<u8>>());
    given.push(b':');
    given.extend(password);
    let value = format!("Basic {}", BASE64_STANDARD.encode(given));
    let mut value = HeaderValue::from_str(&value).map_err(|error| failed(error.to_string()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Where a redirect leads. Another host gets none of the headers: they may hold what was meant for the first.
fn next_hop(request: &Outgoing, answer: &Parts) -> Result<Option<Outgoing>, Failure> {
    let keeps_method = match answer.status.as_u16() {
        301..=303 => false,
        307 | 308 => true,
        _ => return Ok(None),
    };
    let Some(location) = answer.headers.get(LOCATION) else { return Ok(None) };
    let location = location.to_str().map_err(|_| failed("a redirect to nowhere"))?;
    let url = request.url.join(location).map_err(|error| failed(format!("a redirect to nowhere: {error}")))?;
    let same_origin = url.origin() == request.url.origin();
    let headers = if same_origin { request.headers.clone() } else { HeaderMap::new() };
    let (method, body) = match keeps_method || request.method == Method::HEAD {
        true => (request.method.clone(), request.body.clone()),
        false => (Method::GET, Bytes::new()),
    };
    Ok(Some(Outgoing { method, url, headers, body }))
}

pub(crate) fn asks_for_another_try(answer: &Parts) -> Option<Failure> {
    let status = answer.status;
    let asks = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    if !asks.contains(&status) {
        return None;
    }
    let seconds = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let repeat = seconds.map_or(Repeat::Backoff, |seconds| Repeat::AfterMs(seconds.saturating_mul(1_000)));
    Some(Failure { repeat, ..failed(format!("the server answered {status}")) })
}

/// The resolver's refusal arrives as a failed connection; its kind is what tells it apart.
#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn unreachable(error: ClientError) -> Failure {
    match &error {
        ClientError::TooLarge(bytes_max) => return too_large(*bytes_max),
        ClientError::Address(error) => return invalid(format!("`url`: {error}")),
        ClientError::Connect(_) | ClientError::Silent(_) | ClientError::Broken(_) => {}
    }
    let mut reason = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(error) = cause {
        if error.is::<address::NotPublic>() {
            return denied(error.to_string());
        }
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    failed(reason)
}
