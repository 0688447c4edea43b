//! Blobs: immutable objects named by their hash. Bodies are streamed both ways.

use super::{
    Api, Problem,
    extract::{self, Name, Pieces, READ, SEND, UniverseScope, hash},
};
use crate::{
    bodies::Bodies,
    node::{Tenant, Universe},
    quotas::Amounts,
    serve::Client,
};
use axum::{
    Json,
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use mundi_model::{Code, Hash, limits};
use mundi_store::blobs::{PutStream, Verify};
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Blob {
    hash: String,
    bytes: u64,
}

/// Stores a body, and says its hash.
#[utoipa::path(
    post, path = "/v1/u/{universe}/blobs", tag = "blobs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201, body = Blob)),
)]
pub(super) async fn put(
    UniverseScope { api, universe, tenant }: UniverseScope<SEND>,
    request: Request,
) -> Result<Response, Problem> {
    store(&api, &universe, tenant, request, None).await
}

/// Stores a body that must have this hash.
#[utoipa::path(
    put, path = "/v1/u/{universe}/blobs/{hash}", tag = "blobs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201, body = Blob)),
)]
pub(super) async fn put_at(
    UniverseScope { api, universe, tenant }: UniverseScope<SEND>,
    name: Name,
    request: Request,
) -> Result<Response, Problem> {
    store(&api, &universe, tenant, request, Some(hash(&name)?)).await
}

async fn store(
    api: &Api,
    universe: &Arc<Universe>,
    tenant: Tenant,
    request: Request,
    stated: Option<Hash>,
) -> Result<Response, Problem> {
    // What turns out longer than it was said to be is refused on the way.
    let said = Amounts::blob(extract::content_length(&request));
    let growth = match api.node.grow(universe, tenant, said).await {
        Ok(growth) => Arc::new(tokio::sync::Mutex::new(growth)),
        Err(problem) => {
            extract::discard(request.into_body(), api.limits.body_timeout).await;
            return Err(problem);
        }
    };
    let (parts, body) = request.into_parts();
    let (client, bodies, refused) = (extract::client(&parts).cloned(), api.bodies.clone(), Arc::new(Mutex::new(None)));
    let take = {
        let (refused, growth, node, universe) = (refused.clone(), growth.clone(), api.node.clone(), universe.clone());
        move |mut pieces: Pieces| {
            let (client, bodies, refused) = (client.clone(), bodies.clone(), refused.clone());
            let (growth, node, universe) = (growth.clone(), node.clone(), universe.clone());
            async move {
                let mut piece = pieces.next().await?.and_then(|piece| {
                    check(&pieces, client.as_deref(), &bodies)?;
                    Ok(piece)
                });
                if piece.is_ok()
                    && let Err(problem) = growth.lock().await.grow_to(&node, &universe, pieces.taken()).await
                {
                    piece = Err(problem);
                }
                if let Err(problem) = &piece
                    && problem.quota.is_some()
                {
                    pieces.discard().await;
                }
                let piece = piece.map_err(|problem| {
                    let detail = problem.detail.clone();
                    *refused.lock() = Some(problem);
                    detail
                });
                Some((piece, pieces))
            }
        }
    };
    let pieces = Box::pin(stream::unfold(Pieces::new(body, api), take));
    let put =
        api.node.plane().blobs.put_stream(universe.id(), pieces, PutStream { stated, ..PutStream::default() }).await;
    // Why a source broke off is known better here.
    let put = put.map_err(|error| refused.lock().take().unwrap_or_else(|| error.into()));
    let growth = std::mem::take(&mut *growth.lock().await);
    let (hash, bytes) = match put {
        Ok(put) => put,
        Err(problem) => {
            growth.give_back(universe).await;
            return Err(problem);
        }
    };
    growth.keep_bytes(universe, bytes).await;
    Ok((StatusCode::CREATED, Json(Blob { hash: hash.to_string(), bytes })).into_response())
}

/// Two parts of a blob are in memory at a time.
fn check(pieces: &Pieces, client: Option<&Client>, bodies: &Arc<Bodies>) -> Result<(), Problem> {
    if pieces.taken() > limits::BLOB_BYTES_MAX {
        let detail = format!("a blob has at most {} bytes", limits::BLOB_BYTES_MAX);
        return Err(Problem::new(Code::BlobTooLarge, detail));
    }
    let held = usize::try_from(pieces.taken()).unwrap_or(usize::MAX).min(2 * limits::BLOB_PART_BYTES);
    let held = held.min(bodies.budgets().body_bytes_max()); // one alone is always taken
    client.map_or(Ok(()), |client| Ok(client.hold_body(bodies, held)?))
}

/// The bytes of a blob, verified against its name as they pass.
#[utoipa::path(
    get, path = "/v1/u/{universe}/blobs/{hash}", tag = "blobs",
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")),
)]
pub(super) async fn get(
    UniverseScope { api, universe, .. }: UniverseScope<READ>,
    name: Name,
) -> Result<Response, Problem> {
    let (cas, hash) = (&api.node.plane().blobs, hash(&name)?);
    let size = cas.size(universe.id(), hash).await?;
    let missing = || Problem::new(Code::BlobNotFound, format!("{hash} is not in the content store"));
    let size = size.ok_or_else(missing)?;
    let stream = cas.stream(universe.id(), hash, Verify::Always).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::ETAG, format!("\"{hash}\"")),
        // For private caches only, never for shared ones.
        (header::CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
    ];
    Ok((headers, Body::from_stream(stream)).into_response())
}
