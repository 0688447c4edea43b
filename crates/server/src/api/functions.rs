//! Instances of durable functions. They are read from a world's cells, whose layout the SDKs share; no code runs for that.

use super::{
    ListPage, Problem,
    events::{WaitParams, in_time},
    extract::{EventBody, Ingress, Name, Params, READ, SEND_ALWAYS, WorldScope},
    json, limit,
    moment::Moment,
};
use crate::node::{FORWARDED_TO, Universe};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue},
};
use mundi_model::{
    Code, Height, WorldId, cbor, limits,
    record::{InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_runtime::{
    Plane, RuntimeError,
    control::{At, CallAnswer},
    lifecycle::FUNCTIONS_INBOX,
};
use mundi_store::blob::Blobs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use utoipa::{IntoParams, ToSchema};

/// Where instances are: `$fn/i/FUNCTION/KEY`.
const HEADS: &str = "$fn/i/";
/// Where their logs are: awaits in cells of their own, `$fn/l/FUNCTION/KEY/NNNNNN`, and in pages, `$fn/p/FUNCTION/KEY/NNNNNN`.
const LOGS: [&str; 2] = ["$fn/p/", "$fn/l/"];
/// Cells that are read at a time.
const PAGE_ITEMS: usize = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionsParams {
    /// Only instances of this function.
    function: Option<String>,
    /// Only instances in this state: `running`, `done`, `failed`, `cancelled` or `diverged`. A page may then have fewer items than `limit`.
    state: Option<String>,
    /// The world as it was before the record at this height; as it is if nothing is said.
    at: Option<u64>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Something that an instance waits for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FunctionWait {
    /// The number of the await.
    number: u64,
    /// `effect`, `timer`, `event` or `signal`.
    kind: String,
    /// The kind of the effect, the name of the event; `sleep` or `until` of a timer.
    name: String,
    since: Moment,
    waited_ms: u64,
}

/// An instance of a durable function.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FunctionInstance {
    /// `FUNCTION/KEY`.
    instance: String,
    function: String,
    key: String,
    /// `running`, `done`, `failed`, `cancelled` or `diverged`.
    state: String,
    /// It keeps what comes in, and does not go on.
    paused: bool,
    began: Moment,
    ended: Option<Moment>,
    /// How often it has started over.
    run: u64,
    /// Awaits so far.
    awaits: u64,
    waits: Vec<FunctionWait>,
    /// The status that the function set.
    status: Value,
    result: Value,
    /// Why it ended or stands still: `code`, `message` and the number of the `await`.
    error: Value,
}

/// An await on record.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FunctionAwait {
    number: u64,
    kind: String,
    name: String,
    /// `open`, `ok`, `error` or `cancelled`.
    state: String,
    /// How often an effect was asked for.
    attempts: Option<u64>,
    asked: Moment,
    /// The height of the step that asked.
    asked_at: u64,
    ended: Option<Moment>,
    /// The height of the record that ended it: a fork there has not seen its result.
    ended_at: Option<u64>,
    value: Value,
}

/// An instance with all that is on record of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FunctionDescription {
    #[serde(flatten)]
    of: FunctionInstance,
    input: Value,
    log: Vec<FunctionAwait>,
    /// The log has more bytes than an answer: awaits are missing. All of them are in the cells under `$fn/`.
    is_cut: bool,
}

