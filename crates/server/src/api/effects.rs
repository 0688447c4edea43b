//! Effects on their way: list, describe, retry, cancel, answer.

use super::{
    ListPage, Problem,
    access::By,
    extract::{ADMIN, Form, In, Name, Params, READ, world_of},
    json, limit,
};
use axum::Json;
use mundi_engine::Engine;
use mundi_model::{Code, Value, cbor, limits, record::ReceiptStatus};
use mundi_runtime::ops::HandAnswer;
use mundi_store::{
    keyspace::effect_place::{EffectPlace, EffectStage},
    protocol::{AnsweredByHand, QueuedEffect},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Effect {
    /// Its place in the queue, which changes with each attempt.
    effect: String,
    /// `pending`, `waiting` (for its next attempt) or `claimed`.
    stage: String,
    intent: String,
    world: String,
    height: u64,
    kind: String,
    params: serde_json::Value,
    label: String,
    /// The manifest that it was asked for under; whoever carries it out checks that it allows the kind.
    policy_context: Option<String>,
    correlation_id: Option<String>,
    published_at_ns: u64,
    attempts: u32,
    attempts_max: u32,
    not_before_ns: u64,
    last_failure: Option<String>,
    claimed_by: Option<String>,
    claimed_until_ns: Option<u64>,
}

impl From<QueuedEffect> for Effect {
    fn from(found: QueuedEffect) -> Self {
        let QueuedEffect { place, item, attempts, claim, is_in_hand: _ } = found;
        let stage = match place.stage {
            EffectStage::Pending => "pending",
            EffectStage::Waiting => "waiting",
            EffectStage::Claimed => "claimed",
        };
        Self {
            effect: place.to_string(),
            stage: stage.to_owned(),
            intent: item.intent.to_string(),
            world: item.world.to_string(),
            height: item.height.get(),
            kind: item.kind,
            params: json::payload(&item.params),
            label: item.label,
            policy_context: item.policy_context.map(|context| context.to_string()),
            correlation_id: item.correlation_id,
            published_at_ns: item.published_at_ns,
            attempts: attempts.attempts,
            attempts_max: item.terms.attempts_max,
            not_before_ns: attempts.not_before_ns,
            last_failure: attempts.last_failure,
            claimed_by: claim.map(|claim| claim.worker.to_string()),
            claimed_until_ns: claim.map(|claim| claim.deadline_ns),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EffectsParams {
    world: Option<String>,
    kind: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The effects that have no receipt yet.
#[utoipa::path(
    get, path = "/v1/u/{universe}/effects", tag = "effects", params(EffectsParams),
    responses((status = 200, body = ListPage<Effect>)),
)]
pub(super) async fn list<E: Engine>(
    In { universe, .. }: In<E, READ>,
    Params(params): Params<EffectsParams>,
) -> Result<Json<ListPage<Effect>>, Problem> {
    let world = params.world.as_deref().map(|name| world_of(&universe, name)).transpose()?;
    let after = params.after.as_deref().map(str::parse).transpose()?;
    let page = universe.ops().list_effects(world, params.kind.as_deref(), after, limit(params.limit)?).await?;
    Ok(ListPage::of(page, Effect::from))
}

/// One effect.
#[utoipa::path(
    get, path = "/v1/u/{universe}/effects/{effect}", tag = "effects", responses((status = 200, body = Effect)),
)]
pub(super) async fn describe<E: Engine>(In { universe, .. }: In<E, READ>, name: Name) -> Result<Json<Effect>, Problem> {
    Ok(Json(universe.ops().read_effect(name.parse::<EffectPlace>()?).await?.into()))
}

/// Whether something changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Changed {
    changed: bool,
}

/// Tries an effect that waits for its next attempt at once.
#[utoipa::path(
    post, path = "/v1/u/{universe}/effects/retry/{effect}", tag = "effects", responses((status = 200, body = Changed)),
)]
pub(super) async fn retry<E: Engine>(In { universe, .. }: In<E, ADMIN>, name: Name) -> Result<Json<Changed>, Problem> {
    Ok(Json(Changed { changed: universe.ops().retry_effect(name.parse()?).await? }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    /// Stands in the receipt.
    reason: Option<String>,
}

/// Ends an effect: its world gets an `error` receipt.
#[utoipa::path(
    post, path = "/v1/u/{universe}/effects/cancel/{effect}", tag = "effects", request_body = Cancel,
    responses((status = 200, body = Changed)),
)]
pub(super) async fn cancel<E: Engine>(
    In { universe, .. }: In<E, ADMIN>,
    By(operator): By,
    name: Name,
    Form(cancel): Form<Cancel>,
) -> Result<Json<Changed>, Problem> {
    let reason = cancel.reason.as_deref().unwrap_or("cancelled by an operator");
    if reason.len() > limits::REASON_BYTES_MAX {
        return Err(Problem::invalid("the reason is too long"));
    }
    Ok(Json(Changed { changed: universe.ops().cancel_effect(name.parse()?, reason, operator).await? }))
}

/// The receipt that an operator gives.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerForm {
    status: AnswerStatus,
    /// What the program gets with the receipt: null if nothing is said.
    #[serde(default)]
    payload: serde_json::Value,
    /// The world of the intent. With it an intent is found that is in no queue, such as one whose effect is a dead letter.
    world: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum AnswerStatus {
    Ok,
    Error,
    Timeout,
}

impl From<AnswerStatus> for ReceiptStatus {
    fn from(status: AnswerStatus) -> Self {
        match status {
            AnswerStatus::Ok => Self::Ok,
            AnswerStatus::Error => Self::Error,
            AnswerStatus::Timeout => Self::Timeout,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Answered {
    /// False if the same operator had given the same answer before, or if the world is gone.
    changed: bool,
    /// Who is on record.
    operator: String,
}

/// Answers an open intent by hand: its world gets this receipt, which names who gave it, and no other. The effect is named
/// by its place or by its intent.
#[utoipa::path(
    post, path = "/v1/u/{universe}/effects/answer/{effect}", tag = "effects", request_body = AnswerForm,
    responses((status = 200, body = Answered)),
)]
pub(super) async fn answer<E: Engine>(
    In { universe, .. }: In<E, ADMIN>,
    By(operator): By,
    name: Name,
    Form(form): Form<AnswerForm>,
) -> Result<Json<Answered>, Problem> {
    let world = form.world.as_deref().map(|name| world_of(&universe, name)).transpose()?;
    let payload = cbor::encode(&Value::from(form.payload));
    if payload.len() > limits::PAYLOAD_BYTES_MAX {
        return Err(Problem::new(Code::EffectAnswerTooLarge, format!("the payload has {} bytes", payload.len())));
    }
    let by = operator.name.clone();
    let answer = HandAnswer { status: form.status.into(), payload, operator };
    let answered = universe.ops().answer_effect(name.parse()?, world, answer).await?;
    Ok(Json(Answered { changed: answered == AnsweredByHand::Delivered, operator: by }))
}
