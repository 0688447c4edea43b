//! A call or a send to a world that another process holds is forwarded to that process (ADR 0008).
//!
//! Whatever is in doubt before it is sent goes through the inbox, as if there were no other process. Once it was sent, its fate is
//! what the other process answers; if that answers nothing, the result is unknown, and it is not sent again. A forwarded request is
//! never forwarded again: a process that does not hold the world refuses it before anything is done.

use super::{NodeError, NodePlane};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::Full;
use mundi_adapters::http::client::{Client, ClientConfig, ClientError};
use mundi_engine::{CommitError, EngineError};
use mundi_model::{
    UniverseId, WorkerId, WorldId, limits,
    record::{InboxItem, Input, Payload},
};
use mundi_runtime::{
    Plane,
    delivery::Forward,
    metrics::{Metric, Metrics},
};
use mundi_store::{
    StoreError,
    protocol::{Enqueued, FindHolder},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use url::Url;

/// Names the worker that a request was forwarded to; on the answer, the one that answers.
pub(crate) const FORWARDED_TO: HeaderName = HeaderName::from_static("mundi-forwarded-to");
/// The address of the process that holds the world, on answers of other processes: a client that can reach it spares the way over this process.
pub(crate) const HOLDER: HeaderName = HeaderName::from_static("mundi-holder");

/// The headers that are passed on; all others concern the process that received the request.
const HEADERS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::ACCEPT,
    HeaderName::from_static("correlation-id"),
    HeaderName::from_static("traceparent"),
];

/// Requests in progress to others; what is beyond goes through the inbox.
const UNDER_WAY_MAX: usize = 4_096;
/// Worlds whose holder is remembered.
const KNOWN_MAX: usize = 65_536;
/// How long a holder is believed in: one that is wrong is found out by the first request.
const BELIEVED_NS: u64 = 10_000_000_000;
/// How long a world is believed to have none that can be reached.
const NOBODY_NS: u64 = 200_000_000;
/// A process that does not even accept a connection has other troubles.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a connection is kept that nobody uses: shorter than the other side keeps it, so that nothing is sent into its closing.
const IDLE: Duration = Duration::from_secs(10);
/// More than any reply has, however it is written.
const ANSWER_BYTES_MAX: usize = 16 * limits::PAYLOAD_BYTES_MAX;
/// How much longer than the other one this side waits.
const MARGIN: Duration = Duration::from_secs(5);

pub(crate) struct Forwarder {
    plane: NodePlane,
    worker: WorkerId,
    metrics: Arc<Metrics>,
    /// Made for the first request; `None` if it cannot be.
    client: OnceLock<Option<Client>>,
    known: Mutex<BTreeMap<(UniverseId, WorldId), Known>>,
    room: Semaphore,
}

#[derive(Clone)]
struct Known {
    holder: Option<Arc<OtherProcess>>,
    until_ns: u64,
}

/// The process that holds a world.
struct OtherProcess {
    worker: WorkerId,
    url: Url,
}

/// The way of one call or send to another process.
pub(crate) struct ForwardedCall<'a> {
    pub(crate) forwarder: &'a Forwarder,
    pub(crate) verb: ForwardedVerb,
    /// Of the request: some of them go along.
    pub(crate) headers: &'a HeaderMap,
    /// How long its reply may take.
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardedVerb {
    Call,
    Send,
}

impl ForwardedVerb {
    const fn path(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Send => "send",
        }
    }

    const fn metric(self) -> Metric {
        match self {
            Self::Call => Metric::CallsForwarded,
            Self::Send => Metric::SendsForwarded,
        }
    }
}

impl Forward for ForwardedCall<'_> {
    type Answer = Answered;

    async fn forward(
        &self,
        (universe, world): (UniverseId, WorldId),
        item: &InboxItem,
    ) -> Result<Option<Answered>, StoreError> {
        let Input::Event { schema, value: Payload::Inline(value), key: None } = &item.input else { return Ok(None) };
        self.forwarder.ask(universe, world, (schema, value), self).await
    }
}

/// The answer of another process.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answered {
    /// The place of an event that the other process took.
    pub(crate) fn enqueued(&self) -> Result<Enqueued, NodeError> {
        let Self { status, body, .. } = self;
        let sent = serde_json::from_slice(body).unwrap_or(serde_json::Value::Null);
        match sent["seq"].as_str().map(str::parse) {
            Some(Ok(seq)) if status.is_success() => Ok(Enqueued { seq, before: sent["before"] == true }),
            _ => Err(self.problem()),
        }
    }

    /// The refusal in the body of the answer.
    pub(crate) fn problem(&self) -> NodeError {
        let problem = serde_json::from_slice(&self.body).unwrap_or(serde_json::Value::Null);
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        NodeError::CallFailed { code: text("code"), reason: text("detail") }
    }
}

impl Forwarder {
    pub(crate) fn new(plane: NodePlane, worker: WorkerId, metrics: Arc<Metrics>) -> Self {
        let room = Semaphore::new(UNDER_WAY_MAX);
        Self { plane, worker, metrics, client: OnceLock::new(), known: Mutex::default(), room }
    }