/// Nanoseconds, which are more than JSON numbers hold.
fn ns(value: &Value) -> u64 {
    let large = || value["$integer"].as_str().and_then(|text| text.parse().ok());
    value.as_u64().or_else(large).unwrap_or(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl FunctionInstance {
    fn new(head: &Value, now_ns: u64) -> Self {
        let (function, key) = (text(&head["function"]), text(&head["key"]));
        let wait = |wait: &Value| FunctionWait {
            number: ns(&wait[0]),
            kind: text(&wait[1]),
            name: text(&wait[2]),
            since: Moment::of(ns(&wait[3])),
            waited_ms: now_ns.saturating_sub(ns(&wait[3])) / 1_000_000,
        };
        Self {
            instance: format!("{function}/{key}"),
            function,
            key,
            state: text(&head["state"]),
            paused: head["paused"] == true,
            began: Moment::of(ns(&head["began_ns"])),
            ended: Moment::unless_zero(ns(&head["ended_ns"])),
            run: ns(&head["run"]),
            awaits: ns(&head["asked"]),
            waits: head["waits"].as_array().map(|waits| waits.iter().map(wait).collect()).unwrap_or_default(),
            status: head["status"].clone(),
            result: head["result"].clone(),
            error: head["error"].clone(),
        }
    }
}

impl FunctionAwait {
    /// The columns of a row are those of `sdk/typescript/src/function-cells.ts`.
    fn new(row: &Value) -> Self {
        Self {
            number: ns(&row[0]),
            kind: text(&row[1]),
            name: text(&row[2]),
            state: text(&row[3]),
            attempts: row[12].as_u64(),
            asked: Moment::of(time(&row[9])),
            asked_at: ns(&row[10]),
            ended: Moment::unless_zero(time(&row[5])),
            ended_at: row[11].as_u64(),
            value: row[6].clone(),
        }
    }
}

/// A time of a row is a text.
fn time(column: &Value) -> u64 {
    column.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The rows of a cell of a log: one, or those of a page. A value that has no exact JSON is beside its row.
fn rows(cell: &Value) -> Vec<Value> {
    let text = cell.as_str().or_else(|| cell["row"].as_str()).unwrap_or_default();
    let mut rows: Vec<Value> = serde_json::from_str(&format!("[{text}]")).unwrap_or_default();
    if let (Some(value), [row]) = (cell.get("value"), &mut *rows) {
        row[6] = value.clone();
    }
    rows
}

/// The instances of durable functions of a world, in the order of their names.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/functions", tag = "functions", params(FunctionsParams),
    responses((status = 200, body = ListPage<FunctionInstance>)),
)]
pub(super) async fn list(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Params(params): Params<FunctionsParams>,
) -> Result<Json<ListPage<FunctionInstance>>, Problem> {
    let (at, items_max) = (At { world, height: params.at.map(Height::new) }, limit(params.limit)?);
    let (heads, next) = instances(&universe, at, params.function.as_deref(), params.after, items_max).await?;
    let is_wanted = |head: &FunctionInstance| params.state.as_ref().is_none_or(|state| *state == head.state);
    Ok(Json(ListPage { items: heads.into_iter().filter(is_wanted).collect(), next }))
}

/// A page of the instances of a world, or of one function, and where the next one begins.
pub(super) async fn instances(
    universe: &Universe,
    at: At,
    function: Option<&str>,
    after: Option<String>,
    items_max: usize,
) -> Result<(Vec<FunctionInstance>, Option<String>), Problem> {
    let prefix = function.map_or_else(|| HEADS.to_owned(), |function| format!("{HEADS}{function}/"));
    let after = after.map(|after| format!("{HEADS}{after}"));
    let found = universe.ops().world_cells(at, &prefix, after.as_deref(), items_max).await?;
    let next = found.last().and_then(|(key, _)| key.strip_prefix(HEADS)).map(str::to_owned);
    let now_ns = universe.plane().now_ns();
    Ok((found.iter().map(|(_, bytes)| FunctionInstance::new(&json::bytes(bytes), now_ns)).collect(), next))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionParams {
    /// The world as it was before the record at this height; as it is if nothing is said.
    at: Option<u64>,
}

/// An instance of a durable function, by `FUNCTION/KEY`, with every await on record.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/functions/{instance}", tag = "functions", params(FunctionParams),
    responses((status = 200, body = FunctionDescription)),
)]
pub(super) async fn describe(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Name(instance): Name,
    Params(params): Params<FunctionParams>,
) -> Result<Json<FunctionDescription>, Problem> {
    let at = At { world, height: params.at.map(Height::new) };
    let head = head(&universe, at, &instance).await?;
    let (mut log, mut bytes_left) = (BTreeMap::new(), limits::FUNCTION_LOG_SHOWN_BYTES_MAX);
    for prefix in LOGS.map(|logs| format!("{logs}{instance}/")) {
        let mut after = None::<String>;
        while bytes_left > 0 {
            let page = universe.ops().world_cells(at, &prefix, after.as_deref(), PAGE_ITEMS).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            bytes_left = page.iter().fold(bytes_left, |left, (_, bytes)| left.saturating_sub(bytes.len()));
            let found = page.iter().flat_map(|(_, bytes)| rows(&json::bytes(bytes)));
            log.extend(found.map(|row| (ns(&row[0]), FunctionAwait::new(&row))));
        }
    }
    let input = log.remove(&0).map_or(Value::Null, |start| start.value);
    let (of, log) = (FunctionInstance::new(&head, universe.plane().now_ns()), log.into_values().collect());
    Ok(Json(FunctionDescription { of, input, log, is_cut: bytes_left == 0 }))
}

