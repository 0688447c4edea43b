//! Programs and manifests: what worlds run.

use super::{
    Problem,
    extract::{ADMIN, In, Name, READ, Whole, hash},
};
use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use mundi_engine::Engine;
use mundi_kernel::manifest::Manifest;
use mundi_model::{Code, Coded, Hash, json as canonical};
use mundi_store::blob::Blobs;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Program {
    name: String,
    manifest: String,
    program: String,
}

/// The programs that have a name here.
#[utoipa::path(
    get, path = "/v1/u/{universe}/programs", tag = "programs", responses((status = 200, body = Vec<Program>)),
)]
pub(super) async fn list<E: Engine>(In { api, .. }: In<E, READ>) -> Json<Vec<Program>> {
    let named = api.node.programs().iter().map(|(name, program)| Program {
        name: name.clone(),
        manifest: program.manifest_hash().to_string(),
        program: Hash::of(&program.program).to_string(),
    });
    Json(named.collect())
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stored {
    hash: String,
}

/// Stores the code of a program under its hash. Whether it can be run is seen when a manifest names it.
#[utoipa::path(
    put, path = "/v1/u/{universe}/programs/{hash}", tag = "programs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201, body = Stored)),
)]
pub(super) async fn put<E: Engine>(
    In { universe, .. }: In<E, ADMIN>,
    name: Name,
    Whole(body): Whole,
) -> Result<Response, Problem> {
    let (stated, actual) = (hash(&name)?, Hash::of(&body));
    if stated != actual {
        return Err(Problem::new(Code::BlobHashMismatch, format!("the bytes have the hash {actual}")));
    }
    let stored = Blobs::put(&universe.plane().blobs, universe.id(), body, &[]).await?;
    Ok((StatusCode::CREATED, Json(Stored { hash: stored.to_string() })).into_response())
}

/// Stores a manifest, in its canonical form, and says its hash. A program that this server cannot run is refused.
#[utoipa::path(
    post, path = "/v1/u/{universe}/manifests", tag = "programs", request_body = serde_json::Value,
    responses((status = 201, body = Stored)),
)]
pub(super) async fn put_manifest<E: Engine>(
    In { universe, .. }: In<E, ADMIN>,
    Whole(body): Whole,
) -> Result<Response, Problem> {
    let given: Result<serde_json::Value, _> = serde_json::from_slice(&body);
    let given = given.map_err(|error| Problem::new(Code::JsonMalformed, error.to_string()))?;
    let bytes = canonical::to_canonical(&given).into_bytes();
    let manifest = Manifest::from_bytes(&bytes).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    if !universe.plane().registry.has_program(&manifest.program) {
        let detail = format!("no program {} is registered here", manifest.program);
        return Err(Problem::new(Code::ProgramUnknown, detail));
    }
    let stored = Blobs::put(&universe.plane().blobs, universe.id(), bytes.into(), &[]).await?;
    universe.ops().check_manifest(stored).await?;
    Ok((StatusCode::CREATED, Json(Stored { hash: stored.to_string() })).into_response())
}

/// A manifest, in its canonical form.
#[utoipa::path(
    get, path = "/v1/u/{universe}/manifests/{hash}", tag = "programs", responses((status = 200, body = serde_json::Value)),
)]
pub(super) async fn manifest<E: Engine>(In { universe, .. }: In<E, READ>, name: Name) -> Result<Response, Problem> {
    let bytes = Blobs::get(&universe.plane().blobs, universe.id(), hash(&name)?).await?;
    Manifest::from_bytes(&bytes).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}
