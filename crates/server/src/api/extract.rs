//! Extractors: the universe and the world of a path, with the permission to use them;
//! parameters; bodies within their bounds and their time.

use super::{Api, ApiLimits, Problem, access::Access, json};
use crate::{
    bodies::BodiesFull,
    node::{Tenant, Universe},
    quotas::{Held, Quota},
    serve::{Client, Connection},
};
use axum::{
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use mundi_model::{Code, Coded, Hash, ParseIdError, Value, WorldAddress, WorldId, cbor, json::JsonError, limits};
use mundi_runtime::metrics::Metric;
use serde::de::DeserializeOwned;
use std::{fmt::Display, sync::Arc, time::Duration};
use tokio::time::Instant;

/// The verbs of a token. Their bits are persisted in tokens.
pub(crate) const READ: u32 = 1;
pub(crate) const SEND: u32 = 2;
pub(crate) const ADMIN: u32 = 4;
pub(crate) const WORK: u32 = 8;
pub(crate) const METRICS: u32 = 16;

/// No right: it marks requests that are served while the process refuses new work.
const SETTLES: u32 = 1 << 31;
/// [`SEND`], for what ends or keeps something that is there: it frees more than it costs, or keeps what is paid for.
pub(crate) const SEND_ALWAYS: u32 = SEND | SETTLES;

/// Whether requests with this right are new work, which an overloaded process or world refuses.
pub(crate) const fn is_new_work(verb: u32) -> bool {
    verb & SEND != 0 && verb & SETTLES == 0
}

/// A universe, and the right to do `VERB` in it.
pub(crate) struct UniverseScope<const VERB: u32> {
    pub(crate) api: Api,
    pub(crate) universe: Arc<Universe>,
    pub(crate) tenant: Tenant,
}

/// A world of a universe, and the right to do `VERB` in it. That it exists is not known yet.
pub(crate) struct WorldScope<const VERB: u32> {
    pub(crate) api: Api,
    pub(crate) universe: Arc<Universe>,
    pub(crate) world: WorldId,
    pub(crate) tenant: Tenant,
}

/// The right to do `VERB` in all universes.
pub(crate) struct AllUniverses<const VERB: u32>(pub(crate) Api);

async fn params(parts: &mut Parts, api: &(impl Sync + ?Sized)) -> Result<RawPathParams, Problem> {
    RawPathParams::from_request_parts(parts, &api).await.map_err(|error| Problem::invalid(error.to_string()))
}

pub(crate) fn param<'p>(params: &'p RawPathParams, name: &str) -> &'p str {
    params.iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value)
}

/// Access is checked before existence: a token without access does not learn whether a universe exists.
pub(crate) async fn enter(
    api: &Api,
    headers: &HeaderMap,
    client: Option<&Arc<Client>>,
    name: &str,
    verb: u32,
) -> Result<(Arc<Universe>, Tenant), Problem> {
    let access = Access::decide(api, headers, client).await?;
    let universe = api.node.universe(name);
    let id = universe.as_ref().map(|universe| universe.id());
    access.require(verb & !SETTLES, id)?;
    if let (Some(client), Some(id)) = (client, id) {
        client.enter(id);
    }
    if is_new_work(verb) {
        api.node.admit()?;
    }
    let missing = || Problem::new(Code::UniverseNotFound, format!("there is no universe `{name}`"));
    Ok((universe.ok_or_else(missing)?, access.tenant()))
}

/// An event is about to come in, from this tenant: refused before its body is read. A call ends when the returned guard is dropped.
pub(crate) fn admit(api: &Api, universe: &Universe, tenant: Tenant, is_call: bool) -> Result<Option<Held>, Problem> {
    let held = is_call.then(|| api.node.begin(universe, tenant, Quota::Calls)).transpose()?;
    api.node.admit_event(universe, tenant)?;
    Ok(held)
}

/// A world that an event is sent to or called with.
pub(crate) struct Ingress<const IS_CALL: bool, const VERB: u32 = SEND> {
    pub(crate) of: WorldScope<VERB>,
    /// Of a call: until it is answered.
    pub(crate) _held: Option<Held>,
}

impl<const IS_CALL: bool, const VERB: u32> FromRequestParts<Api> for Ingress<IS_CALL, VERB> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let of = WorldScope::<VERB>::from_request_parts(parts, api).await?;
        let held = admit(api, &of.universe, of.tenant, IS_CALL)?;
        Ok(Self { of, _held: held })
    }
}

