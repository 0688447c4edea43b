//! The journal of a world: ranges, and a live tail by server-sent events.

use super::{
    Api, ListPage, Problem,
    extract::{Params, READ, WorldScope, text_header},
    json, limit,
};
use crate::{
    node::Universe,
    quotas::{Held, Quota},
};
use axum::{
    http::HeaderMap,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{StreamExt, future::BoxFuture, stream};
use mundi_engine::Engine;
use mundi_model::{Height, WorldId};
use mundi_store::journal::StoredRecord;
use serde::Deserialize;
use std::{convert::Infallible, sync::Arc};
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct JournalParams {
    /// The first height.
    #[serde(default)]
    from: u64,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Records from a height on, with every link of the chain checked. Asked for `text/event-stream`, it continues with each
/// record that is appended; `Last-Event-ID` takes it up where it broke off.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/journal", tag = "journal", params(JournalParams,
        ("Last-Event-ID" = Option<u64>, Header, description = "Of a stream: the height of the last record that was seen")),
    responses((status = 200, content(
        (ListPage<json::JournalRecord> = "application/json"),
        (String = "text/event-stream"),
    ))),
)]
pub(super) async fn journal<E: Engine>(
    WorldScope { api, universe, world, tenant }: WorldScope<E, READ>,
    Params(params): Params<JournalParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (from, items_max) = (Height::new(params.from), limit(params.limit)?);
    if text_header(&headers, "accept").is_some_and(|accept| accept.contains("text/event-stream")) {
        let seen = text_header(&headers, "last-event-id").and_then(|id| id.parse().ok()).map(Height::new);
        let from = seen.map_or(from, Height::next);
        let held = api.node.begin(&universe, tenant, Quota::Streams)?;
        universe.ops().describe_world(world).await?;
        return Ok(tail(&api, universe, world, from, held));
    }
    let page = universe.ops().world_journal(world, from, items_max).await?;
    Ok(ListPage::of(mundi_store::protocol::Page { items: page.items, next: page.next.map(Height::get) }, |record| {
        json::record(&record)
    })
    .into_response())
}

/// Ends after the longest time that a request is held open, or when the node leaves; a client comes back with the id of the last event.
fn tail<E: Engine>(api: &Api<E>, universe: Arc<Universe<E>>, world: WorldId, from: Height, held: Held) -> Response {
    let pages = stream::unfold(from, move |from| {
        let universe = universe.clone();
        async move {
            let page = next_records(&universe, world, from).await;
            let next = page.as_ref().ok().and_then(|records| records.last()).map(|record| record.height.next());
            page.ok().map(|records| (records, next.unwrap_or(from)))
        }
    });
    let events =
        pages.flat_map(|records| stream::iter(records.into_iter().map(|record| Ok::<_, Infallible>(event(&record)))));
    Sse::new(events.take_until(until_held_long_enough(api, held))).keep_alive(KeepAlive::default()).into_response()
}

/// When a stream ends: after the longest time that a request is held open, or when the node leaves.
pub(super) fn until_held_long_enough<E: Engine>(api: &Api<E>, held: Held) -> BoxFuture<'static, ()> {
    let (left, longest) = (api.node.left(), tokio::time::sleep(api.limits.wait_max));
    Box::pin(async move {
        let _held = held; // as long as the stream is there
        tokio::select! {
            () = left => {}
            () = longest => {}
        }
    })
}

fn event(record: &StoredRecord) -> Event {
    Event::default()
        .id(record.height.get().to_string())
        .event("record")
        .data(serde_json::to_string(&json::record(record)).unwrap_or_default())
}

/// The records from a height on, as soon as there are any.
async fn next_records<E: Engine>(
    universe: &Universe<E>,
    world: WorldId,
    from: Height,
) -> Result<Vec<StoredRecord>, Problem> {
    loop {
        let seen = universe.ops().seen_head(world).await?;
        // There are no records beyond the head yet; for a waiting reader that is not an error.
        let head = universe.ops().describe_world(world).await?.head.map(|head| head.height);
        if head.is_some_and(|head| head > from) {
            return Ok(universe.ops().world_journal(world, from, super::PAGE_ITEMS).await?.items);
        }
        universe.ops().head_changed(world, seen).await?;
    }
}
