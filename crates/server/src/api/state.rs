//! The state of a world, now or at any height: queries, cells, differences.

use super::{
    Problem,
    events::WaitParams,
    extract::{EventBody, Name, Params, READ, WorldScope, wanted_world},
    json, limit,
};
use crate::{node::Universe, quotas::Quota};
use axum::{
    Json,
    http::header,
    response::{IntoResponse, Response},
};
use mundi_model::{CallId, Code, Height, InboxSeq, WorldId};
use mundi_runtime::control::{At, CellDifference};
use mundi_store::values::Position;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AtParams {
    /// The world as it was before the record at this height; as it is if nothing is said.
    at: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryParams {
    /// The world as it was before the record at this height; as it is if nothing is said.
    at: Option<u64>,
    /// Waits until the world has taken in what stands at this place of its inbox, as `send` names it (`s_…`), or has reached this height.
    at_least: Option<String>,
    /// How long to wait for `at_least`: `30s` if nothing is said.
    #[param(example = "5s", pattern = "^[0-9]{1,9}(ms|s|m|h|d)$")]
    timeout: Option<String>,
}

/// How far a world has to be before it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtLeast {
    Place(InboxSeq),
    Height(Height),
}

impl AtLeast {
    fn parse(text: &str) -> Result<Self, Problem> {
        let height = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        // What `mundi-call` names is a place, too, with the height of the reply.
        let place = || text.parse::<CallId>().ok().map(|call| Self::Place(call.seq));
        height
            .map(|height| Self::Height(Height::new(height)))
            .or_else(place)
            .ok_or_else(|| Problem::invalid("`at_least` is neither a place (`s_…`, as `send` answers it) nor a height"))
    }

    fn is_reached(self, position: &Position) -> bool {
        match self {
            // One that never stood in the inbox was journaled before anyone heard of it.
            Self::Place(place) => place.is_direct() || position.cursor.is_some_and(|cursor| cursor >= place),
            Self::Height(height) => position.head.height >= height,
        }
    }

    /// Returns once the world is there.
    async fn wait(self, universe: &Universe, world: WorldId) -> Result<(), Problem> {
        loop {
            let head = universe.ops().seen_head(world).await?;
            match &head.position {
                Some(position) if self.is_reached(position) => return Ok(()),
                Some(_) => {}
                None => drop(universe.ops().describe_world(world).await?), // says that there is none
            }
            universe.ops().head_changed(world, head).await?;
        }
    }
}

/// Asks the program, which cannot change anything. It sees everything that the world had taken in when it was asked, which is not yet all that
/// was sent: `at_least` waits for that.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/query/{query}", tag = "state", params(QueryParams),
    request_body(content = serde_json::Value, description = "The parameters of the query: JSON, or canonical CBOR"),
    responses((status = 200, description = "The answer", body = serde_json::Value)),
)]
pub(super) async fn query(
    WorldScope { api, universe, world, tenant }: WorldScope<READ>,
    Name(name): Name,
    Params(params): Params<QueryParams>,
    EventBody { cbor, headers }: EventBody,
) -> Result<Response, Problem> {
    if let Some(at_least) = &params.at_least {
        if params.at.is_some() {
            return Err(Problem::invalid("`at` asks the past, which waits for nothing: give `at` or `at_least`"));
        }
        let (wanted, wait) = (AtLeast::parse(at_least)?, WaitParams { timeout: params.timeout.clone() });
        let timeout = wait.timeout(&api)?;
        let reached = tokio::time::timeout(timeout, wanted.wait(&universe, world)).await;
        reached.unwrap_or_else(|_| {
            let detail = format!(
                "the world did not reach {at_least} within {timeout:?}: it is paused, on hold, behind, or idle"
            );
            Err(Problem::new(Code::RequestTimeout, detail))
        })?;
    }
    let _held = api.node.begin(&universe, tenant, Quota::Calls)?; // it runs the program as a call does
    api.node.admit_query(&universe)?;
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
    /// Its value; `{"$bytes": "…"}` where that is not canonical CBOR.
    value: serde_json::Value,
}

impl Cell {
    pub(super) fn new(key: String, bytes: &[u8]) -> Self {
        Self { key, value: json::bytes(bytes) }
    }
}

/// The cells of a world under a prefix, in key order.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/cells", tag = "state", params(CellsParams),
    responses((status = 200, body = super::ListPage<Cell>)),
)]
pub(super) async fn cells(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Params(params): Params<CellsParams>,
) -> Result<Json<super::ListPage<Cell>>, Problem> {
    let (items_max, at) = (limit(params.limit)?, At { world, height: params.at.map(Height::new) });
    let found = universe.ops().world_cells(at, &params.prefix, params.after.as_deref(), items_max).await?;
    let next = found.last().filter(|_| !found.is_empty()).map(|(key, _)| key.clone());
    // A scan may end early because of its bytes, so a page that is not empty is followed by another read.
    let items = found.into_iter().map(|(key, bytes)| Cell::new(key, &bytes)).collect();
    Ok(Json(super::ListPage { items, next }))
}

/// One cell of a world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/cells/{key}", tag = "state", params(AtParams),
    responses((status = 200, body = Cell)),
)]
pub(super) async fn cell(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Name(key): Name,
    Params(params): Params<AtParams>,
) -> Result<Json<Cell>, Problem> {
    let at = At { world, height: params.at.map(Height::new) };
    let found = universe.ops().world_cell(at, &key).await?;
    let missing = || Problem::new(Code::CellNotFound, format!("{world} has no cell `{key}`"));
    let bytes = found.ok_or_else(missing)?;
    Ok(Json(Cell::new(key, &bytes)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffParams {
    at: Option<u64>,
    /// The other world; the same one if nothing is said.
    with: Option<String>,
    with_at: Option<u64>,
    /// Only cells after this key: the last one of the page before. A page with fewer cells than `limit` is the last.
    after: Option<String>,
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

impl From<CellDifference> for Difference {
    fn from(found: CellDifference) -> Self {
        let side = |bytes: Option<Vec<u8>>| bytes.map(|bytes| json::bytes(&bytes));
        Self { key: found.key, left: side(found.left), right: side(found.right) }
    }
}

/// The first cells that differ between two worlds, or two heights of one, in key order; with `after`, those behind a key.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/diff", tag = "state", params(DiffParams),
    responses((status = 200, body = Vec<Difference>)),
)]
pub(super) async fn diff(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Params(params): Params<DiffParams>,
) -> Result<Json<Vec<Difference>>, Problem> {
    let other = wanted_world(&universe, params.with.as_deref()).await?.unwrap_or(world);
    let left = At { world, height: params.at.map(Height::new) };
    let right = At { world: other, height: params.with_at.map(Height::new) };
    let found = universe.ops().world_diff(left, right, params.after.as_deref(), limit(params.limit)?).await?;
    Ok(Json(found.into_iter().map(Difference::from).collect()))
}
