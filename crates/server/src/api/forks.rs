//! Forks of worlds, and the lineage that they make.

use super::{
    Problem,
    effects::AnswerStatus,
    extract::{JsonBody, READ, SEND, WorldScope},
    functions::{self, OpenAwait},
    json::{self},
    labels,
    naming::{names_world, with_names},
    worlds::{Parent, grow, keep_name, manifest_of, settle, wanted},
};
use crate::{node::Universe, quotas::Amounts};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use mundi_model::{
    Code, Coded, Height, LabelChange, WorldAddress, WorldId,
    answers::{Answers, AnswersError, ScriptedAnswer},
    cbor, limits,
    record::{EffectPolicy, ReceiptStatus},
};
use mundi_runtime::{
    Plane, RuntimeError,
    control::is_name_taken,
    lifecycle::{Beginning, ForkAt, ForkPolicy, Forked, Naming},
};
use mundi_store::protocol::{Branch, WorldCreated};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::LazyLock};
use utoipa::ToSchema;

/// Where a fork begins.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewFork {
    /// The id or the name of the new world. Without a name it gets one: `alice-fork-2`.
    world: Option<String>,
    /// Labels that it has beside those of its parent, or instead of them.
    labels: Option<BTreeMap<String, String>>,
    /// It shares all records below this height; at the newest if it is not given.
    at: Option<u64>,
    /// Or an await of a durable function, `FUNCTION/KEY/NUMBER`: the fork has not seen its result yet. If it has not ended, the fork begins at
    /// the newest height.
    at_await: Option<String>,
    /// With `at_await`: the await ends with this result in the fork, before anything else happens there.
    #[schema(value_type = serde_json::Value)]
    #[serde(default, deserialize_with = "given")]
    with: Option<serde_json::Value>,
    /// With `at_await`: or it fails with this error.
    with_error: Option<AwaitError>,
    /// The policy for its effects: `suppress`, `sandbox`, `recorded`, `recorded-then-live` or `live`, as the table of this
    /// operation says. If it is not given: `suppress`; but `sandbox` for a fork of a sandbox, and `recorded` for one of a
    /// recorded fork. Another policy than `sandbox` for a fork of a sandbox is refused with `FORK_SANDBOXED`.
    effects: Option<String>,
    /// The name of another program that the branch runs from its first input on.
    program: Option<String>,
    /// Or the hash of its manifest.
    manifest: Option<String>,
    /// Of a sandbox: what answers effects for which its parent has no receipt. The first answer that fits is given, as often as it
    /// fits; a fork of a sandbox has those of its parent if it is given none.
    answers: Option<Vec<AnswerOf>>,
}

/// Why an await fails in a fork.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AwaitError {
    /// The code of the error, as the function reads it: `CARD_REFUSED`.
    code: String,
    #[serde(default)]
    reason: String,
}

/// A field that is there, even if it is null.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(deserializer).map(Some)
}

/// Where the fork begins, and what its durable functions are told first.
async fn beginning(
    universe: &Universe,
    parent: WorldId,
    new: &mut NewFork,
) -> Result<(ForkAt, Option<Vec<u8>>), Problem> {
    let at = new.at.map_or(ForkAt::Head, |height| ForkAt::Height(Height::new(height)));
    let (ok, error) = (new.with.take(), new.with_error.take());
    let Some(named) = &new.at_await else {
        return match (ok, error) {
            (None, None) => Ok((at, None)),
            _ => Err(Problem::invalid("with: name the await that it is the result of, as `at_await`")),
        };
    };
    if new.at.is_some() {
        return Err(Problem::invalid("at_await: it says the height, so do not give `at`"));
    }
    let OpenAwait { instance, number, ended_at, is_instant } = functions::open_await(universe, parent, named).await?;
    let at = ended_at.map_or(ForkAt::Head, |height| ForkAt::Height(Height::new(height)));
    let result = match (ok, error) {
        (None, None) => return Ok((at, None)),
        (Some(ok), None) => ("ok", ok),
        (None, Some(error)) if !error.code.is_empty() => {
            ("error", serde_json::json!({ "code": error.code, "reason": error.reason }))
        }
        (None, Some(_)) => return Err(Problem::invalid("with_error: its `code` is empty")),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("with: an await ends with a result or with an error, not with both"));
        }
    };
    if is_instant {
        let detail = format!(
            "await {number} of {instance} ended in the step that asked for it: no fork can begin between the two"
        );
        return Err(Problem::new(Code::FunctionNotFound, detail));
    }
    let told = serde_json::json!({ "resolve": instance, "await": number, (result.0): result.1 });
    Ok((at, Some(cbor::encode(&json::given(told)?))))
}