/// An await that a fork begins at.
pub(super) struct OpenAwait {
    pub(super) instance: String,
    pub(super) number: u64,
    /// The height of the record that ended it; none if it is open.
    pub(super) ended_at: Option<u64>,
    /// It ended in the step that asked for it: below that step it is not there yet.
    pub(super) is_instant: bool,
}

/// The await that `FUNCTION/KEY/NUMBER` names.
pub(super) async fn open_await(universe: &Universe, world: WorldId, named: &str) -> Result<OpenAwait, Problem> {
    let invalid = || Problem::invalid(format!("at_await: `{named}`: name an await by FUNCTION/KEY/NUMBER"));
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(invalid);
    let (instance, number) = match named.rsplit_once('/') {
        Some((instance, text)) if instance.contains('/') => (instance.to_owned(), number(text)?),
        Some(_) => return Err(invalid()),
        None => {
            let number = number(named)?;
            (only_instance(universe, world, number).await?, number)
        }
    };
    let at = At { world, height: None };
    head(universe, at, &instance).await?;
    let (ended_at, is_instant) = match await_of(universe, at, &instance, number).await? {
        Some(FunctionAwait { ended_at: Some(height), asked_at, .. }) => (Some(height), height == asked_at),
        Some(of) if of.state == "open" => (None, false),
        Some(of) => {
            let height = withdrawn_at(universe, world, (&instance, number), of.asked_at).await?;
            (Some(height), height == of.asked_at)
        }
        None => {
            let detail = format!("{instance} has no await {number}");
            return Err(Problem::new(Code::FunctionNotFound, detail));
        }
    };
    Ok(OpenAwait { instance, number, ended_at, is_instant })
}

/// The one instance of a world whose awaits can be named by their numbers alone.
async fn only_instance(universe: &Universe, world: WorldId, number: u64) -> Result<String, Problem> {
    let at = At { world, height: None };
    let found = universe.ops().world_cells(at, HEADS, None, limits::FUNCTIONS_NAMED_MAX).await?;
    let names: Vec<_> = found.iter().filter_map(|(key, _)| key.strip_prefix(HEADS)).collect();
    match *names {
        [only] => Ok(only.to_owned()),
        [] => Err(Problem::new(Code::FunctionNotFound, format!("{world} has no instance of a durable function"))),
        [first, ..] => {
            let shown = names.join(", ");
            let detail =
                format!("at_await: {world} has several instances, {shown}: name an await of one, as {first}/{number}");
            Err(Problem::invalid(detail))
        }
    }
}

/// An await on record, in a cell of its own or in a page.
async fn await_of(
    universe: &Universe,
    at: At,
    instance: &str,
    number: u64,
) -> Result<Option<FunctionAwait>, RuntimeError> {
    let own = universe.ops().world_cell(at, &format!("{}{instance}/{number:06}", LOGS[1])).await?;
    let mut found = own.map(|bytes| rows(&json::bytes(&bytes))).unwrap_or_default();
    let (prefix, mut after) = (format!("{}{instance}/", LOGS[0]), None::<String>);
    while found.is_empty() {
        let page = universe.ops().world_cells(at, &prefix, after.as_deref(), PAGE_ITEMS).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page.iter().flat_map(|(_, bytes)| rows(&json::bytes(bytes))).filter(|row| ns(&row[0]) == number));
    }
    Ok(found.first().map(FunctionAwait::new))
}

/// The height of the record in whose step an await was withdrawn, which its row does not tell: found by bisection over the past of the world,
/// in which the await is open up to that step and withdrawn after it.
async fn withdrawn_at(
    universe: &Universe,
    world: WorldId,
    (instance, number): (&str, u64),
    asked_at: u64,
) -> Result<u64, Problem> {
    let is_withdrawn = async |height: u64| {
        let at = At { world, height: Some(Height::new(height)) };
        let found = await_of(universe, at, instance, number).await?;
        Ok::<_, RuntimeError>(found.is_some_and(|of| of.asked_at == asked_at && of.state == "cancelled"))
    };
    let head = universe.ops().describe_world(world).await?.head.map_or(0, |head| head.height.get());
    let (mut before, mut after) = (asked_at, head);
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        // The cells are those after a step as soon as its first record is there.
        match is_withdrawn(middle).await? {
            true => after = middle,
            false => before = middle,
        }
    }
    Ok(before)
}

