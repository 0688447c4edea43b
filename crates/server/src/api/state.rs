//! What a world is, now or at any height: queries, cells, differences.

use super::{
    Problem,
    extract::{EventBody, Name, Params, READ, WorldScope, world_of},
    json, limit,
};
use crate::quotas::Quota;
use axum::{
    Json,
    http::header,
    response::{IntoResponse, Response},
};
use mundi_engine::Engine;
use mundi_model::{Code, Height};
use mundi_runtime::ops::At;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AtParams {
    /// The world as it was before the record at this height; as it is if nothing is said.
    at: Option<u64>,
}

/// Asks the program, which cannot change anything.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/query/{query}", tag = "state", params(AtParams),
    request_body(content = serde_json::Value, description = "The parameters of the query: JSON, or canonical CBOR"),
    responses((status = 200, description = "The answer", body = serde_json::Value)),
)]
pub(super) async fn query<E: Engine>(
    WorldScope { api, universe, world, tenant }: WorldScope<E, READ>,
    Name(name): Name,
    Params(params): Params<AtParams>,
    EventBody { cbor, headers }: EventBody,
) -> Result<Response, Problem> {
    let _held = api.node.begin(&universe, tenant, Quota::Calls)?; // it runs the program as a call does
    let answer = universe.ops().world_query(world, &name, &cbor, params.at.map(Height::new)).await?;
    if super::extract::text_header(&headers, "accept") == Some("application/cbor") {
        return Ok(([(header::CONTENT_TYPE, "application/cbor")], answer).into_response());
    }
    Ok(Json(json::bytes(&answer)).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CellsParams {
    at: Option<u64>,
    #[serde(default)]
    prefix: String,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Cell {
    key: String,
    /// What it holds; `{"$bytes": "…"}` where that is not canonical CBOR.
    value: serde_json::Value,
}

/// The cells of a world under a prefix, in key order.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/cells", tag = "state", params(CellsParams),
    responses((status = 200, body = super::ListPage<Cell>)),
)]
pub(super) async fn cells<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, READ>,
    Params(params): Params<CellsParams>,
) -> Result<Json<super::ListPage<Cell>>, Problem> {
    let (items_max, at) = (limit(params.limit)?, At { world, height: params.at.map(Height::new) });
    let found = universe.ops().world_cells(at, &params.prefix, params.after.as_deref(), items_max).await?;
    let next = found.last().filter(|_| !found.is_empty()).map(|(key, _)| key.clone());
    // A scan may end early because of its bytes: whoever gets anything asks once more.
    let items = found.into_iter().map(|(key, bytes)| Cell { key, value: json::bytes(&bytes) }).collect();
    Ok(Json(super::ListPage { items, next }))
}

/// One cell of a world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/cells/{key}", tag = "state", params(AtParams),
    responses((status = 200, body = Cell)),
)]
pub(super) async fn cell<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, READ>,
    Name(key): Name,
    Params(params): Params<AtParams>,
) -> Result<Json<Cell>, Problem> {
    let at = At { world, height: params.at.map(Height::new) };
    let found = universe.ops().world_cell(at, &key).await?;
    let missing = || Problem::new(Code::CellNotFound, format!("{world} has no cell `{key}`"));
    let value = json::bytes(&found.ok_or_else(missing)?);
    Ok(Json(Cell { key, value }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffParams {
    at: Option<u64>,
    /// The other world; the same one if nothing is said.
    with: Option<String>,
    with_at: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A side on which the cell is not there is left out.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Difference {
    key: String,
    #[schema(value_type = serde_json::Value)]
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<serde_json::Value>,
    #[schema(value_type = serde_json::Value)]
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<serde_json::Value>,
}

/// The first cells that differ between two worlds, or two heights of one, in key order.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/diff", tag = "state", params(DiffParams),
    responses((status = 200, body = Vec<Difference>)),
)]
pub(super) async fn diff<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, READ>,
    Params(params): Params<DiffParams>,
) -> Result<Json<Vec<Difference>>, Problem> {
    let other = params.with.as_deref().map_or(Ok(world), |name| world_of(&universe, name))?;
    let left = At { world, height: params.at.map(Height::new) };
    let right = At { world: other, height: params.with_at.map(Height::new) };
    let found = universe.ops().world_diff(left, right, limit(params.limit)?).await?;
    let side = |bytes: Option<Vec<u8>>| bytes.map(|bytes| json::bytes(&bytes));
    let differences = found.into_iter().map(|d| Difference { key: d.key, left: side(d.left), right: side(d.right) });
    Ok(Json(differences.collect()))
}