    /// The answer of the process that holds the world; `None` if surely nobody has taken the request.
    async fn ask(
        &self,
        universe: UniverseId,
        world: WorldId,
        (event, value): (&str, &[u8]),
        call: &ForwardedCall<'_>,
    ) -> Result<Option<Answered>, StoreError> {
        let (Ok(_room), Some(client)) = (self.room.try_acquire(), self.client()) else { return Ok(None) };
        let Some(holder) = self.holder(universe, world).await else { return Ok(None) };
        let mut url = holder.url.clone();
        match url.path_segments_mut() {
            Ok(mut path) => {
                let names = [&universe.to_string(), "worlds", &world.to_string(), call.verb.path(), event];
                path.pop_if_empty().extend(["v1", "u"]).extend(names);
            }
            Err(()) => return Ok(None),
        }
        if call.verb == ForwardedVerb::Call {
            url.set_query(Some(&format!("timeout={}ms", call.timeout.as_millis())));
        }
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(value)));
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        for name in HEADERS {
            for value in call.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/cbor"));
        let worker = holder.worker.to_string();
        let Ok(named) = HeaderValue::from_str(&worker) else { return Ok(None) };
        headers.insert(FORWARDED_TO, named);
        let answer_within = call.timeout.saturating_add(MARGIN);
        let until = Instant::now() + answer_within;
        let sent = timeout_at(until, client.send(&url, request)).await;
        let mut answer = match sent.unwrap_or(Err(ClientError::Silent(answer_within))) {
            Ok(answer) => answer,
            Err(error) => {
                self.forget(universe, world);
                // It was never sent, or it may have arrived.
                return if error.is_unsent() { Ok(None) } else { Err(unknown(error)) };
            }
        };
        let (status, headers) = (answer.head.status, std::mem::take(&mut answer.head.headers));
        let Some(by) = headers.get(FORWARDED_TO) else {
            self.forget(universe, world);
            if status == StatusCode::TOO_MANY_REQUESTS {
                return Ok(None); // it has too many connections from here, and has not read the request
            }
            return Err(unknown(StrangerError)); // who answers there is none of ours
        };
        let is_meant = by.as_bytes() == worker.as_bytes();
        let refused =
            [StatusCode::MISDIRECTED_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND];
        // One that answers in another's place has refused, unless it says otherwise: earlier versions take any send.
        if !(is_meant || status.is_success()) || refused.contains(&status) {
            self.forget(universe, world);
            answer.let_go().await;
            return Ok(None);
        }
        let body = timeout_at(until, answer.body(ANSWER_BYTES_MAX)).await;
        let body = body.unwrap_or(Err(ClientError::Silent(answer_within))).map_err(unknown)?;
        self.metrics.add(call.verb.metric(), 1);
        Ok(Some(Answered { status, headers, body: body.into() }))
    }

    /// The address of the process that holds the world, if that is another one and has published it.
    pub(crate) async fn address_of_holder(&self, universe: UniverseId, world: WorldId) -> Option<Url> {
        Some(self.holder(universe, world).await?.url.clone())
    }

    fn client(&self) -> Option<&Client> {
        let make = || {
            // How long an answer may take is each request's own business.
            let config = ClientConfig { connect_timeout: CONNECT_TIMEOUT, read_timeout: None, idle_timeout: IDLE };
            let made = Client::new(config, |_, _| true);
            made.inspect_err(|error| tracing::warn!(%error, "requests are not forwarded")).ok()
        };
        self.client.get_or_init(make).as_ref()
    }

    /// The worker that holds the world, as far as this process knows; never its own.
    async fn holder(&self, universe: UniverseId, world: WorldId) -> Option<Arc<OtherProcess>> {
        let now_ns = self.plane.now_ns();
        let known = self.known.lock().get(&(universe, world)).filter(|known| known.until_ns > now_ns).cloned();
        if let Some(known) = known {
            return known.holder;
        }
        let found = self.plane.run(&FindHolder { universe, world, now_ns }).await;
        let found = found.inspect_err(|error| tracing::debug!(%error, "a world's holder was not found")).ok()?.output;
        let holder = found
            .filter(|(worker, _)| *worker != self.worker)
            .and_then(|(worker, address)| Some(Arc::new(OtherProcess { worker, url: Url::parse(&address).ok()? })));
        let believed_ns = if holder.is_some() { BELIEVED_NS } else { NOBODY_NS };
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert((universe, world), Known { holder: holder.clone(), until_ns: now_ns.saturating_add(believed_ns) });
        holder
    }

    /// The next request goes through the inbox, and those behind it until someone is found again.
    fn forget(&self, universe: UniverseId, world: WorldId) {
        let until_ns = self.plane.now_ns().saturating_add(NOBODY_NS);
        self.known.lock().insert((universe, world), Known { holder: None, until_ns });
    }
}

#[derive(Debug, thiserror::Error)]
#[error("another program answers where the world's holder was")]
struct StrangerError;

/// As for a commit whose answer was lost: it is what that process was asked for.
fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    let (doing, cause) = ("handing a request on".to_owned(), Arc::new(error));
    StoreError::Commit(CommitError::Unknown(EngineError::Failed { doing, cause }))
}
