//! Reads: each names the LSN that it observed, and can wait for one.

use super::{PoolScope, refused};
use crate::{
    api::{
        Problem,
        events::WaitParams,
        extract::{Name, Params, READ, UniverseScope},
        limit,
        moment::Moment,
    },
    quotas::Quota,
};
use axum::Json;
use mundi_kernel::lease_kernel::result::ResultCode;
use mundi_model::{
    Code, Height, ParseIdError,
    pool::{HolderId, LeaseId, ResourceId},
};
use mundi_runtime::control::shard_of;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json_, json};
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolEntry {
    pool: String,
    shards: u64,
    created_at_ns: u64,
    created_at: Moment,
}

/// The pools of a universe.
#[utoipa::path(get, path = "/v1/u/{universe}/pools", tag = "pools", responses((status = 200, body = Vec<PoolEntry>)))]
pub(crate) async fn list(UniverseScope { universe, .. }: UniverseScope<READ>) -> Result<Json<Vec<PoolEntry>>, Problem> {
    let entry = |(pool, record): (String, mundi_store::values::PoolRecord)| PoolEntry {
        pool,
        shards: record.shards,
        created_at_ns: record.created_at_ns,
        created_at: Moment::of(record.created_at_ns),
    };
    Ok(Json(universe.ops().pools().await?.into_iter().map(entry).collect()))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadParams {
    /// Waits until the command at this LSN was applied.
    at_least: Option<u64>,
    /// How long to wait for `at_least`: `30s` if nothing is said.
    #[param(example = "5s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescribeParams {
    /// Only this shard: all of them if nothing is said.
    shard: Option<u64>,
    /// Waits until the command at this LSN of the shard was applied. Of a pool of several shards, `shard` says of which.
    at_least: Option<u64>,
    /// How long to wait for `at_least`: `30s` if nothing is said.
    #[param(example = "5s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    /// Only those in this state.
    state: Option<String>,
    /// Only those that this holder has: a name or an id.
    holder: Option<String>,
    /// Of resources: only those with this label.
    label: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The shard that is listed: all of them, one after the other, if nothing is said.
    shard: Option<u64>,
    /// Waits until the command at this LSN of the shard was applied. Of a pool of several shards, `shard` says of which.
    at_least: Option<u64>,
    #[param(example = "5s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    timeout: Option<String>,
}

/// Asks a shard; a result that is a refusal becomes a problem.
async fn ask(
    scope: &PoolScope<READ>,
    shard: u64,
    query: (&str, Json_),
    ReadParams { at_least, timeout }: ReadParams,
) -> Result<Json_, Problem> {
    let PoolScope { api, universe, tenant, pool, .. } = scope;
    if shard >= pool.record.shards {
        return Err(Problem::invalid(format!("the pool has {} shards", pool.record.shards)));
    }
    let timeout = WaitParams { timeout }.timeout(api)?;
    let _held = api.node.begin(universe, *tenant, Quota::Calls)?; // it runs the program as a call does
    let world = universe.ops().pool_world(pool, shard)?;
    let asked = universe.ops().pool_query(world, query, at_least.map(Height::new));
    let late = |_| Problem::new(Code::RequestTimeout, format!("the shard did not get there within {timeout:?}"));
    let mut answer = tokio::time::timeout(timeout, asked).await.map_err(late)?.map_err(refused)?;
    let result: ResultCode = serde_json::from_value(answer["result"].take()).unwrap_or(ResultCode::Ok);
    if let Some(code) = result.error() {
        let detail = format!("`{}`, observed at LSN {}", result.as_str(), answer["applied_lsn"]);
        return Err(Problem::new(code, detail).with_result(result.as_str()));
    }
    if let Some(answer) = answer.as_object_mut() {
        answer.remove("result");
    }
    answer["shard"] = shard.into();
    Ok(answer)
}

/// The shards that are read: the one that is named, or all of them. An LSN is that of one shard.
fn shards_of(
    scope: &PoolScope<READ>,
    shard: Option<u64>,
    at_least: Option<u64>,
) -> Result<std::ops::Range<u64>, Problem> {
    let shards = scope.pool.record.shards;
    match shard {
        Some(shard) if shard >= shards => Err(Problem::invalid(format!("the pool has {shards} shards"))),
        Some(shard) => Ok(shard..shard + 1),
        None if at_least.is_some() && shards > 1 => {
            Err(Problem::invalid("`at_least` is an LSN of one shard: name it with `shard`"))
        }
        None => Ok(0..shards),
    }
}

/// A pool: its configuration, and how full each shard is.
#[utoipa::path(
    get, path = "/v1/u/{universe}/pools/{pool}", tag = "pools", params(DescribeParams),
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn describe(
    scope: PoolScope<READ>,
    Params(DescribeParams { shard, at_least, timeout }): Params<DescribeParams>,
) -> Result<Json<Json_>, Problem> {
    let mut shards = Vec::new();
    for shard in shards_of(&scope, shard, at_least)? {
        let waits = ReadParams { at_least, timeout: timeout.clone() };
        let mut answer = ask(&scope, shard, ("pool", Json_::Null), waits).await?;
        if let Some(answer) = answer.as_object_mut() {
            answer.remove("config");
        }
        shards.push(answer);
    }
    let config: Json_ = serde_json::from_str(&scope.pool.record.config).unwrap_or(Json_::Null);
    let watch = scope.universe.ops().pool_watch(&scope.pool).await.map_err(refused)?;
    Ok(Json(json!({ "pool": scope.pool.name, "config": config, "shards": shards, "watch": watch })))
}

/// A lease with its epoch, its members and its history, for as long as the pool keeps it.
#[utoipa::path(
    get, path = "/v1/u/{universe}/pools/{pool}/leases/{lease}", tag = "pools", params(ReadParams),
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn lease(
    scope: PoolScope<READ>,
    name: Name,
    Params(params): Params<ReadParams>,
) -> Result<Json<Json_>, Problem> {
    let lease: LeaseId = name.parse()?;
    let shard = shard_of_lease(&scope, lease)?;
    Ok(Json(ask(&scope, shard, ("lease", json!({ "lease_id": lease })), params).await?))
}

fn shard_of_lease(scope: &PoolScope<READ>, lease: LeaseId) -> Result<u64, Problem> {
    scope.pool.shard_of_lease(lease).ok_or_else(|| {
        let detail = format!("the pool has no shard {}, which {lease} names", lease.shard());
        Problem::new(Code::LeaseNotFound, detail).with_result(ResultCode::LeaseNotFound.as_str())
    })
}

/// A place in the queue, and the lease that it was granted.
#[utoipa::path(
    get, path = "/v1/u/{universe}/pools/{pool}/tickets/{ticket}", tag = "pools", params(ReadParams),
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn ticket(
    scope: PoolScope<READ>,
    name: Name,
    Params(params): Params<ReadParams>,
) -> Result<Json<Json_>, Problem> {
    let ticket: LeaseId = name.parse()?;
    let shard = shard_of_lease(&scope, ticket)?;
    Ok(Json(ask(&scope, shard, ("ticket", json!({ "ticket": ticket })), params).await?))
}

/// A resource: who has it, and how often it changed hands.
#[utoipa::path(
    get, path = "/v1/u/{universe}/pools/{pool}/resources/{resource}", tag = "pools", params(ReadParams),
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn resource(
    scope: PoolScope<READ>,
    Name(name): Name,
    Params(params): Params<ReadParams>,
) -> Result<Json<Json_>, Problem> {
    let resource_id = ResourceId::of_text(&name);
    let shard = shard_of(resource_id, scope.pool.record.shards);
    Ok(Json(ask(&scope, shard, ("resource", json!({ "resource_id": resource_id })), params).await?))
}

/// The leases of a pool, live and ended, as long as they answer, shard by shard. A page may have fewer than it could, and still a next one.
#[utoipa::path(
    get, path = "/v1/u/{universe}/pools/{pool}/leases", tag = "pools", params(ListParams),
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn leases(scope: PoolScope<READ>, Params(params): Params<ListParams>) -> Result<Json<Json_>, Problem> {
    if params.label.is_some() {
        return Err(Problem::invalid("leases have no labels"));
    }
    let states = ["reserved", "active", "revoking", "released", "expired", "revoked"];
    listing::<LeaseId>(&scope, "leases", &states, params).await
}

/// The resources of a pool, shard by shard.
#[utoipa::path(
    get, path = "/v1/u/{universe}/pools/{pool}/resources", tag = "pools", params(ListParams),
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn resources(
    scope: PoolScope<READ>,
    Params(params): Params<ListParams>,
) -> Result<Json<Json_>, Problem> {
    listing::<ResourceId>(&scope, "resources", &["available", "reserved", "active", "revoking"], params).await
}

/// Where a page begins: in the shard `N`, after an id if one follows, as `N/ID`. An id alone is one of the shard that is listed.
fn after<I: FromStr<Err = ParseIdError>>(
    text: Option<&str>,
    shards: &std::ops::Range<u64>,
) -> Result<(u64, Option<I>), Problem> {
    let Some(text) = text else { return Ok((shards.start, None)) };
    let Some((shard, id)) = text.split_once('/') else { return Ok((shards.start, Some(text.parse()?))) };
    let known = shard.parse().ok().filter(|shard| shards.contains(shard));
    let shard = known.ok_or_else(|| Problem::invalid(format!("`{text}` is not the `next` of a page of this list")))?;
    Ok((shard, Some(id).filter(|id| !id.is_empty()).map(str::parse).transpose()?))
}

/// A page of a list. One that goes over several shards names the shard of each item, and the shards that it observed.
async fn listing<I: FromStr<Err = ParseIdError> + Serialize>(
    scope: &PoolScope<READ>,
    noun: &str,
    states: &[&str],
    params: ListParams,
) -> Result<Json<Json_>, Problem> {
    let ListParams { state, holder, label, limit: wanted, shard, at_least, timeout, after: from } = params;
    if let Some(state) = state.as_deref().filter(|state| !states.contains(state)) {
        return Err(Problem::invalid(format!("`{state}` is no state: expected one of {}", states.join(", "))));
    }
    let shards = shards_of(scope, shard, at_least)?;
    let (first, mut after) = after::<I>(from.as_deref(), &shards)?;
    let holder_id = holder.as_deref().map(HolderId::of_text);
    let wanted = limit(wanted)?;
    let (mut items, mut observed, mut next) = (Vec::new(), Vec::new(), None);
    for at in first..shards.end {
        let mut query = json!({ "limit": wanted - items.len() });
        let filters = [("state", json!(state)), ("holder_id", json!(holder_id)), ("label", json!(label))];
        for (name, value) in filters.into_iter().chain([("after", json!(after.take()))]) {
            if !value.is_null() {
                query[name] = value;
            }
        }
        let waits = ReadParams { at_least, timeout: timeout.clone() };
        let mut page = ask(scope, at, (noun, query), waits).await?;
        if shards.end - shards.start == 1 {
            return Ok(Json(page));
        }
        let Json_::Array(of_shard) = page["items"].take() else { break };
        items.extend(of_shard.into_iter().map(|mut item| {
            item["shard"] = at.into();
            item
        }));
        observed.push(json!({ "shard": at, "applied_lsn": page["applied_lsn"], "slot": page["slot"] }));
        if let Some(id) = page["next"].as_str() {
            next = Some(format!("{at}/{id}"));
            break;
        }
        if items.len() >= wanted {
            next = Some(at + 1).filter(|next| *next < shards.end).map(|shard| format!("{shard}/"));
            break;
        }
    }
    Ok(Json(json!({ "items": items, "next": next, "observed": observed })))
}