async fn head(universe: &Universe, at: At, instance: &str) -> Result<Value, Problem> {
    let found = universe.ops().world_cell(at, &format!("{HEADS}{instance}")).await?;
    let missing = || {
        let detail = format!("{} has no instance `{instance}`: instances are named FUNCTION/KEY", at.world);
        Problem::new(Code::FunctionNotFound, detail)
    };
    found.map(|bytes| json::bytes(&bytes)).ok_or_else(missing)
}

/// Runs a durable function under a key, and answers with its result. The same key with the same input finds the instance again, also
/// after this answer was lost or timed out; with another input it is refused.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/functions/{instance}", tag = "functions", params(WaitParams),
    request_body(content = serde_json::Value, description = "The input of the function: JSON, or canonical CBOR"),
    responses((status = 200, description = "The result", body = serde_json::Value)),
)]
pub(super) async fn run(
    Ingress { of: WorldScope { api, universe, world, .. }, _held }: Ingress<true>,
    Name(instance): Name,
    Params(params): Params<WaitParams>,
    EventBody { cbor: value, .. }: EventBody,
) -> Result<Json<Value>, Problem> {
    api.node.admit_to(&universe, world)?;
    let timeout = params.timeout(&api)?;
    let fits = |text: &str| (1..=limits::NAME_BYTES_MAX).contains(&text.len());
    let named = instance.split_once('/').filter(|(function, key)| fits(function) && fits(key));
    let (function, key) = named.ok_or_else(|| {
        let max = limits::NAME_BYTES_MAX;
        let detail = format!("name an instance by FUNCTION/KEY, each of 1 to {max} bytes");
        Problem::new(Code::FunctionKeyInvalid, detail)
    })?;
    let input = Input::Event { schema: function.to_owned(), value: Payload::Inline(value), key: Some(key.to_owned()) };
    Ok(Json(in_time(timeout, ask(&universe, world, input, timeout)).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelParams {
    /// The reason that the function gets.
    reason: Option<String>,
    /// How long to wait until the world has taken it in: `30s` if nothing is said.
    #[param(example = "5s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    timeout: Option<String>,
}

/// The result of a command about an instance.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FunctionState {
    instance: String,
    /// The state after the command. One that cleans up first is still `running`.
    state: String,
}

/// Cancels an instance: what it waits for ends with `FUNCTION_CANCELLED`, and its cleanup runs. One that has ended stays as it is.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/worlds/{world}/functions/{instance}", tag = "functions", params(CancelParams),
    responses((status = 200, body = FunctionState)),
)]
pub(super) async fn cancel(
    Ingress { of: WorldScope { api, universe, world, .. }, _held }: Ingress<true, SEND_ALWAYS>,
    Name(instance): Name,
    Params(params): Params<CancelParams>,
) -> Result<Json<FunctionState>, Problem> {
    let timeout = WaitParams { timeout: params.timeout }.timeout(&api)?;
    let mut command = serde_json::json!({ "cancel": instance });
    if let Some(reason) = params.reason {
        command["reason"] = reason.into();
    }
    in_time(timeout, obey(&universe, world, &instance, command, timeout)).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PauseParams {
    /// Whether it keeps what comes in and does not go on.
    paused: bool,
    /// How long to wait until the world has taken it in: `30s` if nothing is said.
    #[param(example = "5s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    timeout: Option<String>,
}

/// Pauses an instance, or lets it go on with what came in meanwhile.
#[utoipa::path(
    put, path = "/v1/u/{universe}/worlds/{world}/functions/{instance}", tag = "functions", params(PauseParams),
    responses((status = 200, body = FunctionState)),
)]
pub(super) async fn pause(
    Ingress { of: WorldScope { api, universe, world, .. }, _held }: Ingress<true, SEND_ALWAYS>,
    Name(instance): Name,
    Params(params): Params<PauseParams>,
) -> Result<Json<FunctionState>, Problem> {
    let timeout = WaitParams { timeout: params.timeout }.timeout(&api)?;
    let command = if params.paused {
        serde_json::json!({ "pause": instance })
    } else {
        serde_json::json!({ "resume": instance })
    };
    in_time(timeout, obey(&universe, world, &instance, command, timeout)).await
}

