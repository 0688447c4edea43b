//! Open effects: list, describe, retry, cancel, answer.

use super::{
    Problem,
    access::By,
    dead_letters::address,
    extract::{ADMIN, JsonBody, Name, Params, READ, UniverseScope, wanted_world},
    json, limit,
    moment::Moment,
    naming::{names_world, with_name, with_names},
};
use axum::Json;
use mundi_model::{Code, cbor, limits, record::ReceiptStatus};
use mundi_runtime::control::{EffectEnd, EffectOrder, FoundEffect, HandAnswer, JournaledEffect};
use mundi_store::{
    protocol::{AnsweredByHand, QueuedEffect},
    values::{EffectItem, EffectStage, EffectTerms, FailedAttempt, Queue},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Effect {
    /// Its id, which never changes: its intent (`i_…`).
    effect: String,
    /// `pending`, `waiting` (for its next attempt), `claimed`, `dead_letter` (given up), `answered`, `withdrawn` (by its world), or
    /// `open` (in no queue, and without a receipt).
    stage: String,
    /// The same as `effect`.
    intent: String,
    /// Its place in the queue, which changes with each attempt; null if it is in none.
    place: Option<String>,
    world: String,
    world_name: Option<String>,
    height: u64,
    kind: String,
    params: serde_json::Value,
    label: String,
    /// The manifest that it was asked for under; whoever carries it out checks that it allows the kind.
    policy_context: Option<String>,
    correlation_id: Option<String>,
    published_at_ns: u64,
    published_at: Option<Moment>,
    attempts: u32,
    attempts_max: Option<u32>,
    /// When it is tried next; 0 and null if it waits for nothing.
    not_before_ns: u64,
    not_before: Option<Moment>,
    /// The code of the newest failure.
    last_failure: Option<String>,
    /// The reason of the last failure.
    last_reason: Option<String>,
    /// The newest attempts that failed, the oldest first; at most ten.
    failed: Vec<Attempt>,
    claimed_by: Option<String>,
    claimed_until_ns: Option<u64>,
    claimed_until: Option<Moment>,
    /// Its id as a dead letter.
    dead_letter: Option<String>,
    receipt: Option<ReceiptOf>,
}

names_world!(Effect);

/// An attempt that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Attempt {
    /// The first one is 1.
    attempt: u32,
    at_ns: u64,
    at: Moment,
    worker: String,
    code: String,
    reason: String,
    /// When the next attempt was due; 0 and null if there was none.
    next_ns: u64,
    next: Option<Moment>,
}

impl From<FailedAttempt> for Attempt {
    fn from(failed: FailedAttempt) -> Self {
        let FailedAttempt { attempt, at_ns, worker, code, reason, next_ns } = failed;
        let (at, next) = (Moment::of(at_ns), Moment::unless_zero(next_ns));
        Self { attempt, at_ns, at, worker: worker.to_string(), code, reason, next_ns, next }
    }
}

/// How an effect ended, as its world's journal has it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReceiptOf {
    /// `ok`, `error` or `timeout`.
    status: String,
    height: u64,
    at_ns: u64,
    at: Moment,
    adapter: String,
    payload: serde_json::Value,
}

impl From<FoundEffect> for Effect {
    fn from(found: FoundEffect) -> Self {
        match found {
            FoundEffect::Queued(found) => (*found).into(),
            FoundEffect::DeadLetter { seq, letter, item } => Self {
                stage: "dead_letter".to_owned(),
                attempts: letter.attempts,
                last_failure: Some(letter.code),
                last_reason: Some(letter.reason),
                dead_letter: Some(address(Queue::Effects, seq)),
                ..Self::new(*item)
            },
            FoundEffect::Journaled(over) => over.into(),
        }
    }
}

impl From<Box<JournaledEffect>> for Effect {
    fn from(over: Box<JournaledEffect>) -> Self {
        let JournaledEffect { world, height, asked, ended, failed } = *over;
        let item = EffectItem {
            world,
            intent: asked.hash,
            height,
            kind: asked.kind,
            params: asked.params,
            label: asked.label,
            policy_context: None,
            published_at_ns: 0,
            trace: None,
            terms: EffectTerms::default(),
            correlation_id: None,
            call: None,
            lease: None,
        };
        let effect = Self {
            attempts_max: None,
            attempts: failed.last().map_or(0, |last| last.attempt),
            last_failure: failed.last().map(|last| last.code.clone()),
            last_reason: failed.last().map(|last| last.reason.clone()),
            failed: failed.into_iter().map(Attempt::from).collect(),
            ..Self::new(item)
        };
        match ended {
            EffectEnd::Open => Self { stage: "open".to_owned(), ..effect },
            EffectEnd::Withdrawn { .. } => Self { stage: "withdrawn".to_owned(), ..effect },
            EffectEnd::Receipt { receipt, height, now_ns: at_ns } => {
                let receipt = ReceiptOf {
                    status: json::status(receipt.status).to_owned(),
                    height: height.get(),
                    at_ns,
                    at: Moment::of(at_ns),
                    adapter: receipt.adapter,
                    payload: json::payload(&receipt.payload),
                };
                Self { stage: "answered".to_owned(), receipt: Some(receipt), ..effect }
            }
        }
    }
}

