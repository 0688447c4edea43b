//! Commands of an operator to a world: pause, resume, retry, skip, upgrade, archive, delete.

use super::{
    Problem,
    access::By,
    extract::{ADMIN, JsonBody, WorldScope},
    worlds::manifest_of,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use mundi_model::InboxSeq;
use mundi_runtime::control::Repaired;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The place of a command in the inbox: it takes effect when the world has come that far.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Commanded {
    seq: String,
}

/// From now on the world takes nothing but commands; its inbox keeps what arrives. Who asked for it is journaled.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/pause", tag = "worlds", responses((status = 202, body = Commanded)),
)]
pub(super) async fn pause(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    By(operator): By,
) -> Result<Response, Problem> {
    Ok(commanded(universe.ops().world_pause_by(world, &operator).await?))
}

/// The world continues: after a pause, and after a hold.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/resume", tag = "worlds", responses((status = 202, body = Commanded)),
)]
pub(super) async fn resume(WorldScope { universe, world, .. }: WorldScope<ADMIN>) -> Result<Response, Problem> {
    Ok(commanded(universe.ops().world_resume(world).await?))
}

/// The repair of the input at which a world was on hold.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Repair {
    /// The place of the command in the inbox.
    seq: String,
    /// The input that it is about.
    input: String,
    /// The operator who is journaled for it.
    operator: String,
}

/// Takes the input again that the world is on hold at, for example after an upgrade. Who does it is journaled.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/retry", operation_id = "world_retry", tag = "worlds",
    responses((status = 202, description = "It is on its way", body = Repair)),
)]
pub(super) async fn retry(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    By(operator): By,
) -> Result<Response, Problem> {
    let name = operator.name.clone();
    Ok(repaired(universe.ops().world_retry(world, operator).await?, name))
}

/// Passes the one input that the world is on hold at: the program does not see it, and its caller gets `STEP_SKIPPED`. Who does it
/// is journaled.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/skip", operation_id = "world_skip", tag = "worlds",
    responses((status = 202, description = "It is on its way", body = Repair)),
)]
pub(super) async fn skip(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    By(operator): By,
) -> Result<Response, Problem> {
    let name = operator.name.clone();
    Ok(repaired(universe.ops().world_skip(world, operator).await?, name))
}

fn repaired(Repaired { seq, input }: Repaired, operator: String) -> Response {
    let repair = Repair { seq: seq.to_string(), input: input.to_string(), operator };
    (StatusCode::ACCEPTED, Json(repair)).into_response()
}

fn commanded(seq: InboxSeq) -> Response {
    (StatusCode::ACCEPTED, Json(Commanded { seq: seq.to_string() })).into_response()
}

/// Another manifest for a world.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewManifest {
    /// The name of a program, for its newest version, or `name@version`.
    program: Option<String>,
    /// Or the hash of a manifest.
    manifest: Option<String>,
    /// Insists although a rehearsal diverges.
    #[serde(default)]
    forced: bool,
}

/// From the record after the command on, another manifest holds.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/upgrade", tag = "worlds", request_body = NewManifest,
    responses((status = 202, body = Commanded)),
)]
pub(super) async fn upgrade(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    JsonBody(new): JsonBody<NewManifest>,
) -> Result<Response, Problem> {
    let manifest = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref()).await?;
    Ok(commanded(universe.ops().world_upgrade(world, manifest, new.forced).await?))
}

/// Puts a world into the archive: it takes nothing in until it is taken out again.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/archive", tag = "worlds",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn archive(WorldScope { universe, world, .. }: WorldScope<ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().world_archive(world).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes a world out of the archive.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/unarchive", tag = "worlds",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn unarchive(WorldScope { universe, world, .. }: WorldScope<ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().world_unarchive(world).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a world for good. Its id is never used again.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/worlds/{world}", tag = "worlds", responses((status = 204, description = "Done")),
)]
pub(super) async fn delete(WorldScope { universe, world, .. }: WorldScope<ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().describe_world(world).await?;
    universe.ops().world_delete(world).await?;
    Ok(StatusCode::NO_CONTENT)
}
