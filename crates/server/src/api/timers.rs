//! Pending timers.

use super::{
    ListPage, Problem,
    extract::{Params, READ, UniverseScope, wanted_world},
    json, limit,
    moment::Moment,
    naming::{names_world, with_names},
};
use axum::Json;
use mundi_store::{
    protocol::{Page, QueuedTimer},
    values::TimerPlace,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Timer {
    timer: String,
    world: String,
    world_name: Option<String>,
    height: u64,
    deliver_at_ns: u64,
    deliver_at: Moment,
    payload: serde_json::Value,
}

names_world!(Timer);

impl From<QueuedTimer> for Timer {
    fn from(found: QueuedTimer) -> Self {
        Self {
            timer: found.item.intent.to_string(),
            world: found.item.world.to_string(),
            world_name: None,
            height: found.item.height.get(),
            deliver_at_ns: found.item.deliver_at_ns,
            deliver_at: Moment::of(found.item.deliver_at_ns),
            payload: json::payload(&found.item.payload),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TimersParams {
    world: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The timers of a universe, or of one world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/timers", tag = "timers", params(TimersParams),
    responses((status = 200, body = ListPage<Timer>)),
)]
pub(super) async fn list(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    Params(params): Params<TimersParams>,
) -> Result<Json<ListPage<Timer>>, Problem> {
    let world = wanted_world(&universe, params.world.as_deref()).await?;
    let after = params.after.as_deref().map(place).transpose()?;
    let Page { items, next } = universe.ops().list_timers(world, after, limit(params.limit)?).await?;
    let next = next.map(|place| format!("{}.{}", place.place_ns, place.intent));
    let items = with_names(&universe, items.into_iter().map(Timer::from).collect()).await?;
    Ok(Json(ListPage { items, next }))
}

pub(super) fn place(text: &str) -> Result<TimerPlace, Problem> {
    let parsed = text.split_once('.').and_then(|(place_ns, intent)| {
        Some(TimerPlace { place_ns: place_ns.parse().ok()?, intent: intent.parse().ok()? })
    });
    parsed.ok_or_else(|| Problem::invalid(format!("after: `{text}` is not the `next` of a page")))
}