/// A scripted answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerOf {
    /// The kind of the effect: `http.request`, `fabric.send` ...
    kind: String,
    /// Only for the effect of this number since the fork, all kinds counted and timers left out; the first is 1. What was open when
    /// the fork was made has no number.
    #[schema(minimum = 1)]
    nth: Option<u64>,
    /// Only for parameters that have these members with these values.
    #[schema(value_type = Option<Object>)]
    params: Option<serde_json::Value>,
    /// `ok` if it is not given.
    status: Option<AnswerStatus>,
    /// The payload of the receipt, in the form that the adapter of the kind would give it, with bytes as `{"$bytes": "hex"}`. Null if
    /// it is not given.
    #[serde(default)]
    payload: serde_json::Value,
}

fn scripted(answers: Vec<AnswerOf>) -> Result<Answers, Problem> {
    let rule = |(index, answer): (usize, AnswerOf)| {
        let AnswerOf { kind, nth, params, status, payload } = answer;
        let encoded = |json| {
            let value = json::given(json).map_err(|problem| {
                let why = problem.detail;
                AnswersError::Invalid { index, why }
            })?;
            Ok(cbor::encode(&value))
        };
        let params = params.map(encoded).transpose()?;
        let status = status.map_or(ReceiptStatus::Ok, ReceiptStatus::from);
        Ok(ScriptedAnswer { kind, nth, params, status, payload: encoded(payload)? })
    };
    let rules = answers.into_iter().enumerate().map(rule).collect::<Result<_, AnswersError>>();
    rules.and_then(Answers::new).map_err(|error| Problem::new(error.code(), error.to_string()))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Fork {
    world: String,
    /// Its name.
    name: Option<String>,
    parent: String,
    parent_name: Option<String>,
    forked_at: u64,
    /// The policy for its effects.
    effects: String,
    /// It was there before.
    before: bool,
}

/// The description of a fork in the document.
static FORK_DESCRIPTION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "The parent is only read. Asked again for the same fork, it answers the same.\n\nWhat becomes of its effects:\n\n{}",
        mundi_model::FORK_POLICIES
    )
});

