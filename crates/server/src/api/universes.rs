//! Universes.

use super::{
    Api, Problem,
    access::Access,
    extract::{ADMIN, AllUniverses, JsonBody, READ, UniverseScope},
};
use crate::node::Universe;
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UniverseOf {
    name: String,
    universe: String,
}

impl UniverseOf {
    fn new(universe: &Universe) -> Self {
        Self { name: universe.name().to_owned(), universe: universe.id().to_string() }
    }
}

/// The universes that the caller may see.
#[utoipa::path(get, path = "/v1/universes", tag = "universes", responses((status = 200, body = Vec<UniverseOf>)))]
pub(super) async fn list(State(api): State<Api>, access: Access) -> Json<Vec<UniverseOf>> {
    let all = api.node.universes();
    let seen = all.iter().filter(|universe| access.sees(universe.id()));
    Json(seen.map(|universe| UniverseOf::new(universe)).collect())
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUniverse {
    name: String,
}

/// Makes a universe. Asked again for the same name, it answers the same.
#[utoipa::path(
    post, path = "/v1/universes", tag = "universes", request_body = NewUniverse,
    responses((status = 201, body = UniverseOf), (status = 200, description = "It was there before", body = UniverseOf)),
)]
pub(super) async fn create(
    AllUniverses(api): AllUniverses<ADMIN>,
    JsonBody(new): JsonBody<NewUniverse>,
) -> Result<Response, Problem> {
    let (universe, before) = api.node.create_universe(&new.name).await?;
    let status = if before { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(UniverseOf::new(&universe))).into_response())
}

/// One universe.
#[utoipa::path(get, path = "/v1/u/{universe}", tag = "universes", responses((status = 200, body = UniverseOf)))]
pub(super) async fn describe(UniverseScope { universe, .. }: UniverseScope<READ>) -> Json<UniverseOf> {
    Json(UniverseOf::new(&universe))
}