impl Effect {
    /// Reads its queue item.
    fn new(item: EffectItem) -> Self {
        Self {
            effect: item.intent.to_string(),
            stage: String::new(),
            intent: item.intent.to_string(),
            place: None,
            world: item.world.to_string(),
            world_name: None,
            height: item.height.get(),
            kind: item.kind,
            params: json::payload(&item.params),
            label: item.label,
            policy_context: item.policy_context.map(|context| context.to_string()),
            correlation_id: item.correlation_id,
            published_at_ns: item.published_at_ns,
            published_at: Moment::unless_zero(item.published_at_ns),
            attempts: 0,
            attempts_max: Some(item.terms.attempts_max),
            not_before_ns: 0,
            not_before: None,
            last_failure: None,
            last_reason: None,
            failed: Vec::new(),
            claimed_by: None,
            claimed_until_ns: None,
            claimed_until: None,
            dead_letter: None,
            receipt: None,
        }
    }
}

impl From<QueuedEffect> for Effect {
    fn from(found: QueuedEffect) -> Self {
        let QueuedEffect { place, item, attempts, claim, is_in_slot: _, is_withdrawn } = found;
        let stage = match place.stage {
            EffectStage::Pending | EffectStage::Waiting if is_withdrawn => "withdrawn",
            EffectStage::Pending => "pending",
            EffectStage::Waiting => "waiting",
            EffectStage::Claimed => "claimed",
        };
        let failed: Vec<FailedAttempt> = attempts.failed.unwrap_or_default();
        Self {
            stage: stage.to_owned(),
            place: Some(place.to_string()),
            attempts: attempts.attempts.max(claim.map_or(0, |claim| claim.attempt)),
            not_before_ns: attempts.not_before_ns,
            not_before: Moment::unless_zero(attempts.not_before_ns),
            last_reason: failed.last().map(|failed| failed.reason.clone()),
            last_failure: attempts.last_failure,
            failed: failed.into_iter().map(Attempt::from).collect(),
            claimed_by: claim.map(|claim| claim.worker.to_string()),
            claimed_until_ns: claim.map(|claim| claim.deadline_ns),
            claimed_until: claim.map(|claim| Moment::of(claim.deadline_ns)),
            ..Self::new(item)
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EffectsParams {
    world: Option<String>,
    kind: Option<String>,
    /// `pending`, `waiting` (for its next attempt) or `claimed`; all of them if it is not given.
    stage: Option<String>,
    /// `oldest`, `newest` or `attempts` (most first), among the first 10,000; in the order of the queue if it is not given.
    sort: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

pub(super) fn stage_called(name: &str) -> Result<EffectStage, Problem> {
    Ok(match name {
        "pending" => EffectStage::Pending,
        "waiting" => EffectStage::Waiting,
        "claimed" => EffectStage::Claimed,
        _ => return Err(Problem::invalid(format!("stage: `{name}` is none of pending, waiting, claimed"))),
    })
}

fn order_called(name: &str) -> Result<EffectOrder, Problem> {
    Ok(match name {
        "oldest" => EffectOrder::Oldest,
        "newest" => EffectOrder::Newest,
        "attempts" => EffectOrder::MostAttempts,
        _ => return Err(Problem::invalid(format!("sort: `{name}` is none of oldest, newest, attempts"))),
    })
}

/// A page of open effects.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EffectsPage {
    items: Vec<Effect>,
    /// Given as `after`, it asks for the next page; null at the end.
    next: Option<String>,
    /// Of a sorted list: more effects are open than it looks at, so others may come before these.
    partial: bool,
}

/// The effects that have no receipt yet.
#[utoipa::path(
    get, path = "/v1/u/{universe}/effects", tag = "effects", params(EffectsParams),
    responses((status = 200, body = EffectsPage)),
)]
pub(super) async fn list(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    Params(params): Params<EffectsParams>,
) -> Result<Json<EffectsPage>, Problem> {
    let world = wanted_world(&universe, params.world.as_deref()).await?;
    let stage = params.stage.as_deref().map(stage_called).transpose()?;
    let (kind, limit) = (params.kind.as_deref(), limit(params.limit)?);
    let (items, next, partial) = match params.sort.as_deref().map(order_called).transpose()? {
        None => {
            let after = params.after.as_deref().map(str::parse).transpose()?;
            let page = universe.ops().list_effects_at(stage, world, kind, after, limit).await?;
            (page.items, page.next.map(|next| next.to_string()), false)
        }
        Some(order) => {
            let after = params.after.as_deref().map(str::parse).transpose()?;
            let sorted = universe.ops().sort_effects(order, (stage, world, kind), after, limit).await?;
            (sorted.items, sorted.next.map(|next| next.to_string()), sorted.is_partial)
        }
    };
    let items = with_names(&universe, items.into_iter().map(Effect::from).collect()).await?;
    Ok(Json(EffectsPage { items, next, partial }))
}

/// One effect, in whichever state it is. With `world`, one that is over is found in the journal.
#[utoipa::path(
    get, path = "/v1/u/{universe}/effects/{effect}", tag = "effects", params(OfWorldParams),
    responses((status = 200, body = Effect)),
)]
pub(super) async fn describe(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    name: Name,
    Params(params): Params<OfWorldParams>,
) -> Result<Json<Effect>, Problem> {
    let world = wanted_world(&universe, params.world.as_deref()).await?;
    let found: Effect = universe.ops().find_effect(name.parse()?, world).await?.into();
    Ok(Json(with_name(&universe, found).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OfWorldParams {
    /// The world that asked for the effect.
    world: Option<String>,
}

/// Whether something changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Changed {
    changed: bool,
}

/// Tries an effect at once that waits for its next attempt, or that is a dead letter.
#[utoipa::path(
    post, path = "/v1/u/{universe}/effects/retry/{effect}", tag = "effects", params(OfWorldParams),
    responses((status = 200, body = Changed)),
)]
pub(super) async fn retry(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    name: Name,
    Params(params): Params<OfWorldParams>,
) -> Result<Json<Changed>, Problem> {
    let world = wanted_world(&universe, params.world.as_deref()).await?;
    Ok(Json(Changed { changed: universe.ops().retry_effect_named(name.parse()?, world).await? }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    /// Stands in the receipt.
    reason: Option<String>,
    /// The world that asked for the effect.
    world: Option<String>,
}

/// Ends an effect that is in progress or a dead letter: its world gets an `error` receipt.
#[utoipa::path(
    post, path = "/v1/u/{universe}/effects/cancel/{effect}", tag = "effects", request_body = Cancel,
    responses((status = 200, body = Changed)),
)]
pub(super) async fn cancel(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    By(operator): By,
    name: Name,
    JsonBody(cancel): JsonBody<Cancel>,
) -> Result<Json<Changed>, Problem> {
    let reason = cancel.reason.as_deref().unwrap_or("cancelled by an operator");
    if reason.len() > limits::REASON_BYTES_MAX {
        return Err(Problem::invalid("the reason is too long"));
    }
    let world = wanted_world(&universe, cancel.world.as_deref()).await?;
    Ok(Json(Changed { changed: universe.ops().cancel_effect_named(name.parse()?, world, reason, operator).await? }))
}

