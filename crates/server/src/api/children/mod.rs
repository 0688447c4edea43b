//! Children of worlds: what there is, spawn, cancel, events and budgets (`docs/guides/children.md`).
//!
//! A change is recognized by its `client_request_id`, or by the header `Idempotency-Key`, which means the same. Sent again, it gets the same answer;
//! with another payload it is refused.

mod events;
mod tasks;

pub(super) use events::{__path_events, events};
pub(super) use tasks::{
    __path_claim, __path_complete, __path_fail, __path_heartbeat, __path_report, __path_start, claim, complete, fail,
    heartbeat, report, start,
};

use super::{
    Api, ListPage, Problem,
    access::By,
    events::idempotency_key,
    extract::{ADMIN, JsonBody, Params, READ, WorldScope, param},
    json, limit,
    moment::Moment,
    naming::{NamesWorld, with_name, with_names},
};
use crate::node::{Tenant, Universe};
use axum::{
    Json,
    extract::{FromRequestParts, RawPathParams},
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use mundi_model::{
    Code, Hash, WorldId, cbor,
    child::{ACCOUNTING_MODE, ChildId, DispatchToken, Lane, Spend, spec_params},
    hex,
    json::to_canonical,
    limits,
};
use mundi_runtime::{Plane, control::ClientRequest};
use mundi_store::protocol::{CancelRequested, Page};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use utoipa::{IntoParams, ToSchema};

/// How long the parent may take to journal the spawn.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(30);

/// A child of a world, and the right to do `VERB` in the world.
pub(crate) struct ChildScope<const VERB: u32> {
    api: Api,
    universe: Arc<Universe>,
    world: WorldId,
    tenant: Tenant,
    child: ChildId,
}

impl<const VERB: u32> FromRequestParts<Api> for ChildScope<VERB> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let scope = WorldScope::<VERB>::from_request_parts(parts, api).await?;
        let WorldScope { api: _, universe, world, tenant } = scope;
        let params = RawPathParams::from_request_parts(parts, api).await;
        let params = params.map_err(|error| Problem::invalid(error.to_string()))?;
        let child = param(&params, "child").parse()?;
        Ok(Self { api: api.clone(), universe, world, tenant, child })
    }
}

/// Amounts per lane: `solver_calls`, `duration_secs`, `tokens`.
type Lanes = BTreeMap<String, u64>;

fn spend(lanes: &Lanes) -> Result<Spend, Problem> {
    let mut spend = Spend::default();
    for (name, amount) in lanes {
        spend.set(lane(name)?, Some(*amount));
    }
    Ok(spend)
}

fn lane(name: &str) -> Result<Lane, Problem> {
    let names = Lane::ALL.map(Lane::as_str).join(", ");
    Lane::from_name(name).ok_or_else(|| Problem::invalid(format!("`{name}` is no budget lane; there are {names}")))
}

fn lanes(spend: Spend) -> Lanes {
    let amount = |lane: Lane| Some((lane.as_str().to_owned(), spend.get(lane)?));
    Lane::ALL.into_iter().filter_map(amount).collect()
}

/// A child: its dispatch token, and how it ended.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Child {
    child_id: String,
    kind: String,
    /// The program's own name for it.
    label: String,
    /// `queued`, `leased`, `started` or `terminal`.
    phase: &'static str,
    /// The world that runs it, of kind `world`, once it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    child_world: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child_world_name: Option<String>,
    parent_session_id: String,
    parent_stream_id: String,
    /// The height of the record that spawned it.
    parent_seq: u64,
    queue_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch_seq: Option<u64>,
    /// It is the `lease_id`, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_run_id: Option<String>,
    params: serde_json::Value,
    budget: Lanes,
    spent: Lanes,
    spawned_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Moment>,
    /// `passed`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_request_id: Option<String>,
}

impl NamesWorld for Child {
    fn world(&self) -> Option<&str> {
        self.child_world.as_deref()
    }

    fn set_name(&mut self, name: String) {
        self.child_world_name = Some(name);
    }
}

