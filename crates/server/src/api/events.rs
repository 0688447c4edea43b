//! Input of worlds: `send`, `call`, batches and CloudEvents; and replies.

use super::{
    Api, Problem,
    extract::{
        EventBody, Ingress, Name, Params, READ, RawBody, WorldScope, duration, is, read, text_header, value_of_json,
    },
    json,
};
use crate::{
    node::{Answered, CALL_TIMEOUT, Delayed, FORWARDED_TO, HOLDER, Tenant, Universe},
    quotas::Quota,
};
use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use mundi_model::{
    CallId, Code, Coded, Hash, WorldId, limits,
    record::{InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_runtime::{
    Plane,
    control::{CallAnswer, Cause, SendAnswer},
};
use mundi_store::{
    blob::Blobs,
    protocol::{Enqueued, NewItem},
    values::DedupeId,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// How much later than asked for a request ends that does not end by itself.
pub(super) const DEADLINE_GRACE: Duration = Duration::from_millis(100);

/// The place of a call, on its answer: where the reply can be had again.
const CALL: HeaderName = HeaderName::from_static("mundi-call");

/// Where an event is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sent {
    /// Its place in the inbox; null for one that is sent later.
    seq: Option<String>,
    /// It was there already, under the same key.
    before: bool,
    /// Names the event by its content: schema, value and key. Its record in the journal has the same.
    #[schema(value_type = Option<String>)]
    event_hash: Option<Hash>,
}

impl Sent {
    fn new(enqueued: Enqueued, event_hash: Option<Hash>) -> Self {
        Self { seq: Some(enqueued.seq.to_string()), before: enqueued.before, event_hash }
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SendParams {
    /// Sends it so much later: `10s`, `5m`, `2h`.
    #[param(example = "10s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    delay: Option<String>,
    /// A key of the sender's own, which the program sees.
    key: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitParams {
    /// How long to wait for the reply: `30s` if nothing is said.
    #[param(example = "5s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    pub(super) timeout: Option<String>,
}

impl WaitParams {
    /// Of a request whose address has this query.
    pub(super) fn stated(query: &str, api: &Api) -> Option<Duration> {
        let stated = query.split('&').find_map(|param| param.strip_prefix("timeout="))?;
        Some(duration(stated).ok()?.min(api.limits.wait_max))
    }

    pub(super) fn timeout(&self, api: &Api) -> Result<Duration, Problem> {
        let timeout = self.timeout.as_deref().map(duration).transpose()?.unwrap_or(CALL_TIMEOUT);
        Ok(timeout.min(api.limits.wait_max))
    }
}

/// One event of a batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchEvent {
    event: String,
    #[serde(default)]
    value: serde_json::Value,
    key: Option<String>,
    idempotency_key: Option<String>,
}

/// A CloudEvent in its JSON form. Its type names the event; source and id make it idempotent.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CloudEvent {
    specversion: String,
    id: String,
    source: String,
    #[serde(rename = "type")]
    event: String,
    subject: Option<String>,
    traceparent: Option<String>,
    #[serde(default)]
    data: serde_json::Value,
}

/// An event, on its way in.
struct Incoming {
    event: String,
    value: Vec<u8>,
    key: Option<String>,
    idempotency_key: Option<String>,
    correlation_id: Option<String>,
    trace: Option<String>,
}

impl Incoming {
    fn new(headers: &HeaderMap, event: String, value: Vec<u8>, key: Option<String>) -> Result<Self, Problem> {
        Ok(Self {
            event,
            value,
            key,
            idempotency_key: idempotency_key(headers)?,
            correlation_id: text_header(headers, "correlation-id").map(str::to_owned),
            trace: traceparent(text_header(headers, "traceparent")),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        let texts = [&self.key, &self.idempotency_key, &self.correlation_id];
        let long = texts.into_iter().flatten().chain([&self.event]).any(|text| text.len() > limits::NAME_BYTES_MAX);
        match long {
            true => Err(Problem::invalid(format!("names and keys have at most {} bytes", limits::NAME_BYTES_MAX))),
            false => Ok(()),
        }
    }

    /// The parts that the manifest's schema is checked against.
    fn checked(&self) -> (&str, &[u8]) {
        (&self.event, &self.value)
    }

    /// With its idempotency key, which is of the event and the verb: who only sends must not take a caller's reply away.
    fn into_item(self, now_ns: u64, wants_reply: bool) -> (InboxItem, Option<String>) {
        let Self { event: schema, value, key, idempotency_key, correlation_id, trace } = self;
        let verb = if wants_reply { "call" } else { "send" };
        let idempotency_key = idempotency_key.map(|key| format!("{verb}/{schema}/{key}"));
        let origin = Origin { correlation_id, trace, wants_reply, ..Origin::new(now_ns) };
        (InboxItem { input: Input::Event { schema, value: Payload::Inline(value), key }, origin }, idempotency_key)
    }
}

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= limits::NAME_BYTES_MAX);
    let invalid =
        || Problem::invalid(format!("an Idempotency-Key has 1 to {} visible characters", limits::NAME_BYTES_MAX));
    key.map(|key| Some(key.to_owned())).ok_or_else(invalid)
}

/// A header that is not a W3C `traceparent` is ignored, as the standard asks.
fn traceparent(text: Option<&str>) -> Option<String> {
    text.filter(|text| text.len() == 55 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')).map(str::to_owned)
}

/// Sends an event to a world. When it is answered, the event is durable; what the program makes of it is not waited for.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/send/{event}", tag = "events", params(SendParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Under the same key an event is sent at most once")),
    request_body(content = serde_json::Value, description = "The value of the event: JSON, or canonical CBOR"),
    responses((status = 202, body = Sent)),
)]
pub(super) async fn send(
    Ingress { of: WorldScope { api, universe, world, tenant }, .. }: Ingress<false>,
    Name(event): Name,
    Params(params): Params<SendParams>,
    given: EventBody,
) -> Result<Response, Problem> {
    make_send(&api, (&universe, tenant), world, event, params, given).await
}

pub(super) async fn make_send(
    api: &Api,
    (universe, tenant): (&Universe, Tenant),
    world: WorldId,
    event: String,
    params: SendParams,
    EventBody { cbor, headers }: EventBody,
) -> Result<Response, Problem> {
    api.node.admit_to(universe, world)?;
    let incoming = Incoming::new(&headers, event, cbor, params.key)?;
    let delay = params.delay.as_deref().map(duration).transpose()?;
    incoming.check()?;
    if let Some(meant) = headers.get(FORWARDED_TO) {
        check_meant(api, universe, world, meant)?;
    }
    // Given back if it was not made in time, or by another process, which makes the room itself.
    let growth = api.node.grow_payloads(universe, tenant, [incoming.value.len()].into_iter()).await?;
    let taken = in_time(CALL_TIMEOUT, take(universe, world, incoming, delay, &headers)).await;
    growth.settle(universe, matches!(taken, Ok((_, true)))).await;
    let (taken, _) = taken?;
    Ok(naming_holder(universe, world, &headers, taken).await)
}

/// The answer, and whether this process took it.
async fn take(
    universe: &Universe,
    world: WorldId,
    incoming: Incoming,
    delay: Option<Duration>,
    headers: &HeaderMap,
) -> Result<(Response, bool), Problem> {
    let plane = universe.plane();
    let (item, idempotency_key) = incoming.into_item(plane.now_ns(), false);
    let event_hash = item.input.event_hash();
    let Some(delay) = delay else {
        let send = universe.send_event(world, (item, idempotency_key.as_deref()), headers, true);
        return match Box::pin(send).await? {
            SendAnswer::Enqueued(enqueued) => Ok((accepted(&Sent::new(enqueued, event_hash)), true)),
            SendAnswer::Forwarded(answered) => Ok((forwarded(answered), false)),
        };
    };
    if let Input::Event { schema, value: Payload::Inline(value), .. } = &item.input {
        universe.ops().check_events(world, [(schema.as_str(), value.as_slice())]).await?;
    }
    let due_ns = plane.now_ns().saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
    let delayed = Delayed { world, item, idempotency_key };
    Box::pin(delayed.send(plane, universe.id(), due_ns, universe.ops().dedupe_window_ns())).await?;
    Ok((accepted(&Sent { seq: None, before: false, event_hash }), true))
}

fn accepted(sent: &Sent) -> Response {
    (StatusCode::ACCEPTED, Json(sent)).into_response()
}

/// Sends an event and answers with the program's reply to it. `mundi-call` names the call: with it the reply can be asked
/// for again, also after this answer was lost or timed out.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/call/{event}", tag = "events", params(WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Under the same key the event is sent at most once, and each call gets its reply")),
    request_body(content = serde_json::Value, description = "The value of the event: JSON, or canonical CBOR"),
    responses((status = 200, description = "The reply", body = serde_json::Value)),
)]
pub(super) async fn call(
    Ingress { of: WorldScope { api, universe, world, tenant }, _held }: Ingress<true>,
    Name(event): Name,
    Params(params): Params<WaitParams>,
    given: EventBody,
) -> Result<Response, Problem> {
    make_call(&api, (&universe, tenant), world, event, &params, given).await
}

