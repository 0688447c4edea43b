//! Whether the process lives, whether it takes work, and what it has counted.

use super::{Api, Problem, access::Access, exposition::exposition};
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use mundi_engine::{Engine, Transaction};
use mundi_model::Code;
use mundi_runtime::Plane;

/// The process lives.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// The process takes work: it does not drain, and its engine answers.
#[utoipa::path(get, path = "/readyz", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn readyz<E: Engine>(State(api): State<Api<E>>) -> Result<&'static str, Problem> {
    if api.node.is_leaving() {
        return Err(Problem::new(Code::NodeDraining, "it finishes what it has"));
    }
    // A read, because an engine may send nothing before it. No key of a layer is so short.
    let read = async { api.node.plane().engine().begin().await?.get_snapshot(b"readyz").await };
    read.await.map(|_| "ok\n").map_err(|error| mundi_store::StoreError::from(error).into())
}

/// What the process has counted for all its universes, as Prometheus reads it. A token needs the verb `metrics`, or `read` in all universes.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn metrics<E: Engine>(State(api): State<Api<E>>, access: Access) -> Result<Response, Problem> {
    access.require_metrics()?;
    let text = exposition(&api).await;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
