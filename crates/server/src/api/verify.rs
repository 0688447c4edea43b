//! Verification of worlds, and rehearsals of upgrades over their history.

use super::{
    Api, Problem,
    extract::{JsonBody, READ, WorldScope},
    fair_slots::{Bounds, Crowded, FairSlot, FairSlots},
    json,
    worlds::manifest_of,
};
use crate::{node::Universe, proof::ProofReport};
use axum::Json;
use mundi_kernel::rehearse::{Compare, Divergence, Followed};
use mundi_model::{Code, Height, WorldId, limits};
use mundi_runtime::control::{DivergingFunction, RehearseRequest, Rehearsed};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, LazyLock};
use tokio::time::Instant;
use utoipa::ToSchema;

/// Replays of whole histories, in this process.
static SLOTS: LazyLock<Arc<FairSlots>> = LazyLock::new(|| {
    FairSlots::new(Bounds {
        at_once: limits::REPLAYS_AT_ONCE_MAX,
        of_universe: limits::REPLAYS_OF_UNIVERSE_MAX,
        waiting_of_universe: limits::REPLAYS_WAITING_OF_UNIVERSE_MAX,
    })
});

async fn slot(api: &Api, universe: &Universe) -> Result<FairSlot, Problem> {
    let crowded = |error: Crowded| Problem::new(Code::RequestTimeout, format!("verifications and rehearsals: {error}"));
    SLOTS.enter(universe.id(), Instant::now() + api.limits.wait_max).await.map_err(crowded)
}

/// Replays a world from genesis and from its baseline, and proves chain, digests, receipts, snapshots and roots.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/verify", tag = "worlds",
    responses((status = 200, body = ProofReport)),
)]
pub(super) async fn verify(
    WorldScope { api, universe, world, .. }: WorldScope<READ>,
) -> Result<Json<ProofReport>, Problem> {
    let _slot = slot(&api, &universe).await?;
    Ok(Json(ProofReport::of_world(world, &universe.ops().verify_world(world).await?)))
}

/// A rehearsal over the recorded history.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRehearsal {
    /// The name of the program that would have run, for its newest version, or `name@version`.
    program: Option<String>,
    /// Or the hash of its manifest.
    manifest: Option<String>,
    /// From the newest snapshot at or below this height on; from where its journal begins if nothing is said.
    from: Option<u64>,
    /// Up to this height; to the head if nothing is said.
    to: Option<u64>,
    /// Whether only intents, cancels, replies and failures are compared, and not cells.
    #[serde(default)]
    outputs_only: bool,
    /// Only what an upgrade compares before it is sent: running instances of durable functions at the head, and outputs since the oldest other
    /// effect or timer that is still open.
    #[serde(default)]
    open_work: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RehearsalOf {
    world: String,
    world_name: Option<String>,
    from: u64,
    to: u64,
    /// Records that were compared.
    records: u64,
    /// Where something else follows for the first time; null if nowhere.
    divergence: Option<DivergenceAt>,
    /// Running instances of durable functions that could not go on under this manifest: an upgrade at the head would be refused.
    functions: Vec<FunctionDivergence>,
}

/// A running instance of a durable function that would go another way than is on record.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FunctionDivergence {
    /// `FUNCTION/KEY`.
    instance: String,
    /// The number of the await; 0 if it is about none.
    r#await: u64,
    /// The await on record, and the one that the code asks for.
    detail: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DivergenceAt {
    height: u64,
    record: serde_json::Value,
    recorded: serde_json::Value,
    candidate: serde_json::Value,
}

/// Runs the recorded history under another manifest, and names the first record from which something else follows. Steps of durable functions
/// run again, too: where their code has another version, the history differs although every instance could go on. `functions` names the running
/// instances that could not.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/rehearse", tag = "worlds", request_body = NewRehearsal,
    responses((status = 200, body = RehearsalOf)),
)]
pub(super) async fn rehearse(
    WorldScope { api, universe, world, .. }: WorldScope<READ>,
    JsonBody(new): JsonBody<NewRehearsal>,
) -> Result<Json<RehearsalOf>, Problem> {
    let candidate = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref()).await?;
    if new.open_work && (new.from.is_some() || new.to.is_some()) {
        return Err(Problem::invalid("`open_work` says itself from where on: give neither `from` nor `to`"));
    }
    let _slot = slot(&api, &universe).await?;
    let compare = if new.outputs_only { Compare::Outputs } else { Compare::Everything };
    let (from, to) = (new.from.map(Height::new), new.to.map(Height::new));
    let done = match new.open_work {
        true => universe.ops().rehearse_upgrade(world, candidate).await?,
        false => universe.ops().rehearse_world(RehearseRequest { world, candidate, from, to, compare }).await?,
    };
    let name = universe.ops().names_of_worlds([world].into()).await?.remove(&world);
    Ok(Json(RehearsalOf::new(world, name, done)))
}

impl RehearsalOf {
    pub(crate) fn new(world: WorldId, world_name: Option<String>, done: Rehearsed) -> Self {
        Self {
            world: world.to_string(),
            world_name,
            from: done.from.get(),
            to: done.to.get(),
            records: done.records,
            divergence: done.divergence.as_ref().map(divergence),
            functions: done.functions.into_iter().map(function).collect(),
        }
    }
}

fn function(found: DivergingFunction) -> FunctionDivergence {
    FunctionDivergence { instance: found.instance, r#await: found.number, detail: found.why }
}

fn divergence(found: &Divergence) -> DivergenceAt {
    DivergenceAt {
        height: found.height.get(),
        record: json::item(&found.record.item),
        recorded: followed(&found.recorded),
        candidate: match &found.candidate {
            Ok(other) => followed(other),
            Err(why) => json!({ "refused": why }),
        },
    }
}

fn followed(followed: &Followed) -> serde_json::Value {
    let cells = followed.cells.iter().map(|(key, value)| {
        let value = value.as_ref().map_or(serde_json::Value::Null, |bytes| json::bytes(bytes));
        (key.clone(), value)
    });
    let cells: serde_json::Map<_, _> = cells.collect();
    let outputs: Vec<_> = followed.outputs.iter().map(json::body).collect();
    json!({ "outputs": outputs, "cells": cells })
}