impl From<DispatchToken> for Child {
    fn from(token: DispatchToken) -> Self {
        let end = token.end.as_ref();
        let params = json::payload(&token.params);
        Self {
            child_world: token.world().map(|world| world.to_string()),
            child_world_name: None,
            child_id: token.child.to_string(),
            kind: token.kind,
            label: token.label,
            phase: token.phase.as_str(),
            parent_session_id: token.parent.to_string(),
            parent_stream_id: mundi_model::child::parent_stream(token.parent),
            parent_seq: token.parent_seq.get(),
            queue_seq: token.queue_seq,
            dispatch_seq: token.dispatch_seq,
            worker_run_id: token.run.map(|run| run.to_string()),
            params: params.get("params").cloned().unwrap_or(serde_json::Value::Null),
            budget: lanes(token.budget),
            spent: lanes(token.spent),
            spawned_at: Moment::of(token.spawned_at_ns),
            started_at: token.started_at_ns.map(Moment::of),
            ended_at: end.map(|end| Moment::of(end.at_ns)),
            outcome: end.map(|end| end.outcome.as_str()),
            code: end.and_then(|end| end.code.clone()),
            reason: end.and_then(|end| end.reason.clone()),
            cancel_request_id: token.cancel_request_id,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    /// Where the page before ended: its `next`.
    after: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The children of a world, in the order in which they were spawned.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/children", operation_id = "children_list", tag = "children",
    params(ListParams), responses((status = 200, body = ListPage<Child>)),
)]
pub(super) async fn list(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Params(params): Params<ListParams>,
) -> Result<Json<ListPage<Child>>, Problem> {
    let items_max = limit(params.limit)?;
    let items = universe.ops().children(world, params.after, items_max).await?;
    let next = items.last().map(|token| token.queue_seq).filter(|_| items.len() == items_max);
    let Json(page) = ListPage::of(Page { items, next }, Child::from);
    Ok(Json(ListPage { items: with_names(&universe, page.items).await?, ..page }))
}

/// One child.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/children/{child}", operation_id = "children_describe", tag = "children",
    responses((status = 200, body = Child)),
)]
pub(super) async fn describe(
    ChildScope { universe, world, child, .. }: ChildScope<READ>,
) -> Result<Json<Child>, Problem> {
    Ok(Json(with_name(&universe, universe.ops().child(world, child).await?.into()).await?))
}

/// A child to be spawned.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnForm {
    /// `process`, `world`, `agent`, `external`, or `external.` and a name of your own.
    kind: String,
    #[serde(default)]
    params: serde_json::Value,
    /// The limit of the child in each lane, in addition to its parent's limit.
    #[serde(default)]
    budget: Lanes,
    /// `running_total_v1` if nothing is said, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accounting: Option<String>,
    #[serde(default, skip_serializing)]
    client_request_id: Option<String>,
}

