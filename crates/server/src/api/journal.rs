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
pub(super) async fn journal(
    WorldScope { api, universe, world, tenant }: WorldScope<READ>,
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
    let items = with_names(&universe, &page.items).await?;
    let page = mundi_store::protocol::Page { items, next: page.next.map(Height::get) };
    Ok(ListPage::of(page, std::convert::identity).into_response())
}

/// Records as they are shown, with the names of the worlds that they come from.
async fn with_names(universe: &Universe, records: &[StoredRecord]) -> Result<Vec<json::JournalRecord>, Problem> {
    let mut shown: Vec<_> = records.iter().map(json::record).collect();
    let names =
        universe.ops().names_of_worlds(shown.iter().filter_map(json::JournalRecord::other_world).collect()).await?;
    for record in &mut shown {
        if let Some(name) = record.other_world().and_then(|world| names.get(&world)) {
            record.set_other_name(name);
        }
    }
    Ok(shown)
}

/// Ends after the longest time that a request is held open, or when the node leaves; a client comes back with the id of the last event.
fn tail(api: &Api, universe: Arc<Universe>, world: WorldId, from: Height, held: Held) -> Response {
    let pages = stream::unfold(from, move |from| {
        let universe = universe.clone();
        async move {
            let page = next_records(&universe, world, from).await.ok()?;
            let next = page.last().map(|record| record.height.next());
            let shown = with_names(&universe, &page).await.ok()?;
            let events: Vec<Event> =
                page.iter().zip(shown).map(|(record, shown)| event(record.height, &shown)).collect();
            Some((events, next.unwrap_or(from)))
        }
    });
    let events = pages.flat_map(|events| stream::iter(events.into_iter().map(Ok::<_, Infallible>)));
    Sse::new(events.take_until(until_held_long_enough(api, held))).keep_alive(KeepAlive::default()).into_response()
}

/// When a stream ends: after the longest time that a request is held open, or when the node leaves.
pub(super) fn until_held_long_enough(api: &Api, held: Held) -> BoxFuture<'static, ()> {
    let (left, longest) = (api.node.left(), tokio::time::sleep(api.limits.wait_max));
    Box::pin(async move {
        let _held = held; // as long as the stream is there
        tokio::select! {
            () = left => {}
            () = longest => {}
        }
    })
}

fn event(height: Height, record: &json::JournalRecord) -> Event {
    let data = serde_json::to_string(record).unwrap_or_default();
    Event::default().id(height.get().to_string()).event("record").data(data)
}

/// The records from a height on, as soon as there are any.
async fn next_records(universe: &Universe, world: WorldId, from: Height) -> Result<Vec<StoredRecord>, Problem> {
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
