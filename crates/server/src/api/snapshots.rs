//! Snapshots, the baseline, and moving old records into segments.

use super::{
    ListPage, Problem,
    extract::{ADMIN, Of, Params, READ},
    json, limit,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use mundi_engine::Engine;
use mundi_model::Height;
use mundi_runtime::ops::Upkeep;
use mundi_store::protocol::{ExportPolicy, Page};
use serde::{Deserialize, Serialize};
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
    responses((status = 200, body = ListPage<serde_json::Value>)),
)]
pub(super) async fn list<E: Engine>(
    Of { universe, world, .. }: Of<E, READ>,
    Params(params): Params<SnapshotsParams>,
) -> Result<Json<ListPage<serde_json::Value>>, Problem> {
    let below = params.after.map(Height::new);
    let Page { items, next } = universe.ops().list_snapshots(world, below, limit(params.limit)?).await?;
    Ok(ListPage::of(Page { items, next: next.map(Height::get) }, |note| json::snapshot(&note)))
}

/// How upkeep went: done at once, or asked of the worker that runs the world.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Kept {
    done: serde_json::Value,
    asked: Option<String>,
}

fn kept<T>(upkeep: Upkeep<T>, done: impl FnOnce(T) -> serde_json::Value) -> Response {
    match upkeep {
        Upkeep::Done(result) => Json(Kept { done: done(result), asked: None }).into_response(),
        Upkeep::Asked(worker) => {
            let kept = Kept { done: serde_json::Value::Null, asked: Some(worker.to_string()) };
            (StatusCode::ACCEPTED, Json(kept)).into_response()
        }
    }
}

/// Takes a snapshot and makes it the baseline.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/snapshots", tag = "snapshots",
    responses((status = 200, body = Kept), (status = 202, description = "The worker that runs the world was asked", body = Kept)),
)]
pub(super) async fn take<E: Engine>(Of { api, universe, world }: Of<E, ADMIN>) -> Result<Response, Problem> {
    let taken = universe.ops().take_snapshot(world, api.node.worker()).await?;
    Ok(kept(taken, |note| note.as_ref().map_or(serde_json::Value::Null, json::snapshot)))
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
    responses((status = 200, body = Kept), (status = 202, description = "The worker that runs the world was asked", body = Kept)),
)]
pub(super) async fn promote<E: Engine>(
    Of { api, universe, world }: Of<E, ADMIN>,
    Params(params): Params<PromoteParams>,
) -> Result<Response, Problem> {
    let promoted = universe.ops().promote_baseline(world, Height::new(params.height), api.node.worker()).await?;
    Ok(kept(promoted, |note| json::snapshot(&note)))
}

/// Moves what lies far enough below the baseline into segments.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/segments", tag = "snapshots",
    responses((status = 200, body = Kept), (status = 202, description = "The worker that runs the world was asked", body = Kept)),
)]
pub(super) async fn export<E: Engine>(Of { api, universe, world }: Of<E, ADMIN>) -> Result<Response, Problem> {
    let exported = universe.ops().export_segments(world, api.node.worker(), ExportPolicy::default()).await?;
    Ok(kept(exported, |segments| serde_json::json!({ "segments": segments })))
}