pub(super) async fn make_call(
    api: &Api,
    (universe, tenant): (&Universe, Tenant),
    world: WorldId,
    event: String,
    params: &WaitParams,
    EventBody { cbor, headers }: EventBody,
) -> Result<Response, Problem> {
    api.node.admit_to(universe, world)?;
    let timeout = params.timeout(api)?;
    let incoming = Incoming::new(&headers, event, cbor, None)?;
    incoming.check()?;
    if let Some(meant) = headers.get(FORWARDED_TO) {
        check_meant(api, universe, world, meant)?;
    }
    let growth = api.node.grow_payloads(universe, tenant, [incoming.value.len()].into_iter()).await?;
    let (item, key) = incoming.into_item(universe.plane().now_ns(), true);
    let answered = universe.answer_call(world, (item, key.as_deref()), &headers, timeout, true).await;
    // Another process that takes the call makes the room itself. A call without a reply may have been taken.
    let is_stored = match &answered {
        Ok(CallAnswer::Replied { .. }) => true,
        Ok(CallAnswer::Forwarded(_)) => false,
        Err(error) => error.code() == Code::CallTimeout,
    };
    growth.settle(universe, is_stored).await;
    let answered = match answered {
        Ok(CallAnswer::Replied { call, outcome }) => {
            in_time(timeout, answer(universe, call, outcome, &headers)).await?
        }
        Ok(CallAnswer::Forwarded(answered)) => forwarded(answered),
        // What a world waits for is for those who may read.
        Err(error) if tenant.may_read => return Err(Box::pin(explained(universe, world, error.into())).await),
        Err(error) => return Err(error.into()),
    };
    Ok(naming_holder(universe, world, &headers, answered).await)
}

