//! The events of a child: as a list, as NDJSON, and live.

use super::ChildScope;
use crate::{
    api::{
        Api, Problem,
        extract::{Params, READ, text_header},
        journal::until_held_long_enough,
    },
    node::Universe,
    quotas::{Held, Quota},
};
use axum::{
    Json,
    http::{HeaderMap, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{StreamExt, stream};
use mundi_model::{
    WorldId,
    child::{CHILD_SPAWN, ChildEvent, ChildId},
    json::to_canonical,
};
use serde::Deserialize;
use std::{convert::Infallible, sync::Arc, time::Duration};
use utoipa::IntoParams;

/// A start changes no counter that could be watched: a live stream looks again after this long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct EventParams {
    /// Events from this `seq` on.
    from: Option<u64>,
}

/// The events of a child (`urm-events@1`). Asked for `application/x-ndjson`, each is a line of canonical JSON; asked for `text/event-stream`,
/// it continues until the child has ended.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/children/{child}/events", operation_id = "children_events",
    tag = "children", params(EventParams),
    responses((status = 200, description = "The events", content(
        (Vec<Object> = "application/json"),
        (String = "application/x-ndjson"),
        (String = "text/event-stream"),
    ))),
)]
pub(in crate::api) async fn events(
    ChildScope { api, universe, world, tenant, child }: ChildScope<READ>,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let accept = text_header(&headers, "accept").unwrap_or_default();
    let seen = text_header(&headers, "last-event-id").and_then(|id| id.parse::<u64>().ok());
    let from = seen.map(|seen| seen.saturating_add(1)).or(params.from).unwrap_or(0);
    let (found, _) = universe.ops().child_events(world, child, from).await?;
    if accept.contains("text/event-stream") {
        let held = api.node.begin(&universe, tenant, Quota::Streams)?;
        return Ok(tail(&api, universe, (world, child), from, held));
    }
    let evidence = found.iter().map(|event| event.evidence(universe.id(), world, child));
    if accept.contains("application/x-ndjson") {
        let lines: String = evidence.map(|event| to_canonical(&event) + "\n").collect();
        return Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response());
    }
    Ok(Json(evidence.collect::<Vec<_>>()).into_response())
}

/// Ends with the child, after the longest time that a request is held open, or when the node leaves.
fn tail(api: &Api, universe: Arc<Universe>, (world, child): (WorldId, ChildId), from: u64, held: Held) -> Response {
    let id = universe.id();
    let pages = stream::unfold(Some(from), move |from| {
        let universe = universe.clone();
        async move {
            let (events, is_over) = next_events(&universe, (world, child), from?).await.ok()?;
            let next = events.last().map_or(from, |event| Some(event.seq + 1)).filter(|_| !is_over);
            Some((events, next))
        }
    });
    let event = move |event: ChildEvent| {
        let data = to_canonical(&event.evidence(id, world, child));
        Ok::<_, Infallible>(Event::default().id(event.seq.to_string()).event(event.kind.as_str()).data(data))
    };
    let events = pages.flat_map(move |events| stream::iter(events.into_iter().map(event)));
    Sse::new(events.take_until(until_held_long_enough(api, held))).keep_alive(KeepAlive::default()).into_response()
}

/// Waits for events from a place on. Says whether the child has ended.
async fn next_events(
    universe: &Universe,
    (world, child): (WorldId, ChildId),
    from: u64,
) -> Result<(Vec<ChildEvent>, bool), Problem> {
    let kinds = [CHILD_SPAWN.to_owned()];
    loop {
        let seen = universe.ops().seen_queues(&kinds).await?;
        let (events, is_over) = universe.ops().child_events(world, child, from).await?;
        if !events.is_empty() || is_over {
            return Ok((events, is_over));
        }
        let mut watches: stream::FuturesUnordered<_> =
            seen.into_iter().map(|(kind, seen)| universe.ops().queue_changed(kind, seen)).collect();
        tokio::select! {
            _ = watches.next() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