/// The connection that a request came by: there for all that come through a server.
pub(crate) fn client(parts: &Parts) -> Option<&Arc<Client>> {
    parts.extensions.get::<Connection>().map(|connection| &connection.0)
}

impl<const VERB: u32> FromRequestParts<Api> for UniverseScope<VERB> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let params = params(parts, api).await?;
        let (universe, tenant) = enter(api, &parts.headers, client(parts), param(&params, "universe"), VERB).await?;
        Ok(Self { universe, tenant, api: api.clone() })
    }
}

impl<const VERB: u32> FromRequestParts<Api> for WorldScope<VERB> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let params = params(parts, api).await?;
        let (universe, tenant) = enter(api, &parts.headers, client(parts), param(&params, "universe"), VERB).await?;
        let world = world_of(&universe, param(&params, "world")).await?;
        Ok(Self { universe, world, tenant, api: api.clone() })
    }
}

impl<const VERB: u32> FromRequestParts<Api> for AllUniverses<VERB> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        Access::from_request_parts(parts, api).await?.require_everywhere(VERB)?;
        Ok(Self(api.clone()))
    }
}

/// A world by its id or its name.
pub(crate) async fn world_of(universe: &Universe, name: &str) -> Result<WorldId, Problem> {
    Ok(universe.world_at(&address_of(name)?).await?)
}

/// The world that a filter names, if it does.
pub(crate) async fn wanted_world(universe: &Universe, name: Option<&str>) -> Result<Option<WorldId>, Problem> {
    match name {
        Some(name) => world_of(universe, name).await.map(Some),
        None => Ok(None),
    }
}

pub(crate) fn address_of(name: &str) -> Result<WorldAddress, Problem> {
    name.parse().map_err(|error: ParseIdError| Problem::new(Code::NameInvalid, error.to_string()))
}

/// The last part of the address.
pub(crate) struct Name(pub(crate) String);

impl FromRequestParts<Api> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let params = params(parts, api).await?;
        name(params.iter().last().map_or("", |(_, value)| value)).map(Self)
    }
}

pub(crate) fn name(last: &str) -> Result<String, Problem> {
    if last.is_empty() || last.len() > limits::CELL_KEY_BYTES_MAX {
        return Err(Problem::invalid("the last part of the address is empty or too long"));
    }
    Ok(last.to_owned())
}

impl Name {
    pub(crate) fn parse<T: std::str::FromStr<Err = mundi_model::ParseIdError>>(&self) -> Result<T, Problem> {
        Ok(self.0.parse()?)
    }
}

/// Query parameters; one that is not known is an error.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        query.map(|query| Self(query.0)).map_err(|error| Problem::invalid(error.body_text()))
    }
}

/// The whole body, within the bound of the configuration and the time that a body may take.
pub(crate) struct RawBody(pub(crate) Bytes);

impl FromRequest<Api> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        whole(body, api.limits.body_bytes_max, api, client(&parts)).await.map(Self)
    }
}

/// The code of a program: larger than other bodies may be.
pub(crate) struct Program(pub(crate) Bytes);

impl FromRequest<Api> for Program {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let max = api.limits.body_bytes_max.max(limits::COMPONENT_BYTES_MAX);
        let (parts, body) = request.into_parts();
        whole(body, max, api, client(&parts)).await.map(Self)
    }
}

async fn whole<B>(body: B, max: usize, api: &Api, client: Option<&Arc<Client>>) -> Result<Bytes, Problem>
where
    B: hyper::body::Body<Data = Bytes, Error: Display> + Unpin,
{
    let (max, timeout) = (max.min(api.bodies.budgets().body_bytes_max()), api.limits.body_timeout);
    let large = || Problem::new(Code::RequestTooLarge, format!("a body has at most {max} bytes here"));
    if body.size_hint().lower() > DISCARDED_BYTES_MAX {
        return Err(large());
    }
    let hold = |bytes| {
        client.map_or(Ok(()), |client| client.hold_body(&api.bodies, bytes).inspect_err(|_| client.drop_body()))
    };
    let collected = tokio::time::timeout(timeout, collect(body, max, hold)).await;
    let late = |_| Problem::new(Code::RequestTimeout, format!("the body did not arrive within {timeout:?}"));
    match collected.map_err(late)? {
        Ok(bytes) => Ok(bytes),
        Err(NoBody::TooLarge) => Err(large()),
        Err(NoBody::Full(full)) => {
            api.node.metrics().add(Metric::RefusedBodies, 1);
            Err(full.into())
        }
        Err(NoBody::Broken(error)) => Err(Problem::invalid(format!("the body could not be read: {error}"))),
    }
}