/// Of a call without a reply also what its world waits for, if that is known at once: a caller would ask next.
async fn explained(universe: &Universe, world: WorldId, problem: Problem) -> Problem {
    if problem.code != Code::CallTimeout {
        return problem;
    }
    let Ok(Ok(why)) = tokio::time::timeout(DEADLINE_GRACE, universe.ops().why(world)).await else { return problem };
    let is_news = |cause: &&Cause| !matches!(cause, Cause::NothingToDo | Cause::Lease { lives: true, .. });
    match why.causes.iter().find(is_news) {
        Some(cause) => Problem { detail: format!("{}. Why it does not move: {cause}", problem.detail), ..problem },
        None => problem,
    }
}

/// The answer, with the address of the process that holds the world if that is another one and its address is known: a client that
/// sends its next request there spares both processes the forwarding.
async fn naming_holder(universe: &Universe, world: WorldId, request: &HeaderMap, mut answer: Response) -> Response {
    if !request.contains_key(FORWARDED_TO)
        && let Ok(Some(address)) = tokio::time::timeout(DEADLINE_GRACE, universe.address_of_holder(world)).await
        && let Ok(address) = HeaderValue::from_str(address.as_str())
    {
        answer.headers_mut().insert(HOLDER, address);
    }
    answer
}