async fn obey(
    universe: &Universe,
    world: WorldId,
    instance: &str,
    command: Value,
    timeout: Duration,
) -> Result<Json<FunctionState>, Problem> {
    head(universe, At { world, height: None }, instance).await?;
    let payload = Payload::Inline(cbor::encode(&json::given(command)?));
    let input = Input::Message { inbox: FUNCTIONS_INBOX.to_owned(), payload, headers: BTreeMap::new() };
    let answer = ask(universe, world, input, timeout).await?;
    Ok(Json(FunctionState { instance: instance.to_owned(), state: text(&answer["state"]) }))
}

/// Gives a world an input and waits for its program's reply.
async fn ask(universe: &Universe, world: WorldId, input: Input, timeout: Duration) -> Result<Value, Problem> {
    let origin = Origin { wants_reply: true, ..Origin::new(universe.plane().now_ns()) };
    // A call that is forwarded is an event without a key: this one goes through the inbox wherever the world is.
    let headers = HeaderMap::from_iter([(FORWARDED_TO, HeaderValue::from_static("functions"))]);
    let answer = universe.answer_call(world, (InboxItem { input, origin }, None), &headers, timeout, true).await?;
    let CallAnswer::Replied { call, outcome } = answer else {
        return Err(Problem::new(Code::WorldElsewhere, format!("{world} is not held here")));
    };
    let payload = match outcome {
        ReplyOutcome::Ok(payload) => payload,
        ReplyOutcome::Failed(code, reason, height) => {
            // The SDK's own refusals begin with their code.
            let own = reason.split_once(": ").and_then(|(name, rest)| Some((function_code(name)?, rest.to_owned())));
            let other = || (Code::from_name(&code).unwrap_or(Code::ProgramFailed), reason.clone());
            let (code, detail) = own.unwrap_or_else(other);
            return Err(Problem { call: Some(call), height, ..Problem::new(code, detail) });
        }
    };
    let bytes = match payload {
        Payload::Inline(bytes) => bytes,
        Payload::Blob(hash, _) => Box::pin(Blobs::get(universe.plane().blobs(), universe.id(), hash)).await?.to_vec(),
    };
    let value = json::bytes(&bytes);
    match value.get("$function_failed") {
        None => Ok(value),
        Some(failed) => {
            let state = text(&failed["state"]);
            let code = if state == "cancelled" { Code::FunctionCancelled } else { Code::FunctionFailed };
            let (message, number) = (text(&failed["message"]), ns(&failed["await"]));
            let why = text(&failed["code"]);
            let detail = format!("{} {state} at await {number}: {why}: {message}", text(&failed["instance"]));
            Err(Problem { call: Some(call), ..Problem::new(code, detail) })
        }
    }
}

fn function_code(name: &str) -> Option<Code> {
    Code::from_name(name).filter(|_| name.starts_with("FUNCTION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_read_from_its_cell() {
        let head = serde_json::json!({
            "function": "order", "key": "17", "state": "running", "asked": 2, "run": 0,
            "began_ns": { "$integer": "1795007692394862689" },
            "waits": [[2, "effect", "stock.reserve", { "$integer": "1795007692000000000" }]],
        });
        let instance = FunctionInstance::new(&head, 1_795_007_693_000_000_000);
        assert_eq!((&*instance.instance, instance.awaits, instance.paused), ("order/17", 2, false));
        assert_eq!((instance.waits[0].number, instance.waits[0].waited_ms), (2, 1_000));
        assert!(instance.ended.is_none() && instance.error.is_null());
    }

    #[test]
    fn only_codes_of_functions_are_taken_from_a_reason() {
        assert_eq!(function_code("FUNCTION_KEY_REUSED"), Some(Code::FunctionKeyReused));
        assert_eq!(function_code("WORLD_NOT_FOUND"), None);
        assert_eq!(function_code("FUNCTION_OF_SOMEBODY"), None);
    }
}
