//! A step of the past: what the record at a height changed, and what was open after it.

use super::{
    Problem,
    extract::{Name, Params, READ, WorldScope},
    json, limit,
    moment::Moment,
    naming::{names_world, with_name},
    state::{Cell, Difference},
};
use axum::Json;
use mundi_kernel::intents::OpenIntent;
use mundi_model::Height;
use mundi_runtime::control::StepQuestion;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct StepParams {
    /// How many changes, open intents and timers are listed at most, of each; `…_total` counts all of the latter two.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How many cells after the step are listed: none if nothing is said.
    #[param(maximum = 1000)]
    cells: Option<usize>,
    /// Only cells whose key begins so.
    #[serde(default)]
    prefix: String,
}

/// A record of the past, and the world after it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Step {
    world: String,
    world_name: Option<String>,
    record: json::JournalRecord,
    /// The cells that it changed, in key order: as they were (`left`) and as they became (`right`). What a step does to cells is
    /// done with the record that caused it; records that follow from it change none.
    changes: Vec<Difference>,
    /// There are more changes than the limit.
    more_changes: bool,
    /// The cells after it, in key order, if they were asked for.
    cells: Vec<Cell>,
    /// Effects that were asked for and had no receipt yet.
    open_intents: Vec<Open>,
    open_intents_total: usize,
    /// Timers that had not fired yet.
    timers: Vec<Open>,
    timers_total: usize,
    /// The hash of the manifest that held.
    manifest: String,
    logical_now_ns: u64,
    logical_now: Moment,
    paused: bool,
}

names_world!(Step);

/// An intent that waited for its receipt, or a timer that had not fired.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Open {
    intent: String,
    /// The height of the record that asked for it.
    height: u64,
    kind: String,
    label: String,
    /// Of a timer: when it is due, and what comes back then.
    params: serde_json::Value,
}

impl From<&OpenIntent> for Open {
    fn from(open: &OpenIntent) -> Self {
        Self {
            intent: open.hash.to_string(),
            height: open.place.height.get(),
            kind: open.kind.clone(),
            label: open.label.clone(),
            params: json::params(&open.kind, &open.params),
        }
    }
}

/// The changes of the record at a height, and the effects and timers open after it. The world is replayed from its nearest snapshot; it runs on meanwhile.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/steps/{height}", tag = "state", params(StepParams),
    responses((status = 200, body = Step)),
)]
pub(super) async fn step(
    WorldScope { universe, world, .. }: WorldScope<READ>,
    Name(height): Name,
    Params(params): Params<StepParams>,
) -> Result<Json<Step>, Problem> {
    let invalid = || Problem::invalid(format!("`{height}` is no height: expected a number"));
    let (height, items_max) = (height.parse().map_err(|_| invalid())?, limit(params.limit)?);
    let cells_max = params.cells.filter(|wanted| *wanted > 0).map_or(Ok(0), |wanted| limit(Some(wanted)))?;
    let question = StepQuestion { changes_max: items_max + 1, prefix: &params.prefix, cells_max };
    let mut found = universe.ops().world_step(world, Height::new(height), question).await?;
    let more_changes = found.changes.len() > items_max;
    found.changes.truncate(items_max);
    let listed = |open: &[OpenIntent]| open.iter().take(items_max).map(Open::from).collect();
    let step = Step {
        world: world.to_string(),
        world_name: None,
        record: json::record(&found.record),
        open_intents: listed(&found.open_intents),
        open_intents_total: found.open_intents.len(),
        timers: listed(&found.timers),
        timers_total: found.timers.len(),
        changes: found.changes.into_iter().map(Difference::from).collect(),
        more_changes,
        cells: found.cells.into_iter().map(|(key, bytes)| Cell::new(key, &bytes)).collect(),
        manifest: found.manifest.to_string(),
        logical_now_ns: found.logical_now_ns,
        logical_now: Moment::of(found.logical_now_ns),
        paused: found.is_paused,
    };
    Ok(Json(with_name(&universe, step).await?))
}