/// Bounds all that a request waits for by its own deadline: a database that is away, a world that does not get on. A little later
/// than the wait for a reply ends by itself, because the error of that one names the call.
pub(super) async fn in_time<T>(
    timeout: Duration,
    answer: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    match tokio::time::timeout(timeout.saturating_add(DEADLINE_GRACE), answer).await {
        Ok(answer) => answer,
        Err(_) => Err(late(timeout)),
    }
}

/// The answer to a request that was not done in time.
fn late(timeout: Duration) -> Problem {
    let detail = format!(
        "no answer within {timeout:?}, and whether it was done is not known; under the same Idempotency-Key it is done once"
    );
    Problem::new(Code::CallTimeout, detail)
}

/// A call that was forwarded to this process is for it, or for nobody here.
fn check_meant(api: &Api, universe: &Universe, world: WorldId, meant: &HeaderValue) -> Result<(), Problem> {
    if meant.as_bytes() == api.node.worker().to_string().as_bytes() && universe.holds(world) {
        return Ok(());
    }
    Err(Problem::new(Code::WorldElsewhere, format!("{world} is not held here")))
}

/// The answer of the process that holds the world.
fn forwarded(Answered { status, headers, body }: Answered) -> Response {
    let mut answer = (status, body).into_response();
    for name in [header::CONTENT_TYPE, header::RETRY_AFTER, CALL] {
        if let Some(value) = headers.get(&name) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

/// The reply to a call that was made before.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/calls/{call}", tag = "events", params(WaitParams),
    responses((status = 200, description = "The reply", body = serde_json::Value)),
)]
pub(super) async fn reply(
    WorldScope { api, universe, world, tenant }: WorldScope<READ>,
    name: Name,
    Params(params): Params<WaitParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (call, timeout) = (name.parse()?, params.timeout(&api)?);
    let _held = api.node.begin(&universe, tenant, Quota::Calls)?;
    let replied = async {
        universe.ops().describe_world(world).await?; // else a world that is not there would be waited for
        let outcome = universe.ops().reply(world, call, timeout).await?;
        answer(&universe, call, outcome, &headers).await
    };
    in_time(timeout, replied).await
}

async fn answer(
    universe: &Universe,
    call: CallId,
    outcome: ReplyOutcome,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let payload = match outcome {
        ReplyOutcome::Ok(payload) => payload,
        ReplyOutcome::Failed(code, reason, height) => {
            let code = Code::from_name(&code).unwrap_or(Code::ProgramFailed);
            return Err(Problem { call: Some(call), height, ..Problem::new(code, reason) });
        }
    };
    let bytes = match payload {
        Payload::Inline(bytes) => bytes,
        Payload::Blob(hash, _) => Box::pin(Blobs::get(universe.plane().blobs(), universe.id(), hash)).await?.to_vec(),
    };
    let call = [(CALL, call.to_string())];
    if text_header(headers, "accept") == Some("application/cbor") {
        return Ok((call, [(header::CONTENT_TYPE, "application/cbor")], bytes).into_response());
    }
    Ok((call, Json(json::bytes(&bytes))).into_response())
}

