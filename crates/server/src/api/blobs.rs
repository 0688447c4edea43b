//! Blobs: immutable objects named by their hash. Bodies are streamed both ways.

use super::{
    Api, Problem,
    extract::{In, Name, READ, SEND, hash},
};
use axum::{
    Json,
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use mundi_engine::Engine;
use mundi_model::{Code, Hash, limits};
use mundi_store::blobs::{PutStream, Verify};
use serde::Serialize;
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
pub(super) async fn put<E: Engine>(In { api, universe }: In<E, SEND>, request: Request) -> Result<Response, Problem> {
    store(&api, universe.id(), request, None).await
}

/// Stores a body that must have this hash.
#[utoipa::path(
    put, path = "/v1/u/{universe}/blobs/{hash}", tag = "blobs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201, body = Blob)),
)]
pub(super) async fn put_at<E: Engine>(
    In { api, universe }: In<E, SEND>,
    name: Name,
    request: Request,
) -> Result<Response, Problem> {
    store(&api, universe.id(), request, Some(hash(&name)?)).await
}

async fn store<E: Engine>(
    api: &Api<E>,
    universe: mundi_model::UniverseId,
    request: Request,
    stated: Option<Hash>,
) -> Result<Response, Problem> {
    let timeout = api.limits.body_timeout;
    // Each piece has its time: a slow client cannot hold a worker, a large body may take as long as it needs.
    let pieces = futures_util::stream::unfold(Some(request.into_body().into_data_stream()), move |stream| async move {
        let mut stream = stream?;
        match tokio::time::timeout(timeout, stream.next()).await {
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(stream))),
            Ok(Some(Err(error))) => Some((Err(error.to_string()), None)),
            Ok(None) => None,
            Err(_) => Some((Err(format!("nothing came for {timeout:?}")), None)),
        }
    });
    let bounded = bound(pieces);
    let put = PutStream { stated, ..PutStream::default() };
    let (hash, bytes) = api.node.plane().blobs.put_stream(universe, Box::pin(bounded), put).await?;
    Ok((StatusCode::CREATED, Json(Blob { hash: hash.to_string(), bytes })).into_response())
}

fn bound(
    pieces: impl futures_util::Stream<Item = Result<bytes::Bytes, String>> + Send,
) -> impl futures_util::Stream<Item = Result<bytes::Bytes, String>> + Send {
    pieces.scan(0u64, |taken, piece| {
        let piece = piece.and_then(|piece| {
            *taken += piece.len() as u64;
            match *taken > limits::BLOB_BYTES_MAX {
                true => Err(format!("a blob has at most {} bytes", limits::BLOB_BYTES_MAX)),
                false => Ok(piece),
            }
        });
        std::future::ready(Some(piece))
    })
}

/// The bytes of a blob, verified against its name as they pass.
#[utoipa::path(
    get, path = "/v1/u/{universe}/blobs/{hash}", tag = "blobs",
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")),
)]
pub(super) async fn get<E: Engine>(In { api, universe }: In<E, READ>, name: Name) -> Result<Response, Problem> {
    let (cas, hash) = (&api.node.plane().blobs, hash(&name)?);
    let size = cas.size(universe.id(), hash).await?;
    let missing = || Problem::new(Code::BlobNotFound, format!("{hash} is not in the content store"));
    let size = size.ok_or_else(missing)?;
    let stream = cas.stream(universe.id(), hash, Verify::Always).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::ETAG, format!("\"{hash}\"")),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()),
    ];
    Ok((headers, Body::from_stream(stream)).into_response())
}
