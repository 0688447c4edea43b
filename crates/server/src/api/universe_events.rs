//! A live stream of the changes in a universe: readers look again when something changed, and not before.

use super::{
    Api, Problem,
    extract::{READ, UniverseScope},
    journal::until_held_long_enough,
};
use crate::{
    node::Universe,
    quotas::{Held, Quota},
};
use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures_util::stream;
use mundi_runtime::control::{ChangesSince, SeenUniverse, UniverseChange};
use serde::Serialize;
use std::{convert::Infallible, sync::Arc, time::Duration};
use utoipa::ToSchema;

/// The shortest time between two events of a stream: what changes in between is in the next one.
const EVENT_EVERY: Duration = Duration::from_secs(1);

/// An event: what to look at again.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Changes {
    /// Of `worlds` (created, deleted, named, labelled, or in another state), `dead_letters` (came or went), `workers` (came, drained or went) and `timers` (set).
    changed: Vec<&'static str>,
    /// The worlds that changed; at most 64, and of those that changed too fast to be told apart some are missing: then `more_worlds` says so.
    worlds: Vec<ChangedWorld>,
    /// More worlds may have changed than `worlds` names: look at all of them again.
    more_worlds: bool,
}

/// A world that changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangedWorld {
    world: String,
    /// `null` if it has none.
    name: Option<String>,
}

/// The changes in a universe and the worlds that changed, as server-sent events, at most one per second. The first event names everything, so that a reader
/// looks once when it connects, and again when it reconnects: events are not kept. A stream ends after a while.
#[utoipa::path(
    get, path = "/v1/u/{universe}/events", operation_id = "universe_events", tag = "universes",
    responses((status = 200, description = "Each event is named `changed`, with this as its data", body = Changes, content_type = "text/event-stream")),
)]
pub(super) async fn events(UniverseScope { api, universe, tenant }: UniverseScope<READ>) -> Result<Response, Problem> {
    let held = api.node.begin(&universe, tenant, Quota::Streams)?;
    let seen = universe.ops().seen_universe().await?;
    Ok(tail(&api, universe, seen, held))
}

/// Ends after the longest time that a request is held open, or when the node leaves.
fn tail(api: &Api, universe: Arc<Universe>, seen: SeenUniverse, held: Held) -> Response {
    let events = stream::unfold((true, seen), move |(is_first, seen)| {
        let universe = universe.clone();
        async move {
            let (changes, seen) = match is_first {
                true => (ChangesSince::everything(), seen),
                false => next_changes(&universe, seen).await.ok()?,
            };
            let data = serde_json::to_string(&told(&universe, changes).await.ok()?).unwrap_or_default();
            Some((Ok::<_, Infallible>(Event::default().event("changed").data(data)), (false, seen)))
        }
    });
    let events = futures_util::StreamExt::take_until(events, until_held_long_enough(api, held));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// The event for some changes, with the names of the worlds.
async fn told(universe: &Universe, changes: ChangesSince) -> Result<Changes, Problem> {
    let ChangesSince { changed, worlds, more_worlds } = changes;
    let mut names = universe.ops().names_of_worlds(worlds.clone()).await?;
    let worlds = worlds.into_iter().map(|world| ChangedWorld { world: world.to_string(), name: names.remove(&world) });
    let changed = changed.into_iter().map(UniverseChange::as_str).collect();
    Ok(Changes { changed, worlds: worlds.collect(), more_worlds })
}

/// Waits until something changed since the last event.
async fn next_changes(universe: &Universe, before: SeenUniverse) -> Result<(ChangesSince, SeenUniverse), Problem> {
    tokio::time::sleep(EVENT_EVERY).await;
    loop {
        let seen = universe.ops().seen_universe().await?;
        let changes = seen.since(&before);
        if !changes.changed.is_empty() {
            return Ok((changes, seen));
        }
        universe.ops().universe_changed(&before).await?;
    }
}
