//! Labels of worlds.

use super::{
    Problem,
    access::By,
    extract::{ADMIN, JsonBody, WorldScope},
};
use axum::Json;
use mundi_model::{Coded, LabelChange, Labels};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A change of labels.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewLabels {
    /// These are added, or get these values.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// The keys of those that go.
    #[serde(default)]
    remove: Vec<String>,
}

/// The labels of a world.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LabelsOf {
    labels: BTreeMap<String, String>,
}

/// The labels that a new world was given.
pub(super) fn given(labels: Option<BTreeMap<String, String>>) -> Result<Option<LabelChange>, Problem> {
    match labels.filter(|labels| !labels.is_empty()) {
        Some(labels) => Ok(Some(LabelChange { set: checked(labels)?, ..LabelChange::default() })),
        None => Ok(None),
    }
}

fn checked(labels: BTreeMap<String, String>) -> Result<Labels, Problem> {
    Labels::new(labels).map_err(|error| Problem::new(error.code(), error.to_string()))
}

/// Sets and removes labels; says what they are now. Lists find the world by them at once; who changed them is journaled with its next turn.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/labels", operation_id = "world_label", tag = "worlds", request_body = NewLabels,
    responses((status = 200, body = LabelsOf)),
)]
pub(super) async fn label(
    WorldScope { universe, world, .. }: WorldScope<ADMIN>,
    By(operator): By,
    JsonBody(new): JsonBody<NewLabels>,
) -> Result<Json<LabelsOf>, Problem> {
    if new.remove.len() > mundi_model::limits::WORLD_LABELS_MAX {
        return Err(Problem::invalid("more labels would be removed than a world can have"));
    }
    let change = LabelChange { set: checked(new.set)?, remove: new.remove, operator: Some(operator) };
    let labels = universe.ops().label_world(world, change).await?;
    Ok(Json(LabelsOf { labels: labels.to_map() }))
}