/// Sends several events together and in their order, or none of them: a list of events, a list of CloudEvents
/// (`application/cloudevents-batch+json`), or one CloudEvent (`application/cloudevents+json`, or `ce-` headers).
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/events", tag = "events",
    request_body(content = Vec<BatchEvent>),
    responses((status = 202, body = Vec<Sent>)),
)]
pub(super) async fn batch(
    Ingress { of: WorldScope { api, universe, world, tenant }, .. }: Ingress<false>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, Problem> {
    api.node.admit_to(&universe, world)?;
    let incoming = incoming(&headers, &body)?;
    let (count, max) = (incoming.len(), limits::INBOX_BATCH_ITEMS_MAX);
    if count > max {
        return Err(Problem::new(Code::RequestTooLarge, format!("{count} events: a batch has at most {max}")));
    }
    // One of them was admitted already.
    api.node.note_events(&universe, tenant, (count as u64).saturating_sub(1));
    incoming.iter().try_for_each(Incoming::check)?;
    universe.ops().check_events(world, incoming.iter().map(Incoming::checked)).await?;
    let growth = api.node.grow_payloads(&universe, tenant, incoming.iter().map(|event| event.value.len())).await?;
    let now_ns = universe.plane().now_ns();
    let item = |incoming: Incoming| {
        let (item, key) = incoming.into_item(now_ns, false);
        NewItem { item, dedupe: key.as_deref().map(DedupeId::idempotency_key) }
    };
    let items: Vec<_> = incoming.into_iter().map(item).collect();
    let hashes: Vec<_> = items.iter().map(|new| new.item.input.event_hash()).collect();
    let placed = universe.ops().enqueue_batch(world, items).await;
    growth.settle(&universe, placed.is_ok()).await;
    let placed = placed?.into_iter().zip(hashes);
    let sent: Vec<Sent> = placed.map(|(enqueued, hash)| Sent::new(enqueued, hash)).collect();
    Ok((StatusCode::ACCEPTED, Json(sent)).into_response())
}

fn incoming(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Incoming>, Problem> {
    if is(headers, "application/cloudevents-batch+json") {
        return read::<Vec<CloudEvent>>(body)?.into_iter().map(Incoming::try_from).collect();
    }
    if is(headers, "application/cloudevents+json") {
        return Ok(vec![read::<CloudEvent>(body)?.try_into()?]);
    }
    if headers.contains_key("ce-id") {
        return Ok(vec![binary_cloud_event(headers, body)?]);
    }
    let trace = traceparent(text_header(headers, "traceparent"));
    let one = |event: BatchEvent| {
        let BatchEvent { event, value, key, idempotency_key } = event;
        let value = mundi_model::cbor::encode(&json::given(value)?);
        Ok(Incoming { event, value, key, idempotency_key, correlation_id: None, trace: trace.clone() })
    };
    read::<Vec<BatchEvent>>(body)?.into_iter().map(one).collect()
}

impl TryFrom<CloudEvent> for Incoming {
    type Error = Problem;

    fn try_from(cloud: CloudEvent) -> Result<Self, Problem> {
        if cloud.specversion != "1.0" {
            return Err(Problem::invalid(format!("specversion `{}`: expected `1.0`", cloud.specversion)));
        }
        Ok(Self {
            value: mundi_model::cbor::encode(&json::given(cloud.data)?),
            event: cloud.event,
            key: cloud.subject,
            idempotency_key: Some(cloud_key(&cloud.source, &cloud.id)),
            correlation_id: Some(cloud.id),
            trace: traceparent(cloud.traceparent.as_deref()),
        })
    }
}

/// Source and id together are what is unique. They may be long, so their hash stands for them.
fn cloud_key(source: &str, id: &str) -> String {
    format!("cloudevents/{}", Hash::of_parts([source.as_bytes(), b"\0", id.as_bytes()]))
}

fn binary_cloud_event(headers: &HeaderMap, body: &[u8]) -> Result<Incoming, Problem> {
    let need = |name: &str| {
        let missing = || Problem::invalid(format!("a CloudEvent in binary form needs the header `{name}`"));
        text_header(headers, name).map(str::to_owned).ok_or_else(missing)
    };
    let cloud = CloudEvent {
        specversion: need("ce-specversion")?,
        id: need("ce-id")?,
        source: need("ce-source")?,
        event: need("ce-type")?,
        subject: text_header(headers, "ce-subject").map(str::to_owned),
        traceparent: text_header(headers, "traceparent").map(str::to_owned),
        data: serde_json::Value::Null,
    };
    Ok(Incoming { value: value_of_json(body)?, ..cloud.try_into()? })
}