/// The receipt that an operator gives.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerForm {
    status: AnswerStatus,
    /// The payload that the program gets with the receipt: null if it is absent.
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
    /// The operator who is journaled.
    operator: String,
}

/// Answers an open intent by hand: its world gets this receipt, which names who gave it, and no other. The effect is named
/// by its place or by its intent.
#[utoipa::path(
    post, path = "/v1/u/{universe}/effects/answer/{effect}", tag = "effects", request_body = AnswerForm,
    responses((status = 200, body = Answered)),
)]
pub(super) async fn answer(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    By(operator): By,
    name: Name,
    JsonBody(form): JsonBody<AnswerForm>,
) -> Result<Json<Answered>, Problem> {
    let world = wanted_world(&universe, form.world.as_deref()).await?;
    let payload = cbor::encode(&json::given(form.payload)?);
    if payload.len() > limits::PAYLOAD_BYTES_MAX {
        return Err(Problem::new(Code::EffectAnswerTooLarge, format!("the payload has {} bytes", payload.len())));
    }
    let by = operator.name.clone();
    let answer = HandAnswer { status: form.status.into(), payload, operator };
    let answered = universe.ops().answer_effect(name.parse()?, world, answer).await?;
    Ok(Json(Answered { changed: answered == AnsweredByHand::Delivered, operator: by }))
}
