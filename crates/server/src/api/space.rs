//! The space of a universe, and the sweep.

use super::{
    Problem,
    extract::{ADMIN, JsonBody, READ, UniverseScope},
    moment::Moment,
    quotas::{UsedQuota, by_name},
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use mundi_engine::Engine;
use mundi_runtime::{Plane, RuntimeError};
use mundi_store::{
    protocol::{ReadSweep, RequestSweep},
    reachability::{self, Amount},
    values::{FinishedSweep, RunningSweep, SweepState},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A number of objects, and their bytes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AmountOf {
    count: u64,
    bytes: u64,
}

impl From<Amount> for AmountOf {
    fn from(amount: Amount) -> Self {
        Self { count: amount.count, bytes: amount.bytes }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Usage {
    /// Worlds that are neither deleted nor being deleted.
    worlds: u64,
    /// Worlds whose keys are still to be removed.
    worlds_deleting: u64,
    worlds_deleted: u64,
    /// Objects of the content store whose bytes are in the engine.
    inline_objects: AmountOf,
    /// Objects of the content store whose bytes are in the object store.
    stored_objects: AmountOf,
    /// Of both: those that nothing referred to when a sweep last looked.
    condemned_objects: AmountOf,
    /// Old journal records in the object store.
    segments: AmountOf,
    /// Programs and manifests that stay until they are deleted, whether a world runs them or not.
    kept_objects: u64,
    /// The bytes on disk of the engine, with all its universes.
    engine_disk_bytes: Option<u64>,
    /// The quotas of the universe, with what counts against them: rates, calls, streams and effects of this process.
    quotas: BTreeMap<&'static str, UsedQuota>,
}

/// The space that a universe occupies. It is counted again for each request, with one read per object, segment and world.
#[utoipa::path(get, path = "/v1/u/{universe}/usage", tag = "space", responses((status = 200, body = Usage)))]
pub(super) async fn usage(UniverseScope { universe, .. }: UniverseScope<READ>) -> Result<Json<Usage>, Problem> {
    let plane = universe.plane();
    let engine_disk_bytes = plane.engine.disk_bytes().await.map_err(RuntimeError::from)?;
    let reachability::Usage {
        worlds,
        worlds_deleting,
        worlds_deleted,
        inline_objects,
        stored_objects,
        condemned_objects,
        segments,
        kept_objects,
        ..
    } = reachability::usage(&plane.blobs, universe.id()).await?;
    universe.quotas().counted(plane).await?;
    Ok(Json(Usage {
        worlds,
        worlds_deleting,
        worlds_deleted,
        inline_objects: inline_objects.into(),
        stored_objects: stored_objects.into(),
        condemned_objects: condemned_objects.into(),
        segments: segments.into(),
        kept_objects,
        engine_disk_bytes,
        quotas: by_name(universe.quotas().uses()),
    }))
}

/// The settings, the requests and the results of a universe's sweep.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sweep {
    /// The number of the newest run.
    runs: u64,
    running: Option<SweepRunning>,
    /// A run was asked for, and has not begun.
    requested: bool,
    last: Option<SweepEnded>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SweepRunning {
    run: u64,
    dry_run: bool,
    worker: String,
    began_at_ns: u64,
    began_at: Moment,
    /// `walking` gathers references, `removing` removes what has none.
    phase: &'static str,
    /// Worlds that were walked so far.
    worlds: u64,
}

impl From<RunningSweep> for SweepRunning {
    fn from(running: RunningSweep) -> Self {
        let phase = if running.is_walking() { "walking" } else { "removing" };
        let RunningSweep { run, dry_run, holder, began_at_ns, worlds, .. } = running;
        Self { run, dry_run, worker: holder.to_string(), began_at_ns, began_at: Moment::of(began_at_ns), phase, worlds }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SweepEnded {
    run: u64,
    dry_run: bool,
    began_at_ns: u64,
    began_at: Moment,
    ended_at_ns: u64,
    ended_at: Moment,
    worlds: u64,
    objects: u64,
    /// Objects that nothing refers to, those among them that are removed included.
    unreachable: u64,
    unreachable_bytes: u64,
    /// Found without a reference for the first time: a run after the grace period removes them.
    condemned: u64,
    /// Found without a reference by an earlier run, and referred to after all.
    reprieved: u64,
    /// Of a dry run: what it would have removed.
    removed: u64,
    removed_bytes: u64,
    /// Put or referred to while they were about to be removed.
    spared: u64,
    /// Bodies of uploads that never ended.
    leftovers: u64,
    /// Segments of deleted worlds.
    segments: u64,
    /// Deletions of worlds that had stopped halfway, and were finished; of a dry run, would have been.
    worlds_finished: u64,
}

impl From<FinishedSweep> for SweepEnded {
    fn from(finished: FinishedSweep) -> Self {
        let FinishedSweep { run, dry_run, began_at_ns, ended_at_ns, totals } = finished;
        Self {
            run,
            dry_run,
            began_at_ns,
            began_at: Moment::of(began_at_ns),
            ended_at_ns,
            ended_at: Moment::of(ended_at_ns),
            worlds: totals.worlds,
            objects: totals.objects,
            unreachable: totals.unreachable,
            unreachable_bytes: totals.unreachable_bytes,
            condemned: totals.condemned,
            reprieved: totals.reprieved,
            removed: totals.removed,
            removed_bytes: totals.removed_bytes,
            spared: totals.spared,
            leftovers: totals.leftovers,
            segments: totals.segments,
            worlds_finished: totals.worlds_finished,
        }
    }
}

/// The settings and the results of a universe's sweep.
#[utoipa::path(get, path = "/v1/u/{universe}/sweep", tag = "space", responses((status = 200, body = Sweep)))]
pub(super) async fn describe(UniverseScope { universe, .. }: UniverseScope<READ>) -> Result<Json<Sweep>, Problem> {
    let state = universe.plane().run(&ReadSweep { universe: universe.id() }).await?.output;
    let SweepState { runs, running, requested, last, .. } = state;
    let (running, last) = (running.map(SweepRunning::from), last.map(SweepEnded::from));
    Ok(Json(Sweep { runs, running, requested: requested.is_some(), last }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSweep {
    /// Tells what would be removed, and removes nothing.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SweepRequested {
    /// The number that the run will have.
    run: u64,
}

/// Asks for a sweep now. A process with the role `orchestrator` carries it out; `GET` of the same address tells how far it is.
#[utoipa::path(
    post, path = "/v1/u/{universe}/sweep", tag = "space", request_body = NewSweep,
    responses((status = 202, body = SweepRequested)),
)]
pub(super) async fn request(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    JsonBody(NewSweep { dry_run }): JsonBody<NewSweep>,
) -> Result<Response, Problem> {
    let plane = universe.plane();
    let request = RequestSweep { universe: universe.id(), dry_run, now_ns: plane.now_ns() };
    let run = plane.run(&request).await?.output;
    Ok((StatusCode::ACCEPTED, Json(SweepRequested { run })).into_response())
}
