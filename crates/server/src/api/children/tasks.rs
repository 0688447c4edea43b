//! Children of kind `external`: the task API with a start, so that it is on record before the work begins.
//!
//! A worker claims, starts, keeps its claim by heartbeats, reports what it used, and completes or fails. A child is started at most once: a
//! worker whose claim was lost learns so at its next request, and stops.

use super::{Lanes, result_of, spend};
use crate::api::{
    Problem,
    extract::{JsonBody, UniverseScope, WORK, claim_ttl, duration},
    json,
    moment::Moment,
    naming::{names_world, with_names},
};
use axum::Json;
use futures_util::{FutureExt, future::select_all};
use minicbor::{Decode, Encode};
use mundi_model::{
    Code, UniverseId, WorldId, cbor,
    child::{CHILD_SPAWN, ChildId, DispatchToken},
    hex, limits, parse_hex_bytes,
};
use mundi_runtime::children::is_external;
use mundi_store::protocol::{ChildClaim, ChildFinish, Debited, LeaseHeld};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// A lease that runs out changes no counter: a long poll looks again after this long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A claim as it travels.
#[derive(Debug, Encode, Decode)]
struct Ticket {
    #[n(0)]
    parent: WorldId,
    #[n(1)]
    child: ChildId,
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    token: [u8; 16],
}

impl Ticket {
    fn of(claim: &ChildClaim) -> String {
        let ticket = Self { parent: claim.parent, child: claim.child, token: claim.token };
        format!("ch_{}", hex(&cbor::encode(&ticket)))
    }

    fn claim(text: &str, universe: UniverseId) -> Result<ChildClaim, Problem> {
        let invalid = || Problem::new(Code::IdInvalid, "that is no claim of a child");
        let digits = text.strip_prefix("ch_").filter(|digits| digits.len() <= 2 * limits::NAME_BYTES_MAX);
        let bytes = digits.and_then(parse_hex_bytes).ok_or_else(invalid)?;
        let Self { parent, child, token } = cbor::decode(&bytes).map_err(|_| invalid())?;
        Ok(ChildClaim { universe, parent, child, token })
    }
}

fn nanos(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ChildClaimForm {
    /// `external`, or kinds that begin with `external.`.
    kinds: Vec<String>,
    /// At most so many; 1 if nothing is said.
    #[schema(minimum = 1, maximum = 256)]
    limit: Option<usize>,
    /// How long the claims are valid without a heartbeat: `30s` if nothing is said.
    ttl: Option<String>,
    /// How long to wait for work: not at all if nothing is said.
    wait: Option<String>,
}

/// A child to be run. Nothing may be done for it before it is started.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ChildTask {
    /// The right to start and end it.
    claim: String,
    child_id: String,
    /// The idempotency key of the run.
    worker_run_id: Option<String>,
    dispatch_seq: Option<u64>,
    world: String,
    world_name: Option<String>,
    kind: String,
    params: serde_json::Value,
    budget: Lanes,
    traceparent: Option<String>,
}

names_world!(ChildTask);

fn task((claim, token): (ChildClaim, DispatchToken)) -> ChildTask {
    let params = json::payload(&token.params);
    ChildTask {
        claim: Ticket::of(&claim),
        child_id: token.child.to_string(),
        worker_run_id: token.run.map(|run| run.to_string()),
        dispatch_seq: token.dispatch_seq,
        world: token.parent.to_string(),
        world_name: None,
        kind: token.kind,
        params: params.get("params").cloned().unwrap_or(serde_json::Value::Null),
        budget: super::lanes(token.budget),
        traceparent: token.trace,
    }
}

