//! Log lines of worlds' programs: the stored lines, and a live tail by server-sent events.

use super::{
    Api, ListPage, Problem,
    extract::{Params, READ, WorldScope, text_header},
    journal::until_held_long_enough,
    limit,
    moment::Moment,
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
use futures_util::{StreamExt, stream};
use mundi_model::WorldId;
use mundi_store::values::{LogLevel, LoggedLine};
use serde::{Deserialize, Serialize};
use std::{convert::Infallible, sync::Arc};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LogParams {
    /// Only lines behind the one with this number: the `next` of a page, or the id of an event.
    after: Option<u64>,
    /// How many lines; without `after`, the last ones.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A line that a program logged.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Line {
    /// Lines are numbered over the whole history of a world.
    number: u64,
    /// The height of the record whose step logged it.
    height: u64,
    at_ns: u64,
    at: Moment,
    /// `debug`, `info`, `warn` or `error`.
    level: &'static str,
    text: String,
}

impl Line {
    fn new(number: u64, line: &LoggedLine) -> Self {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        Self {
            number,
            height: line.height.get(),
            at_ns: line.at_ns,
            at: Moment::of(line.at_ns),
            level,
            text: line.text.clone(),
        }
    }
}

/// The last lines that the program of a world logged, oldest first: up to 128 KiB are kept for each world. Asked for `text/event-stream`, it continues
/// with each line that is logged; `Last-Event-ID` takes it up where it broke off.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/logs", operation_id = "world_logs", tag = "logs", params(LogParams),
    responses((status = 200, description = "The lines", content(
        (ListPage<Line> = "application/json"),
        (String = "text/event-stream"),
    ))),
)]
pub(super) async fn logs(
    WorldScope { api, universe, world, tenant }: WorldScope<READ>,
    Params(params): Params<LogParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let items_max = limit(params.limit)?;
    if text_header(&headers, "accept").is_some_and(|accept| accept.contains("text/event-stream")) {
        let seen = text_header(&headers, "last-event-id").and_then(|id| id.parse().ok());
        let held = api.node.begin(&universe, tenant, Quota::Streams)?;
        universe.ops().describe_world(world).await?;
        return Ok(tail(&api, universe, world, seen.or(params.after), held));
    }
    let mut lines = lines_after(&universe, world, params.after).await?;
    let more = lines.len().saturating_sub(items_max);
    let next = match params.after {
        None => {
            lines.drain(..more);
            None
        }
        Some(_) => {
            lines.truncate(items_max);
            lines.last().map(|line| line.number).filter(|_| more > 0)
        }
    };
    Ok(ListPage::of(mundi_store::protocol::Page { items: lines, next }, |line| line).into_response())
}

async fn lines_after(universe: &Universe, world: WorldId, after: Option<u64>) -> Result<Vec<Line>, Problem> {
    let kept = universe.ops().world_logs(world).await?;
    let wanted = kept.lines().filter(|(number, _)| after.is_none_or(|after| *number > after));
    Ok(wanted.map(|(number, line)| Line::new(number, line)).collect())
}

/// Ends after the longest time that a request is held open, or when the node leaves; a client comes back with the id of the last event.
fn tail(api: &Api, universe: Arc<Universe>, world: WorldId, after: Option<u64>, held: Held) -> Response {
    let pages = stream::unfold(after, move |after| {
        let universe = universe.clone();
        async move {
            let lines = next_lines(&universe, world, after).await.ok()?;
            let next = lines.last().map(|line| line.number).or(after);
            Some((lines, next))
        }
    });
    let events = pages.flat_map(|lines| stream::iter(lines.into_iter().map(|line| Ok::<_, Infallible>(event(&line)))));
    Sse::new(events.take_until(until_held_long_enough(api, held))).keep_alive(KeepAlive::default()).into_response()
}

fn event(line: &Line) -> Event {
    let data = serde_json::to_string(line).unwrap_or_default(); // numbers and texts: nothing can fail
    Event::default().id(line.number.to_string()).event("log").data(data)
}

/// The lines behind one, as soon as there are any. They come with turns, so the head of the journal is watched.
async fn next_lines(universe: &Universe, world: WorldId, after: Option<u64>) -> Result<Vec<Line>, Problem> {
    loop {
        let seen = universe.ops().seen_head(world).await?;
        let lines = lines_after(universe, world, after).await?;
        if !lines.is_empty() {
            return Ok(lines);
        }
        universe.ops().head_changed(world, seen).await?;
    }
}
