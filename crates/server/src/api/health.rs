//! Liveness, readiness and metrics of the process.

use super::{
    Api, Problem,
    access::Access,
    exposition::{CONTENT_TYPE, exposition},
};
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use mundi_model::Code;
use mundi_runtime::{Plane, control::engine_answers};

/// The process is alive.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// The process takes work: it does not drain, and its engine answers.
#[utoipa::path(get, path = "/readyz", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn readyz(State(api): State<Api>) -> Result<&'static str, Problem> {
    if api.node.is_leaving() {
        return Err(Problem::new(Code::NodeDraining, "it finishes what it has"));
    }
    engine_answers(api.node.plane().engine()).await?;
    Ok("ok\n")
}

/// The metrics of the process for all its universes, as OpenMetrics text. A token needs the verb `metrics`, or `read` in all universes.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn metrics(State(api): State<Api>, access: Access) -> Result<Response, Problem> {
    access.require_metrics()?;
    let text = exposition(&api).await;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