impl From<BodiesFull> for Problem {
    fn from(full: BodiesFull) -> Self {
        Self::new(Code::BodiesFull, full.to_string())
    }
}

/// Why a body was not taken.
enum NoBody<X> {
    TooLarge,
    Full(BodiesFull),
    Broken(X),
}

/// How many bytes a body is said to have; 0 if nothing is said.
pub(crate) fn content_length(request: &Request) -> u64 {
    text_header(request.headers(), "content-length").and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Reads what is left of a body that is refused, and throws it away.
pub(crate) async fn discard<B>(body: B, timeout: Duration)
where
    B: hyper::body::Body<Data = Bytes, Error: Display> + Unpin,
{
    if body.size_hint().lower() <= DISCARDED_BYTES_MAX {
        let nothing = collect(body, 0, |_| Ok(()));
        let _whatever_came = tokio::time::timeout(timeout, nothing).await;
    }
}

/// Bytes that are read of a refused body and thrown away: a client that is cut off while it sends never sees why.
const DISCARDED_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a body. `hold` is asked for the memory that they take.
async fn collect<B>(
    mut body: B,
    max: usize,
    hold: impl Fn(usize) -> Result<(), BodiesFull>,
) -> Result<Bytes, NoBody<B::Error>>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    let (mut bytes, mut first, mut len, mut refused) = (Vec::new(), Bytes::new(), 0u64, None);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(NoBody::Broken)?.into_data() else { continue };
        len += data.len() as u64;
        if len > DISCARDED_BYTES_MAX {
            return Err(NoBody::TooLarge);
        }
        if refused.is_some() {
            continue;
        }
        let room =
            if len > max as u64 { Err(NoBody::TooLarge) } else { make_room(&mut bytes, &first, &data, max, &hold) };
        if let Err(reason) = room {
            (bytes, first, refused) = (Vec::new(), Bytes::new(), Some(reason));
            continue;
        }
        // Nearly every body is one piece, which is taken as it is.
        if first.is_empty() && bytes.is_empty() {
            first = data;
        } else {
            bytes.extend_from_slice(&std::mem::take(&mut first));
            bytes.extend_from_slice(&data);
        }
    }
    match refused {
        Some(reason) => Err(reason),
        None => Ok(if bytes.is_empty() { first } else { bytes.into() }),
    }
}

/// Makes room for a further piece; all memory that is taken for a body is held.
fn make_room<X>(
    bytes: &mut Vec<u8>,
    first: &Bytes,
    data: &Bytes,
    max: usize,
    hold: &impl Fn(usize) -> Result<(), BodiesFull>,
) -> Result<(), NoBody<X>> {
    let len = bytes.len() + first.len() + data.len();
    if len > bytes.capacity() {
        let capacity = len.next_power_of_two().min(max);
        hold(capacity).map_err(NoBody::Full)?;
        if !(bytes.is_empty() && first.is_empty()) {
            bytes.reserve_exact(capacity - bytes.len());
        }
    }
    Ok(())
}

/// A body that is taken piece by piece. Each piece has its time, and all of them together have to come fast enough: a slow client cannot
/// hold a place for ever, a large body may take as long as it needs.
pub(crate) struct Pieces {
    stream: axum::body::BodyDataStream,
    begun: Instant,
    taken: u64,
    timeout: Duration,
    bytes_per_second_min: u64,
}

