//! Why a world is not moving.

use super::{
    Problem,
    extract::{READ, WorldScope},
    moment::Moment,
};
use axum::Json;
use mundi_runtime::control::Cause;
use serde::Serialize;
use utoipa::ToSchema;

/// Why a world is not moving.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WhyWorld {
    world: String,
    name: Option<String>,
    state: String,
    /// The next height.
    head: Option<u64>,
    /// The one to deal with first stands first.
    causes: Vec<WhyCause>,
}

/// Something that a world waits for. What does not belong to the cause is left out.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct WhyCause {
    /// `nothing_to_do`, `archived`, `deleted`, `paused`, `person`, `inbox`, `budget`, `room`, `lease`, `program`, `children`, `effect` or `timer`.
    cause: &'static str,
    /// The same for people.
    detail: String,
    /// The advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
    /// Of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// The actor: it paused the world, has its lease, or carries out the effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Moment>,
    /// Until when the lease or the claim holds; when the timer is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Moment>,
    /// The effect or the timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Attempts that were begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try: Option<Moment>,
    /// Items that wait in the inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<u64>,
    /// The input that it is on hold at.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    /// The budget that is used up: the name of a quota, `universe_calls_max` or `calls_max` of the kind of effect, `attempts_at_a_time_max` or
    /// `attempts_per_second_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'static str>,
    /// How much it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

impl From<&Cause> for WhyCause {
    fn from(cause: &Cause) -> Self {
        let new = Self { cause: cause.as_str(), detail: cause.to_string(), advice: cause.advice(), ..Self::default() };
        match cause {
            Cause::Paused { by, at_ns, .. } => {
                Self { by: by.as_ref().map(|by| by.name.clone()), since: at_ns.map(Moment::of), ..new }
            }
            Cause::Person(hold) => Self {
                code: Some(hold.code.clone()),
                since: Some(Moment::of(hold.since_ns)),
                attempt: Some(hold.failures),
                input: hold.seq.map(|seq| seq.to_string()),
                ..new
            },
            Cause::Inbox { items, code, .. } => Self { items: Some(*items), code: Some(code.clone()), ..new },
            Cause::Budget(spent) => Self { budget: Some(spent.quota), limit: Some(spent.limit), ..new },
            Cause::KindBudget { kind, calls_max } => Self {
                budget: Some("universe_calls_max"),
                limit: Some(*calls_max as u64),
                kind: Some(kind.clone()),
                ..new
            },
            Cause::KindSlots { kind, calls_max } => {
                Self { budget: Some("calls_max"), limit: Some(*calls_max as u64), kind: Some(kind.clone()), ..new }
            }
            Cause::Attempts(spent) => Self { budget: Some(spent.bound), limit: Some(spent.limit), ..new },
            Cause::Lease { holder, until_ns, .. } => {
                Self { by: Some(holder.to_string()), until: Some(Moment::of(*until_ns)), ..new }
            }
            Cause::Requested { by, until_ns } => {
                Self { by: Some(by.to_string()), until: Some(Moment::of(*until_ns)), ..new }
            }
            Cause::Effect(effect) => Self {
                intent: Some(effect.item.intent.to_string()),
                kind: Some(effect.item.kind.clone()),
                since: Some(Moment::of(effect.item.published_at_ns)),
                code: effect.attempts.last_failure.clone(),
                attempt: Some(effect.claim.as_ref().map_or(effect.attempts.attempts, |claim| claim.attempt)),
                next_try: Moment::unless_zero(effect.attempts.not_before_ns).filter(|_| effect.claim.is_none()),
                by: effect.claim.as_ref().map(|claim| claim.worker.to_string()),
                until: effect.claim.as_ref().map(|claim| Moment::of(claim.deadline_ns)),
                ..new
            },
            Cause::Timer(timer) => Self {
                intent: Some(timer.item.intent.to_string()),
                until: Some(Moment::of(timer.item.deliver_at_ns)),
                ..new
            },
            _ => new,
        }
    }
}

/// Why a world is not moving: nothing to do, paused and by whom, on hold, or waiting for children, an effect, a timer, room in a budget, a worker with room, a
/// lease or a program that is compiled. Budgets are those of the process that answers.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/why", operation_id = "world_why", tag = "worlds",
    responses((status = 200, body = WhyWorld)),
)]
pub(super) async fn why(WorldScope { universe, world, .. }: WorldScope<READ>) -> Result<Json<WhyWorld>, Problem> {
    let why = universe.ops().why(world).await?;
    Ok(Json(WhyWorld {
        world: world.to_string(),
        name: why.world.meta.name,
        state: why.state.as_str().to_owned(),
        head: why.world.head.map(|head| head.height.get()),
        causes: why.causes.iter().map(WhyCause::from).collect(),
    }))
}
