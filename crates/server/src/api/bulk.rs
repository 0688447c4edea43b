//! Commands to all worlds that filters name, a page at a time.

use super::{
    ListPage, PageParams, Problem,
    access::By,
    extract::{ADMIN, JsonBody, Params, READ, UniverseScope},
    world_filters::WorldFilters,
};
use crate::node::Universe;
use axum::Json;
use mundi_model::{WorldId, limits, record::Operator};
use mundi_runtime::RuntimeError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Pages that one count reads: bounded work for a request, and few requests for many worlds.
const COUNTED_PAGES_MAX: usize = 20;

/// The verb that is applied to each world.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BulkVerb {
    Pause,
    Resume,
    Archive,
    Unarchive,
    Delete,
}

/// Which worlds, and what is done to them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkCommand {
    verb: BulkVerb,
    /// At least one has to be given.
    filters: WorldFilters,
    /// Only says which worlds it would be.
    #[serde(default)]
    dry_run: bool,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    /// How many worlds at most, up to 100.
    limit: Option<usize>,
}

/// The result for one world.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BulkWorld {
    world: String,
    name: Option<String>,
    /// `done`, `refused`, or `would` for a dry run.
    result: &'static str,
    /// Of a refusal.
    code: Option<String>,
    detail: Option<String>,
}

/// Pauses, resumes, archives, unarchives or deletes the worlds that filters name, one page of them. Each command may be given again: whoever lost the
/// answer, or was interrupted, goes on with the last `after`.
#[utoipa::path(
    post, path = "/v1/u/{universe}/bulk", operation_id = "world_bulk", tag = "worlds", request_body = BulkCommand,
    responses((status = 200, body = ListPage<BulkWorld>)),
)]
pub(super) async fn bulk(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    By(operator): By,
    JsonBody(command): JsonBody<BulkCommand>,
) -> Result<Json<ListPage<BulkWorld>>, Problem> {
    if command.filters.is_empty() {
        return Err(Problem::invalid("which worlds? give at least one filter"));
    }
    let limit = command.limit.unwrap_or(limits::BULK_WORLDS_MAX);
    if !(1..=limits::BULK_WORLDS_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("a limit of {limit}: expected 1 to {}", limits::BULK_WORLDS_MAX)));
    }
    let query = command.filters.query(&universe).await?;
    let after = command.after.as_deref().map(str::parse).transpose()?;
    let page = universe.ops().find_worlds(query, after, limit).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for found in page.items {
        let done = match command.dry_run {
            true => Ok("would"),
            false => apply(&universe, found.world, command.verb, &operator).await.map(|()| "done"),
        };
        let (result, refused) = match done {
            Ok(result) => (result, None),
            Err(error) => ("refused", Some(Problem::from(error))),
        };
        items.push(BulkWorld {
            world: found.world.to_string(),
            name: found.meta.name,
            result,
            code: refused.as_ref().map(|problem| problem.code.to_string()),
            detail: refused.map(|problem| problem.detail),
        });
    }
    Ok(Json(ListPage { items, next: page.next.map(|next| next.to_string()) }))
}

async fn apply(universe: &Universe, world: WorldId, verb: BulkVerb, operator: &Operator) -> Result<(), RuntimeError> {
    let ops = universe.ops();
    match verb {
        BulkVerb::Pause => ops.world_pause_by(world, operator).await.map(drop),
        BulkVerb::Resume => ops.world_resume(world).await.map(drop),
        BulkVerb::Archive => ops.world_archive(world).await,
        BulkVerb::Unarchive => ops.world_unarchive(world).await,
        BulkVerb::Delete => ops.world_delete(world).await,
    }
}

/// How many worlds there are.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct WorldCount {
    count: u64,
    /// The same by state.
    states: BTreeMap<&'static str, u64>,
    /// There may be more: given as `after`, it asks for how many follow. Null at the end.
    next: Option<String>,
}

/// Counts the worlds that filters name, at most 20,000 looks at a time.
#[utoipa::path(
    get, path = "/v1/u/{universe}/world-count", operation_id = "world_count", tag = "worlds", params(WorldFilters, PageParams),
    responses((status = 200, body = WorldCount)),
)]
pub(super) async fn count(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    Params(params): Params<Vec<(String, String)>>,
) -> Result<Json<WorldCount>, Problem> {
    let (filters, page) = WorldFilters::of_query(params)?;
    let query = filters.query(&universe).await?;
    let mut after = page.after.as_deref().map(str::parse).transpose()?;
    let mut counted = WorldCount::default();
    for _ in 0..COUNTED_PAGES_MAX {
        let page = universe.ops().find_worlds(query.clone(), after, limits::LIST_ITEMS_MAX).await?;
        counted.count += page.items.len() as u64;
        for found in &page.items {
            *counted.states.entry(found.meta.listed_state().as_str()).or_default() += 1;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    counted.next = after.map(|after| after.to_string());
    Ok(Json(counted))
}
