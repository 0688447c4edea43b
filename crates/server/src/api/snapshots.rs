//! Snapshots, the baseline, and moving old records into segments.

use super::{
    ListPage, Problem,
    extract::{ADMIN, Params, READ, WorldScope},
    json::Snapshot,
    limit,
};
use axum::Json;
use mundi_model::Height;
use mundi_store::protocol::{ExportPolicy, Page};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotsParams {
    /// Where the page before ended: its `next`.
    after: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The snapshots of a world, the newest first.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/snapshots", tag = "snapshots", params(SnapshotsParams),
    responses((status = 200, body = ListPage<Snapshot>)),
)]
pub(super) async fn list(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Params(params): Params<SnapshotsParams>,
) -> Result<Json<ListPage<Snapshot>>, Problem> {
    let below = params.after.map(Height::new);
    let Page { items, next } = universe.ops().list_snapshots(world, below, limit(params.limit)?).await?;
    Ok(ListPage::of(Page { items, next: next.map(Height::get) }, |note| Snapshot::from(&note)))
}

/// The result. The answer comes when the work is done, whichever process runs the world.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Kept {
    done: serde_json::Value,
}

/// Takes a snapshot and makes it the baseline.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/snapshots", tag = "snapshots",
    responses((status = 200, body = Kept)),
)]
pub(super) async fn take(WorldScope { universe, world, .. }: WorldScope<ADMIN>) -> Result<Json<Kept>, Problem> {
    let taken = universe.ops().take_snapshot(world).await?;
    Ok(Json(Kept { done: taken.as_ref().map_or(serde_json::Value::Null, |note| json!(Snapshot::from(note))) }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PromoteParams {
    /// The height of the snapshot.
    height: u64,
}

/// Makes a snapshot the one that restore starts from.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/baseline", tag = "snapshots", params(PromoteParams),
    responses((status = 200, body = Kept)),
)]
pub(super) async fn promote(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    Params(params): Params<PromoteParams>,
) -> Result<Json<Kept>, Problem> {
    let promoted = universe.ops().promote_baseline(world, Height::new(params.height)).await?;
    Ok(Json(Kept { done: json!(Snapshot::from(&promoted)) }))
}

/// Moves what lies far enough below the baseline into segments.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/segments", tag = "snapshots",
    responses((status = 200, body = Kept)),
)]
pub(super) async fn export(WorldScope { universe, world, .. }: WorldScope<ADMIN>) -> Result<Json<Kept>, Problem> {
    let segments = universe.ops().export_segments(world, ExportPolicy::default()).await?;
    Ok(Json(Kept { done: json!({ "segments": segments }) }))
}
