//! Workers, leases and assignments.

use super::{
    ListPage, PageParams, Problem,
    extract::{ADMIN, JsonBody, Name, Params, READ, UniverseScope, WorldScope},
    moment::Moment,
    naming::{names_world, with_names},
};
use crate::node::Universe;
use axum::{Json, http::StatusCode};
use mundi_model::{WorkerId, WorldId};
use mundi_store::{protocol::HeldLease, values::PRIORITY_NORMAL};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Worker {
    worker: String,
    started_at_ns: u64,
    started_at: Moment,
    expires_at_ns: u64,
    expires_at: Moment,
    /// How many worlds that have work it takes at most.
    worlds_max: u32,
    /// How many of its worlds had work when it was last heard of.
    worlds: u32,
    draining: bool,
    address: Option<String>,
    /// The roles of its process; null from one of an earlier version.
    roles: Option<Vec<String>>,
}

/// The workers with a heartbeat.
#[utoipa::path(
    get, path = "/v1/u/{universe}/workers", tag = "workers", responses((status = 200, body = Vec<Worker>)),
)]
pub(super) async fn list(UniverseScope { universe, .. }: UniverseScope<READ>) -> Result<Json<Vec<Worker>>, Problem> {
    Ok(Json(all(&universe).await?))
}

pub(super) async fn all(universe: &Universe) -> Result<Vec<Worker>, Problem> {
    let workers = universe.ops().workers().await?.into_iter().map(|(worker, record)| Worker {
        worker: worker.to_string(),
        started_at_ns: record.started_at_ns,
        started_at: Moment::of(record.started_at_ns),
        expires_at_ns: record.expires_at_ns,
        expires_at: Moment::of(record.expires_at_ns),
        worlds_max: record.worlds_max,
        worlds: record.worlds.unwrap_or(0),
        draining: record.draining,
        address: record.address,
        roles: record.roles,
    });
    Ok(workers.collect())
}

/// A world that a worker should run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AssignedWorld {
    world: String,
    world_name: Option<String>,
}

names_world!(AssignedWorld);

/// The worlds that a worker should run.
#[utoipa::path(
    get, path = "/v1/u/{universe}/assignments/{worker}", tag = "workers", params(PageParams),
    responses((status = 200, body = ListPage<AssignedWorld>)),
)]
pub(super) async fn assignments(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    name: Name,
    Params(page): Params<PageParams>,
) -> Result<Json<ListPage<AssignedWorld>>, Problem> {
    let (worker, after, limit) = (name.parse::<WorkerId>()?, page.after::<WorldId>()?, page.limit()?);
    let worlds = universe.ops().list_worker_worlds(worker, after, limit).await?;
    let next = worlds.last().filter(|_| worlds.len() == limit).map(WorldId::to_string);
    let items = worlds.iter().map(|world| AssignedWorld { world: world.to_string(), world_name: None });
    Ok(Json(ListPage { items: with_names(&universe, items.collect()).await?, next }))
}

/// Asks a worker to snapshot and release everything, and to end: its process runs no world of this universe any more until
/// it is started again.
#[utoipa::path(
    post, path = "/v1/u/{universe}/workers/drain/{worker}", tag = "workers",
    responses((status = 202, description = "It was told")),
)]
pub(super) async fn drain(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    name: Name,
) -> Result<StatusCode, Problem> {
    universe.ops().drain_worker(name.parse()?).await?;
    Ok(StatusCode::ACCEPTED)
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Lease {
    world: String,
    world_name: Option<String>,
    holder: String,
    epoch: u64,
    expires_at_ns: u64,
    expires_at: Moment,
}

names_world!(Lease);

impl From<(WorldId, HeldLease)> for Lease {
    fn from((world, HeldLease { holder, epoch, expires_at_ns }): (WorldId, HeldLease)) -> Self {
        Self {
            world: world.to_string(),
            world_name: None,
            holder: holder.to_string(),
            epoch: epoch.get(),
            expires_at_ns,
            expires_at: Moment::of(expires_at_ns),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LeasesParams {
    worker: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The leases that are held.
#[utoipa::path(
    get, path = "/v1/u/{universe}/leases", tag = "workers", params(LeasesParams),
    responses((status = 200, body = ListPage<Lease>)),
)]
pub(super) async fn leases(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    Params(params): Params<LeasesParams>,
) -> Result<Json<ListPage<Lease>>, Problem> {
    let worker = params.worker.as_deref().map(str::parse).transpose()?;
    let after = params.after.as_deref().map(str::parse).transpose()?;
    let page = universe.ops().list_leases(worker, after, super::limit(params.limit)?).await?;
    let Json(page) = ListPage::of(page, Lease::from);
    Ok(Json(ListPage { items: with_names(&universe, page.items).await?, ..page }))
}

/// Where a world should run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    worker: String,
    /// The smaller, the more urgent.
    priority: Option<u8>,
}

/// Pins a world to a worker.
#[utoipa::path(
    put, path = "/v1/u/{universe}/worlds/{world}/assignment", tag = "workers", request_body = Pin,
    responses((status = 204, description = "Done")),
)]
pub(super) async fn assign(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    JsonBody(pin): JsonBody<Pin>,
) -> Result<StatusCode, Problem> {
    let worker = pin.worker.parse()?;
    universe.ops().describe_world(world).await?;
    universe.ops().assign_world(world, worker, pin.priority.unwrap_or(PRIORITY_NORMAL)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets any worker run a world.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/worlds/{world}/assignment", tag = "workers",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn unassign(WorldScope { universe, world, .. }: WorldScope<ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().describe_world(world).await?;
    universe.ops().unassign_world(world).await?;
    Ok(StatusCode::NO_CONTENT)
}