impl Pieces {
    pub(crate) fn new(body: axum::body::Body, api: &Api) -> Self {
        let ApiLimits { body_timeout: timeout, body_bytes_per_second_min, .. } = api.limits;
        let bytes_per_second_min = body_bytes_per_second_min.max(1);
        Self { stream: body.into_data_stream(), begun: Instant::now(), taken: 0, timeout, bytes_per_second_min }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Problem>> {
        let earned = Duration::from_secs(self.taken / self.bytes_per_second_min);
        let due = (self.begun + self.timeout).checked_add(earned);
        let now = Instant::now();
        let due = due.map_or(now + self.timeout, |due| due.min(now + self.timeout));
        let late = || {
            let rate = self.bytes_per_second_min;
            Problem::new(Code::RequestTimeout, format!("the body came more slowly than {rate} bytes a second"))
        };
        match tokio::time::timeout_at(due, self.stream.next()).await {
            Err(_) => Some(Err(late())),
            Ok(None) => None,
            Ok(Some(Err(error))) => Some(Err(Problem::invalid(format!("the body could not be read: {error}")))),
            Ok(Some(Ok(piece))) => {
                self.taken += piece.len() as u64;
                Some(Ok(piece))
            }
        }
    }

    /// How many bytes have come.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }
}

impl Pieces {
    /// Reads what is left of a body that is refused, and throws it away.
    pub(crate) async fn discard(&mut self) {
        while self.taken <= DISCARDED_BYTES_MAX && matches!(self.next().await, Some(Ok(_))) {}
    }
}

/// A body of a known shape.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Api> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let RawBody(body) = RawBody::from_request(request, api).await?;
        let body = if body.is_empty() { &b"{}"[..] } else { &body };
        read(body).map(Self)
    }
}

/// Decodes a body of a known shape.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    mundi_model::json::read(body).map_err(|error| match error {
        JsonError::Malformed(reason) => Problem::invalid(format!("the body: {reason}")),
        refused => Problem::new(refused.code(), format!("the body: {refused}")),
    })
}

/// A value of any shape, as canonical CBOR: from JSON, or from CBOR as it is.
pub(crate) struct EventBody {
    pub(crate) cbor: Vec<u8>,
    pub(crate) headers: HeaderMap,
}

impl FromRequest<Api> for EventBody {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let client = client(&parts).cloned();
        Self::of(parts.headers, client.as_ref(), body, api).await
    }
}

impl EventBody {
    pub(crate) async fn of<B>(
        headers: HeaderMap,
        client: Option<&Arc<Client>>,
        body: B,
        api: &Api,
    ) -> Result<Self, Problem>
    where
        B: hyper::body::Body<Data = Bytes, Error: Display> + Unpin,
    {
        let body = whole(body, api.limits.body_bytes_max, api, client).await?;
        Ok(Self { cbor: canonical(&headers, &body)?, headers })
    }
}

fn canonical(headers: &HeaderMap, body: &[u8]) -> Result<Vec<u8>, Problem> {
    if is(headers, "application/cbor") {
        let value: Result<Value, _> = cbor::decode(body);
        let Err(error) = value else { return Ok(body.to_vec()) };
        return Err(Problem::new(error.code(), error.to_string()));
    }
    value_of_json(body)
}

/// The canonical CBOR of a JSON text; of no text, null.
pub(crate) fn value_of_json(body: &[u8]) -> Result<Vec<u8>, Problem> {
    if body.is_empty() {
        return Ok(cbor::encode(&Value::Null));
    }
    let mut value = mundi_model::json::parse(body).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    if body.contains(&b'$') {
        value = json::unmarked(value)?;
    }
    Ok(cbor::encode(&value))
}

/// Whether the body is of this type.
pub(crate) fn is(headers: &HeaderMap, content_type: &str) -> bool {
    let found = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    found.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(content_type)
}

/// A header that is text.
pub(crate) fn text_header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A hash in an address.
pub(crate) fn hash(name: &Name) -> Result<Hash, Problem> {
    name.parse()
}

/// How long a claim is valid without a heartbeat: 30 s unless the worker says so. Nobody else can end what a worker holds that is gone.
pub(crate) fn claim_ttl(text: Option<&str>) -> Result<Duration, Problem> {
    let (max_s, ttl) = (limits::CLAIM_TTL_S_MAX, text.map_or(Ok(Duration::from_secs(30)), duration)?);
    match ttl.as_secs() <= max_s {
        true => Ok(ttl.max(Duration::from_secs(1))),
        false => Err(Problem::invalid(format!("ttl: at most {max_s} s; a heartbeat extends it"))),
    }
}

/// `10s`, `250ms`, `5m`, `2h`, `1d`: a number and its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, Problem> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit_ms: Option<u64> = match &text[digits..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let ms = unit_ms.and_then(|unit| text[..digits].parse::<u64>().ok()?.checked_mul(unit));
    let invalid = || Problem::invalid(format!("`{text}` is no duration: expected a number and one of ms, s, m, h, d"));
    ms.map(Duration::from_millis).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(duration("2h").unwrap(), Duration::from_secs(7_200));
        for bad in ["", "s", "10", "-1s", "1w", "1.5s", "99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(duration(bad).unwrap_err().code, Code::RequestInvalid, "{bad}");
        }
    }
}
