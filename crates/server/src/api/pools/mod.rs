//! Pools: resources that are leased, and never handed out early (`docs/guides/pools.md`).
//!
//! A command is answered with its result. A refusal is a problem whose `result` is the kernel's result code; its `outcome` says whether it is
//! known what became of the command (`definite`) or not (`indefinite`: send the same again, with the same operation id).

mod commands;
mod forms;
mod reads;
mod sending;
mod watch;

pub(super) use commands::{activate, cancel, create_resources, enqueue, reclaim, release, reserve, revoke};
pub(super) use reads::{describe, lease, leases, list, resource, resources, ticket};
pub(super) use watch::{heartbeat, set_watch, unwatch, watch};
// For the OpenAPI document.
pub(super) use commands::{
    __path_activate, __path_cancel, __path_create_resources, __path_enqueue, __path_reclaim, __path_release,
    __path_reserve, __path_revoke,
};
pub(super) use reads::{
    __path_describe, __path_lease, __path_leases, __path_list, __path_resource, __path_resources, __path_ticket,
};
pub(super) use watch::{__path_heartbeat, __path_set_watch, __path_unwatch, __path_watch};

use super::{
    Api, Problem,
    extract::{ADMIN, JsonBody, UniverseScope, param},
};
use crate::{
    node::{Growth, Tenant, Universe},
    quotas::Amounts,
};
use axum::{
    Json,
    extract::{FromRequestParts, RawPathParams},
    http::{HeaderMap, StatusCode, request::Parts},
};
use mundi_kernel::lease_kernel::{self, config::PoolConfig};
use mundi_model::{Code, ParseIdError, WorldName, limits};
use mundi_runtime::{RuntimeError, control::Pool};
use mundi_store::{StoreError, protocol::shard_name};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// A pool of a universe, and the right to do `VERB` there.
pub(crate) struct PoolScope<const VERB: u32> {
    api: Api,
    universe: Arc<Universe>,
    tenant: Tenant,
    pool: Pool,
    headers: HeaderMap,
}

impl<const VERB: u32> FromRequestParts<Api> for PoolScope<VERB> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let UniverseScope { universe, tenant, .. } = UniverseScope::<VERB>::from_request_parts(parts, api).await?;
        let params = RawPathParams::from_request_parts(parts, api).await;
        let params = params.map_err(|error| Problem::invalid(error.to_string()))?;
        let pool = universe.ops().pool(&name_of(param(&params, "pool"))?).await.map_err(refused)?;
        Ok(Self { api: api.clone(), universe, tenant, pool, headers: parts.headers.clone() })
    }
}

pub(super) fn name_of(text: &str) -> Result<WorldName, Problem> {
    text.parse().map_err(|error: ParseIdError| Problem::new(Code::NameInvalid, error.to_string()))
}

/// The problem for a command that has no result.
fn refused(error: RuntimeError) -> Problem {
    Problem::from(error).with_outcome()
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPool {
    /// Letters, digits and `-_.:@`: also the name of the world of its first shard.
    name: String,
    /// How many worlds share its resources: 1 if nothing is said. It never changes.
    #[schema(minimum = 1, maximum = 64)]
    shards: Option<u64>,
    /// Bounds of each shard; what is left out has its default.
    #[schema(value_type = Option<Object>)]
    config: Option<PoolConfig>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PoolMade {
    pool: String,
    shards: u64,
    /// It was there already.
    before: bool,
}

/// Creates a pool. Asked again for the same one, it answers the same; an interrupted creation is finished.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools", tag = "pools", request_body = NewPool,
    responses((status = 201, body = PoolMade)),
)]
pub(super) async fn create(
    UniverseScope { api, universe, tenant }: UniverseScope<ADMIN>,
    JsonBody(new): JsonBody<NewPool>,
) -> Result<(StatusCode, Json<PoolMade>), Problem> {
    let name = name_of(&new.name)?;
    let manifest = universe.manifests().get(lease_kernel::NAME).copied();
    let missing = || Problem::new(Code::ProgramUnknown, "this node does not have the program of pools");
    let (shards, config) = (new.shards.unwrap_or(1), new.config.unwrap_or_default());
    let (terms, manifest) = ((shards, config), manifest.ok_or_else(missing)?);
    let growth = grow(&api, &universe, tenant, &name, shards).await?;
    let made = universe.ops().pool_create(name, terms, manifest).await;
    growth.settle(&universe, made.as_ref().is_ok_and(|made| !made.before)).await;
    let made = made.map_err(refused)?;
    Ok((StatusCode::CREATED, Json(PoolMade { pool: new.name, shards, before: made.before })))
}

/// Room for the worlds of a pool. One that is there already needs none; neither do those that an interrupted creation has made.
async fn grow(
    api: &Api,
    universe: &Universe,
    tenant: Tenant,
    pool: &WorldName,
    shards: u64,
) -> Result<Growth, Problem> {
    let shards = shards.min(limits::POOL_SHARDS_MAX);
    let mut worlds = 0;
    for shard in 0..shards {
        let name = shard_name(pool, shard).map_err(|error| Problem::from(StoreError::from(error)).not_sent())?;
        worlds += u64::from(universe.ops().describe_world(name.world(universe.id())).await.is_err());
    }
    if worlds == 0 {
        return Ok(Growth::default());
    }
    api.node.grow(universe, tenant, Amounts { worlds, ..Amounts::default() }).await.map_err(Problem::not_sent)
}

/// Deletes a pool that has no live lease and for which nobody waits.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/pools/{pool}", tag = "pools",
    responses((status = 204, description = "It is gone")),
)]
pub(super) async fn delete(PoolScope { universe, pool, .. }: PoolScope<ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().pool_delete(&pool.name).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}