/// The name of a request and the hash of its payload. Without a name, one is drawn: the request is then not recognized again.
fn request_of(
    universe: &Universe,
    headers: &HeaderMap,
    given: Option<String>,
    payload: &serde_json::Value,
) -> Result<ClientRequest, Problem> {
    let header = idempotency_key(headers)?;
    let client_request_id = match (given, header) {
        (Some(given), Some(header)) if given != header => {
            return Err(Problem::invalid("`client_request_id` and the header `Idempotency-Key` differ"));
        }
        (Some(given), _) if given.is_empty() || given.len() > limits::NAME_BYTES_MAX / 2 => {
            return Err(Problem::invalid("`client_request_id` is empty or too long"));
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => format!("drawn-{}", hex(&universe.plane().random::<16>())),
    };
    Ok(ClientRequest { client_request_id, payload: Hash::of(to_canonical(payload).as_bytes()) })
}

fn check_accounting(mode: Option<&str>) -> Result<(), Problem> {
    match mode {
        None | Some(ACCOUNTING_MODE) => Ok(()),
        Some(mode) => {
            let reason = format!("the accounting mode `{mode}` is not `{ACCOUNTING_MODE}`");
            Err(Problem::new(Code::UrmDispatchAccountingModeInvalid, reason))
        }
    }
}

/// Spawns a child in place of the world's program. The world journals the spawn, and gets the child's end as a receipt.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/children", operation_id = "children_spawn", tag = "children",
    request_body = SpawnForm, responses((status = 201, body = Child)),
)]
pub(super) async fn spawn(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    By(operator): By,
    headers: HeaderMap,
    JsonBody(form): JsonBody<SpawnForm>,
) -> Result<Response, Problem> {
    check_accounting(form.accounting.as_deref())?;
    let payload = serde_json::to_value(&form).map_err(|error| Problem::invalid(error.to_string()))?;
    let request = request_of(&universe, &headers, form.client_request_id, &payload)?;
    let params = spec_params(&form.kind, &json::given(form.params)?, &spend(&form.budget)?);
    if params.len() > limits::PAYLOAD_INLINE_BYTES_MAX {
        let reason = format!("the parameters of a child have at most {} bytes", limits::PAYLOAD_INLINE_BYTES_MAX);
        return Err(Problem::new(Code::RequestTooLarge, reason));
    }
    let child = universe.ops().child_spawn(world, params, &request, (operator, SPAWN_TIMEOUT)).await?;
    let child: Child = universe.ops().child(world, child).await?.into();
    Ok((StatusCode::CREATED, Json(child)).into_response())
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelForm {
    /// Becomes the `cancel_request_id` of the events.
    #[serde(default)]
    client_request_id: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Cancelled {
    /// `cancelled`, `requested` (its executor stops it) or `already_terminal`.
    outcome: &'static str,
    /// Of the request on record, which is the first one that found the child not terminal. Absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_request_id: Option<String>,
}

/// Cancels a child. One that has ended stays as it is.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/children/{child}/cancel", operation_id = "children_cancel",
    tag = "children", request_body = CancelForm, responses((status = 200, body = Cancelled)),
)]
pub(super) async fn cancel(
    ChildScope { universe, world, child, .. }: ChildScope<ADMIN>,
    headers: HeaderMap,
    JsonBody(form): JsonBody<CancelForm>,
) -> Result<Json<Cancelled>, Problem> {
    let payload = serde_json::Value::String(child.to_string());
    // Without a name, that of the request follows from the child and its events so far: it stands in the evidence.
    let mut given = form.client_request_id;
    if given.is_none() && idempotency_key(&headers)?.is_none() {
        given = Some(format!("cancel:{child}:{}", universe.ops().child(world, child).await?.events));
    }
    let request = request_of(&universe, &headers, given, &payload)?;
    let CancelRequested { outcome, cancel_request_id } = universe.ops().child_cancel(world, child, &request).await?;
    Ok(Json(Cancelled { outcome: outcome.as_str(), cancel_request_id }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CancelledAll {
    /// How many children the request reached: each was cancelled, or its executor stops it.
    children: u64,
    /// The `cancel_request_id` of each of them is this, a colon and the id of the child.
    client_request_id: String,
}

/// Cancels all children of a world that have not ended. The same request again reaches the same children, and none that was spawned since.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/children/cancel", operation_id = "children_cancel_all",
    tag = "children", request_body = CancelForm, responses((status = 200, body = CancelledAll)),
)]
pub(super) async fn cancel_all(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    headers: HeaderMap,
    JsonBody(form): JsonBody<CancelForm>,
) -> Result<Json<CancelledAll>, Problem> {
    let request = request_of(&universe, &headers, form.client_request_id, &serde_json::Value::Null)?;
    let children = universe.ops().children_cancel_requested(world, &request).await?;
    Ok(Json(CancelledAll { children, client_request_id: request.client_request_id }))
}

/// A lane of a world's budget.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BudgetLine {
    lane: &'static str,
    /// The sum that its children have spent.
    total: u64,
    /// Null for no limit.
    limit: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Budget {
    accounting: &'static str,
    lanes: Vec<BudgetLine>,
}

fn budget_of(lines: mundi_store::protocol::BudgetLines) -> Json<Budget> {
    let line = |(lane, budget): (Lane, mundi_store::values::ChildBudget)| BudgetLine {
        lane: lane.as_str(),
        total: budget.total,
        limit: budget.limit,
    };
    Json(Budget { accounting: ACCOUNTING_MODE, lanes: lines.into_iter().map(line).collect() })
}

/// The spending of a world's children, and their limits.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/budget", operation_id = "budget_show", tag = "children",
    responses((status = 200, body = Budget)),
)]
pub(super) async fn budget(WorldScope { universe, world, .. }: WorldScope<READ>) -> Result<Json<Budget>, Problem> {
    Ok(budget_of(universe.ops().budget(world).await?))
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetForm {
    /// The new limits; null for none. Lanes that are not named stay as they are.
    limits: BTreeMap<String, Option<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accounting: Option<String>,
    #[serde(default, skip_serializing)]
    client_request_id: Option<String>,
}

/// Sets limits. Totals stay: a limit below a total refuses every further debit.
#[utoipa::path(
    put, path = "/v1/u/{universe}/worlds/{world}/budget", operation_id = "budget_set", tag = "children",
    request_body = BudgetForm, responses((status = 200, body = Budget)),
)]
pub(super) async fn set_budget(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    headers: HeaderMap,
    JsonBody(form): JsonBody<BudgetForm>,
) -> Result<Json<Budget>, Problem> {
    check_accounting(form.accounting.as_deref())?;
    let payload = serde_json::to_value(&form).map_err(|error| Problem::invalid(error.to_string()))?;
    let request = request_of(&universe, &headers, form.client_request_id, &payload)?;
    let limits = form.limits.iter().map(|(name, limit)| Ok((lane(name)?, *limit))).collect::<Result<_, Problem>>()?;
    Ok(budget_of(universe.ops().budget_set(world, limits, &request).await?))
}

/// A value that a worker reports, as the store takes it.
fn result_of(value: serde_json::Value) -> Result<mundi_model::Value, Problem> {
    let value = json::given(value)?;
    let bytes = cbor::encode(&value).len();
    if bytes > limits::CHILD_RESULT_BYTES_MAX {
        let reason = format!("the result has {bytes} bytes, at most {}", limits::CHILD_RESULT_BYTES_MAX);
        return Err(Problem::new(Code::EffectAnswerTooLarge, reason));
    }
    Ok(value)
}