/// Forks a world at any height of its past. The parent is only read. Asked again for the same fork, it answers the same.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/fork", tag = "worlds", request_body = NewFork,
    summary = "Forks a world at any height of its past.", description = FORK_DESCRIPTION.as_str(),
    responses((status = 201, body = Fork), (status = 200, description = "It was there before", body = Fork)),
)]
pub(super) async fn fork(
    WorldScope { api, universe, world: parent, tenant }: WorldScope<SEND>,
    JsonBody(mut new): JsonBody<NewFork>,
) -> Result<Response, Problem> {
    let effects = match new.effects.as_deref() {
        None => None,
        Some(name) => Some(EffectPolicy::offered(name).ok_or_else(|| {
            let names = EffectPolicy::OFFERED.map(EffectPolicy::as_str).join(", ");
            Problem::invalid(format!("effects: `{name}` is none of {names}"))
        })?),
    };
    let (at, told) = beginning(&universe, parent, &mut new).await?;
    let script = new.answers.map(scripted).transpose()?;
    let labels = labels::given(new.labels)?;
    let address = wanted(&universe, new.world.as_deref()).await?;
    let child = address.world(universe.id());
    let manifest = match (new.program.as_deref(), new.manifest.as_deref()) {
        (None, None) => None,
        (program, manifest) => Some(manifest_of(&universe, program, manifest).await?),
    };
    let stored = script.as_ref().map_or(Amounts::default(), |script| Amounts::blob(script.to_bytes().len() as u64));
    let growth = grow(&api, &universe, tenant, child, Amounts { worlds: 1, ..stored }).await?;
    let forking = async {
        let answers = match &script {
            Some(script) => Some(universe.ops().store_answers(script).await?),
            None => None,
        };
        let (policy, now_ns) = (ForkPolicy { effects, answers }, universe.plane().now_ns());
        fork_named(&universe, Beginning { manifest, told }, (parent, address.clone()), labels, at, policy, now_ns).await
    };
    let forked = forking.await;
    let is_new = forked.as_ref().is_ok_and(|forked| forked.created != WorldCreated::Before);
    settle(growth, &universe, is_new).await;
    let forked = forked.map_err(|error| match &new.world {
        Some(name) => Problem::from(error).naming(name, child),
        None => error.into(),
    })?;
    let (forked_at, before) = (forked.forked_at.get(), forked.created == WorldCreated::Before);
    if before {
        keep_name(&universe, &address).await?;
    }
    let effects = forked.policy.as_str().to_owned();
    let mut names = universe.names_of_worlds([child, parent].into()).await?;
    let (name, parent_name) = (names.remove(&child), names.remove(&parent));
    let (world, parent) = (child.to_string(), parent.to_string());
    let fork = Fork { world, name, parent, parent_name, forked_at, effects, before };
    Ok((if before { StatusCode::OK } else { StatusCode::CREATED }, Json(fork)).into_response())
}

/// A fork under an id gets a name, too: another one, if somebody else takes the chosen one first.
async fn fork_named(
    universe: &Universe,
    beginning: Beginning,
    (parent, address): (WorldId, WorldAddress),
    labels: Option<LabelChange>,
    at: ForkAt,
    policy: ForkPolicy,
    now_ns: u64,
) -> Result<Forked, RuntimeError> {
    let (ops, child) = (universe.ops(), address.world(universe.id()));
    let mut tries_left = limits::DEFAULT_NAME_TRIES_MAX;
    loop {
        tries_left -= 1;
        let (name, may_be_another) = match &address {
            WorldAddress::Name(name) => (name.clone(), false),
            WorldAddress::Id(_) => (ops.name_for_fork(parent).await?, tries_left > 0),
        };
        let naming = Naming { name: Some(name), labels: labels.clone() };
        match ops.world_fork_labelled(beginning.clone(), parent, child, naming, at, policy, now_ns).await {
            Err(error) if may_be_another && is_name_taken(&error) => {}
            forked => return forked,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Family {
    /// The nearest first, each with the height at which the line left it.
    ancestors: Vec<Parent>,
    forks: Vec<ForkedWorld>,
    more_forks: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ForkedWorld {
    world: String,
    world_name: Option<String>,
    forked_at: u64,
}

names_world!(ForkedWorld);

impl From<&Branch> for ForkedWorld {
    fn from(branch: &Branch) -> Self {
        Self { world: branch.world.to_string(), world_name: None, forked_at: branch.forked_at.get() }
    }
}

/// Ancestors and forks of a world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/lineage", tag = "worlds", responses((status = 200, body = Family)),
)]
pub(super) async fn lineage(WorldScope { universe, world, .. }: WorldScope<READ>) -> Result<Json<Family>, Problem> {
    let found = universe.ops().world_lineage(world, mundi_model::limits::LIST_ITEMS_MAX).await?;
    Ok(Json(Family {
        ancestors: with_names(&universe, found.ancestors.iter().map(Parent::from).collect()).await?,
        forks: with_names(&universe, found.forks.iter().map(ForkedWorld::from).collect()).await?,
        more_forks: found.more_forks,
    }))
}