/// Claims children of external kinds. Without any it answers with an empty list, after the time that it was asked to wait.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/children/claim", operation_id = "child_tasks_claim", tag = "children",
    request_body = ChildClaimForm, responses((status = 200, body = Vec<ChildTask>)),
)]
pub(in crate::api) async fn claim(
    UniverseScope { api, universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<ChildClaimForm>,
) -> Result<Json<Vec<ChildTask>>, Problem> {
    let items_max = form.limit.unwrap_or(1);
    let are_external = !form.kinds.is_empty() && form.kinds.iter().all(|kind| is_external(kind));
    if !are_external || form.kinds.len() > 32 || !(1..=limits::CLAIMS_MAX).contains(&items_max) {
        let bounds = format!("name 1 to 32 external kinds, and a limit of 1 to {}", limits::CLAIMS_MAX);
        return Err(Problem::invalid(bounds));
    }
    let ttl = claim_ttl(form.ttl.as_deref())?;
    let wait = form.wait.as_deref().map(duration).transpose()?.unwrap_or_default().min(api.limits.wait_max);
    let waiting = tokio::time::sleep(wait);
    tokio::pin!(waiting);
    let watched = [CHILD_SPAWN.to_owned()];
    loop {
        let seen = universe.ops().seen_queues(&watched).await?; // before the look: what is queued after it ends the wait
        let claimed = universe.ops().children_claim(&form.kinds, items_max, nanos(ttl)).await?;
        if !claimed.is_empty() || api.node.is_leaving() {
            return Ok(Json(with_names(&universe, claimed.into_iter().map(task).collect()).await?));
        }
        let watches = seen.into_iter().map(|(kind, seen)| universe.ops().queue_changed(kind, seen).boxed());
        tokio::select! {
            () = &mut waiting => return Ok(Json(Vec::new())),
            _ = select_all(watches) => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = api.node.left() => {}
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct StartForm {
    claim: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct StartedChild {
    child_id: String,
    started_at: Option<Moment>,
}

/// Starts a claimed child. When this is answered, the start is on record, and the work may begin.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/children/start", operation_id = "child_tasks_start", tag = "children",
    request_body = StartForm, responses((status = 200, body = StartedChild)),
)]
pub(in crate::api) async fn start(
    UniverseScope { universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<StartForm>,
) -> Result<Json<StartedChild>, Problem> {
    let token = universe.ops().child_start(Ticket::claim(&form.claim, universe.id())?).await?;
    let started_at = token.started_at_ns.map(Moment::of);
    Ok(Json(StartedChild { child_id: token.child.to_string(), started_at }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ChildKeepForm {
    claims: Vec<String>,
    ttl: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct KeptChildren {
    /// No longer held: the work stops, and nothing of it is taken.
    lost: Vec<String>,
    /// Held, and someone asked for the cancellation: stop the work, then report it as failed.
    cancelled: Vec<String>,
}

/// A heartbeat: renews the claims.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/children/heartbeat", operation_id = "child_tasks_heartbeat", tag = "children",
    request_body = ChildKeepForm, responses((status = 200, body = KeptChildren)),
)]
pub(in crate::api) async fn heartbeat(
    UniverseScope { universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<ChildKeepForm>,
) -> Result<Json<KeptChildren>, Problem> {
    if form.claims.len() > limits::CLAIMS_MAX {
        return Err(Problem::new(Code::RequestTooLarge, format!("at most {} claims at a time", limits::CLAIMS_MAX)));
    }
    let ttl = claim_ttl(form.ttl.as_deref())?;
    let mut kept = KeptChildren { lost: Vec::new(), cancelled: Vec::new() };
    for text in form.claims {
        match universe.ops().child_extend(Ticket::claim(&text, universe.id())?, nanos(ttl)).await? {
            LeaseHeld::Held => {}
            LeaseHeld::Cancel => kept.cancelled.push(text),
            LeaseHeld::Lost => kept.lost.push(text),
        }
    }
    Ok(Json(kept))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ReportForm {
    claim: String,
    /// All that the child has used since it started, lane by lane.
    spent: Lanes,
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Reported {
    /// False: the child has ended with `URM_CHILD_BUDGET_EXCEEDED`; stop the work.
    accepted: bool,
    /// The lane that has no room.
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<&'static str>,
}

/// Reports what a child has used so far. A report that is sent twice counts once.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/children/report", operation_id = "child_tasks_report", tag = "children",
    request_body = ReportForm, responses((status = 200, body = Reported)),
)]
pub(in crate::api) async fn report(
    UniverseScope { universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<ReportForm>,
) -> Result<Json<Reported>, Problem> {
    let claim = Ticket::claim(&form.claim, universe.id())?;
    let lane = match universe.ops().child_report(claim, spend(&form.spent)?).await? {
        Debited::Accepted => None,
        Debited::Exceeded(lane) => Some(lane.as_str()),
    };
    Ok(Json(Reported { accepted: lane.is_none(), lane }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ChildCompleteForm {
    claim: String,
    #[serde(default)]
    result: serde_json::Value,
    #[serde(default)]
    spent: Lanes,
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct EndedChild {
    /// `passed`, `failed` or `cancelled`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// The child passed; its parent gets the result.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/children/complete", operation_id = "child_tasks_complete", tag = "children",
    request_body = ChildCompleteForm, responses((status = 200, body = EndedChild)),
)]
pub(in crate::api) async fn complete(
    UniverseScope { universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<ChildCompleteForm>,
) -> Result<Json<EndedChild>, Problem> {
    let claim = Ticket::claim(&form.claim, universe.id())?;
    let finish = ChildFinish::Passed(result_of(form.result)?);
    let ended = universe.ops().child_finish(claim, finish, spend(&form.spent)?).await?;
    Ok(Json(EndedChild { outcome: ended.outcome.as_str(), code: ended.code }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ChildFailForm {
    claim: String,
    reason: String,
    #[serde(default)]
    spent: Lanes,
}

/// The child failed, or was stopped because its cancellation was asked for.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/children/fail", operation_id = "child_tasks_fail", tag = "children",
    request_body = ChildFailForm, responses((status = 200, body = EndedChild)),
)]
pub(in crate::api) async fn fail(
    UniverseScope { universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<ChildFailForm>,
) -> Result<Json<EndedChild>, Problem> {
    let claim = Ticket::claim(&form.claim, universe.id())?;
    if form.reason.len() > limits::REASON_BYTES_MAX {
        return Err(Problem::invalid("the reason is too long"));
    }
    let finish = ChildFinish::Failed { code: Code::UrmChildFailed, reason: form.reason };
    let ended = universe.ops().child_finish(claim, finish, spend(&form.spent)?).await?;
    Ok(Json(EndedChild { outcome: ended.outcome.as_str(), code: ended.code }))
}
