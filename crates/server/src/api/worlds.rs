//! Worlds: create, list, describe, fork, pause, resume, upgrade, archive, delete, lineage.

use super::{
    Api, ListPage, Problem,
    access::By,
    effects::AnswerStatus,
    extract::{ADMIN, JsonBody, Params, READ, SEND, UniverseScope, WorldScope, address_of, world_of},
    json::{self, Snapshot},
    limit,
    moment::Moment,
};
use crate::{
    node::{Growth, Tenant, Universe},
    quotas::Amounts,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use mundi_engine::Engine;
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, WorkerId, WorldAddress, WorldId,
    answers::{Answers, AnswersError, ScriptedAnswer},
    cbor,
    record::{EffectPolicy, ReceiptStatus},
};
use mundi_runtime::{
    Plane,
    lifecycle::{ForkAt, ForkPolicy},
    ops::Repaired,
};
use mundi_store::{
    keyspace::{
        world_failure::WorldFailure,
        world_meta::{Hold, Lineage, WorldMeta, WorldState},
    },
    protocol::{Branch, HeldBy, HeldLease, WorldCreated, WorldFilter, WorldSummary},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::LazyLock};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct World {
    world: String,
    /// The name that it was created under.
    name: Option<String>,
    /// `live`, `paused` (takes nothing but commands), `on_hold` (its turns failed), `archived`, `deleting` or `deleted`.
    state: String,
    created_at_ns: u64,
    created_at: Moment,
    /// Where its own journal begins.
    first_height: u64,
    parent: Option<Parent>,
    lease: Option<LeaseOf>,
    /// The hash of the manifest that holds at its head.
    manifest: Option<String>,
    /// What people call it, if it has a name: `todo@2`, or the name alone of a program that comes with the server.
    program: Option<String>,
    /// Why no worker runs it, until it is retried, skipped, resumed or upgraded.
    hold: Option<HoldOf>,
    /// Steps that failed since it was last upgraded, resumed, retried or skipped.
    failures: u64,
    /// The newest of them.
    failed: Option<FailedOf>,
    /// What becomes of the effects of a fork, or of a world that was imported.
    effects: Option<String>,
}

/// A step that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailedOf {
    /// Of the record that says so.
    height: u64,
    code: String,
    reason: String,
    at_ns: u64,
    at: Moment,
}

impl From<&WorldFailure> for FailedOf {
    fn from(failure: &WorldFailure) -> Self {
        let WorldFailure { height, code, reason, at_ns, .. } = failure;
        Self { height: height.get(), code: code.clone(), reason: reason.clone(), at_ns: *at_ns, at: Moment::of(*at_ns) }
    }
}

/// A world whose turns failed again and again, or of which a step failed that its manifest holds it at.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HoldOf {
    since_ns: u64,
    since: Moment,
    /// The error that its last attempt ended with.
    code: String,
    reason: String,
    /// Attempts that failed in a row.
    failures: u32,
    /// The next height of its journal.
    height: u64,
    /// The input that it stands at: the first item that waits in its inbox, or the one whose step failed.
    seq: Option<String>,
    /// What the input is whose step failed: `event add`. Absent if its turns failed.
    failed_input: Option<String>,
}

impl From<&Hold> for HoldOf {
    fn from(hold: &Hold) -> Self {
        Self {
            since_ns: hold.since_ns,
            since: Moment::of(hold.since_ns),
            code: hold.code.clone(),
            reason: hold.reason.clone(),
            failures: hold.failures,
            height: hold.height.get(),
            seq: hold.seq.map(|seq| seq.to_string()),
            failed_input: hold.failed_input.clone(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Parent {
    world: String,
    forked_at: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeaseOf {
    holder: String,
    epoch: u64,
    expires_at_ns: u64,
    expires_at: Moment,
}

impl From<HeldLease> for LeaseOf {
    fn from(lease: HeldLease) -> Self {
        let HeldLease { holder, epoch, expires_at_ns } = lease;
        Self { holder: holder.to_string(), epoch: epoch.get(), expires_at_ns, expires_at: Moment::of(expires_at_ns) }
    }
}

impl From<&Lineage> for Parent {
    fn from(lineage: &Lineage) -> Self {
        Self { world: lineage.parent.to_string(), forked_at: lineage.forked_at.get() }
    }
}

impl World {
    fn new(world: WorldId, meta: &WorldMeta, lease: Option<HeldLease>, failure: Option<&WorldFailure>) -> Self {
        Self {
            world: world.to_string(),
            name: meta.name.clone(),
            state: state(meta.state).to_owned(),
            created_at_ns: meta.created_at_ns,
            created_at: Moment::of(meta.created_at_ns),
            first_height: meta.first_height.get(),
            parent: meta.lineage.as_ref().map(Parent::from),
            lease: lease.map(LeaseOf::from),
            manifest: None,
            program: None,
            hold: meta.hold.as_ref().map(HoldOf::from),
            failures: failure.map_or(0, |failure| failure.count),
            failed: failure.map(FailedOf::from),
            effects: meta.policy.map(|policy| policy.as_str().to_owned()),
        }
    }
}

impl World {
    fn running(mut self, manifest: Option<Hash>, names: &BTreeMap<Hash, String>) -> Self {
        self.manifest = manifest.map(|manifest| manifest.to_string());
        self.program = manifest.and_then(|manifest| names.get(&manifest).cloned());
        self
    }
}

const STATES: [(&str, WorldState); 4] = [
    ("live", WorldState::Live),
    ("deleting", WorldState::Deleting),
    ("deleted", WorldState::Deleted),
    ("archived", WorldState::Archived),
];

fn state(state: WorldState) -> &'static str {
    STATES.iter().find(|(_, found)| *found == state).map_or("", |(name, _)| name)
}

/// What a world does: a live one may be paused, which only its journal says. Where that cannot be read, because it is damaged or the
/// world is deleted meanwhile, all else is told: one world does not hide the others from a list.
async fn state_of<E: Engine>(universe: &Universe<E>, world: WorldId, meta: &WorldMeta) -> String {
    let is_live = meta.state == WorldState::Live;
    match (&meta.hold, is_live) {
        (Some(_), true) => "on_hold".to_owned(),
        (None, true) if universe.ops().is_paused_on_record(world).await.unwrap_or(false) => "paused".to_owned(),
        _ => state(meta.state).to_owned(),
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorldDetails {
    #[serde(flatten)]
    world: World,
    /// The next height.
    head: Option<u64>,
    /// The hash of the last record.
    chain: Option<String>,
    baseline: Option<Snapshot>,
    /// Records below it lie in segments.
    exported_to: Option<u64>,
    inbox_items: u64,
    inbox_bytes: u64,
    assigned_to: Option<String>,
    pinned: bool,
    /// What it waits for, if it has something to do and nobody runs it.
    waits: Option<String>,
}

/// A new world.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewWorld {
    /// Its id, or a name; drawn at random if it is not given.
    world: Option<String>,
    /// The name of a program, for its newest version, or `name@version`.
    program: Option<String>,
    /// Or the hash of a manifest.
    manifest: Option<String>,
    /// Or a snapshot of another world, which it begins with; it has that one's manifest, and repeats none of its effects.
    seed: Option<Seed>,
}

/// The snapshot that a world begins with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Seed {
    /// The id or the name of the world that it is of.
    world: String,
    /// The height of the snapshot; the newest one if it is not given.
    height: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Created {
    world: String,
    manifest: String,
    /// It was there before.
    before: bool,
}

/// Creates a world. Asked again for the same one, it answers the same.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds", tag = "worlds", request_body = NewWorld,
    responses((status = 201, body = Created), (status = 200, description = "It was there before", body = Created)),
)]
pub(super) async fn create<E: Engine>(
    UniverseScope { api, universe, tenant }: UniverseScope<E, SEND>,
    JsonBody(new): JsonBody<NewWorld>,
) -> Result<Response, Problem> {
    let address = wanted(&universe, new.world.as_deref())?;
    let world = address.world(universe.id());
    if let Some(seed) = &new.seed {
        if new.program.is_some() || new.manifest.is_some() {
            return Err(Problem::invalid("a world that begins with a `seed` has the seed's manifest: give no other"));
        }
        let growth = grow(&api, &universe, tenant, world, Amounts::WORLD).await?;
        let created = create_from_seed(&universe, &address, seed).await;
        let is_new = created.as_ref().is_ok_and(|(_, before)| !before);
        settle(growth, &universe, is_new).await;
        let (response, before) = created?;
        if before {
            keep_name(&universe, &address).await?;
        }
        return Ok(response);
    }
    let manifest = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref()).await?;
    let growth = grow(&api, &universe, tenant, world, Amounts::WORLD).await?;
    let created = create_with(&universe, &address, manifest).await;
    settle(growth, &universe, created.as_ref().is_ok_and(|before| !before)).await;
    let before = created?;
    if before {
        keep_name(&universe, &address).await?;
    }
    let status = if before { StatusCode::OK } else { StatusCode::CREATED };
    let created = Created { world: world.to_string(), manifest: manifest.to_string(), before };
    Ok((status, Json(created)).into_response())
}

/// What a new world shall be called; an id that was drawn at random if nothing was said.
fn wanted<E: Engine>(universe: &Universe<E>, name: Option<&str>) -> Result<WorldAddress, Problem> {
    let drawn = || WorldId::from_bytes(universe.plane().random()).into();
    name.map_or_else(|| Ok(drawn()), address_of)
}

/// Stores the name of a world that was there before, perhaps without one.
async fn keep_name<E: Engine>(universe: &Universe<E>, address: &WorldAddress) -> Result<(), Problem> {
    match address {
        WorldAddress::Name(name) => Ok(universe.ops().name_world(name.clone()).await?),
        WorldAddress::Id(_) => Ok(()),
    }
}

/// Room for one more world, and for what is stored with it. One that is there already needs none.
async fn grow<E: Engine>(
    api: &Api<E>,
    universe: &Universe<E>,
    tenant: Tenant,
    world: WorldId,
    more: Amounts,
) -> Result<Growth, Problem> {
    match api.node.grow(universe, tenant, more).await {
        Err(problem) if problem.quota.is_some() && universe.ops().describe_world(world).await.is_ok() => {
            Ok(Growth::default())
        }
        grown => grown,
    }
}

async fn settle<E: Engine>(growth: Growth, universe: &Universe<E>, is_new: bool) {
    if is_new {
        growth.keep();
    } else {
        growth.give_back(universe).await;
    }
}

/// Says whether it was there before.
async fn create_with<E: Engine>(
    universe: &Universe<E>,
    address: &WorldAddress,
    manifest: Hash,
) -> Result<bool, Problem> {
    let world = address.world(universe.id());
    match universe.ops().world_create(address.clone(), manifest, universe.plane().now_ns()).await {
        Ok(_) => Ok(false),
        Err(error) if error.code() == Code::WorldExists => {
            let found = universe.ops().describe_world(world).await?;
            if found.manifest != Some(manifest) {
                return Err(error.into());
            }
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

async fn create_from_seed<E: Engine>(
    universe: &Universe<E>,
    address: &WorldAddress,
    seed: &Seed,
) -> Result<(Response, bool), Problem> {
    let world = address.world(universe.id());
    let (of, height, now_ns) =
        (world_of(universe, &seed.world)?, seed.height.map(Height::new), universe.plane().now_ns());
    let forked = universe.ops().world_create_from_seed(address.clone(), of, height, now_ns).await?;
    let before = forked.created == WorldCreated::Before;
    let manifest = universe.ops().describe_world(world).await?.manifest.map(|manifest| manifest.to_string());
    let created = Created { world: world.to_string(), manifest: manifest.unwrap_or_default(), before };
    let status = if before { StatusCode::OK } else { StatusCode::CREATED };
    Ok(((status, Json(created)).into_response(), before))
}

/// The manifest that a request means. A hash and a name are taken in either place: scripts hand on what an upload printed.
pub(super) async fn manifest_of<E: Engine>(
    universe: &Universe<E>,
    program: Option<&str>,
    manifest: Option<&str>,
) -> Result<Hash, Problem> {
    match (program, manifest) {
        (None, Some(hash)) if hash.starts_with("h_") => Ok(hash.parse()?),
        (Some(named), None) | (None, Some(named)) => Ok(universe.find_program(named).await?.manifest),
        _ => Err(Problem::invalid("give either `program` or `manifest`")),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WorldsParams {
    /// `live`, `archived`, `deleting` or `deleted`; all but deleted ones if nothing is said.
    state: Option<String>,
    /// Only forks of this world.
    parent: Option<String>,
    /// Only worlds whose lease is held by this worker; `anybody` or `nobody`.
    held_by: Option<String>,
    /// Only worlds that are on hold because their turns or a step failed (`true`), or only those that are not.
    on_hold: Option<bool>,
    /// Only worlds of which a step failed since they were last upgraded, resumed, retried or skipped, or only the others.
    failed: Option<bool>,
    /// Only worlds that run this program: `todo` for all of its versions, `todo@2`, or the hash of a manifest.
    program: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists worlds, in the order of their ids. With a filter, a page may be short or empty and not be the last: only `next` says so.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds", tag = "worlds", params(WorldsParams),
    responses((status = 200, body = ListPage<World>)),
)]
pub(super) async fn list<E: Engine>(
    UniverseScope { universe, .. }: UniverseScope<E, READ>,
    Params(params): Params<WorldsParams>,
) -> Result<Json<ListPage<World>>, Problem> {
    let unknown = |name: &str| Problem::invalid(format!("`{name}` is no state of a world"));
    let wanted = params.state.as_deref().map(|name| {
        STATES.iter().find(|(found, _)| *found == name).map(|(_, state)| *state).ok_or_else(|| unknown(name))
    });
    let held = match params.held_by.as_deref() {
        None => None,
        Some("nobody") => Some(HeldBy::Nobody),
        Some("anybody") => Some(HeldBy::Anybody),
        Some(worker) => Some(HeldBy::Worker(worker.parse::<WorkerId>()?)),
    };
    let parent = params.parent.as_deref().map(|name| world_of(&universe, name)).transpose()?;
    let filter =
        WorldFilter { state: wanted.transpose()?, parent, held, on_hold: params.on_hold, failed: params.failed };
    let after = params.after.as_deref().map(str::parse).transpose()?;
    let program = match params.program.as_deref() {
        Some(program) => Some(universe.manifests_called(program).await?),
        None => None,
    };
    let mut page = universe.ops().list_worlds(filter, after, limit(params.limit)?).await?;
    if let Some(wanted) = program {
        page.items.retain(|found| found.manifest.is_some_and(|manifest| wanted.contains(&manifest)));
    }
    let names = universe.names_of(page.items.iter().filter_map(|found| found.manifest).collect()).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for WorldSummary { world, meta, lease, failure, manifest } in page.items {
        let state = state_of(&universe, world, &meta).await;
        let world = World::new(world, &meta, lease, failure.as_ref()).running(manifest, &names);
        items.push(World { state, ..world });
    }
    Ok(Json(ListPage { items, next: page.next.map(|next| next.to_string()) }))
}

/// All that is known about a world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}", tag = "worlds", responses((status = 200, body = WorldDetails)),
)]
pub(super) async fn describe<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, READ>,
) -> Result<Json<WorldDetails>, Problem> {
    let found = universe.ops().describe_world(world).await?;
    let waits = universe.ops().waits_for(&found).await?.map(|waits| waits.to_string());
    let names = universe.names_of(found.manifest.into_iter().collect()).await?;
    let details = WorldDetails {
        world: World {
            state: state_of(&universe, world, &found.meta).await,
            ..World::new(world, &found.meta, found.lease, found.failure.as_ref()).running(found.manifest, &names)
        },
        head: found.head.as_ref().map(|head| head.height.get()),
        chain: found.head.map(|head| head.chain.to_string()),
        baseline: found.baseline.as_ref().map(Snapshot::from),
        exported_to: found.exported_to.map(Height::get),
        inbox_items: found.inbox.items,
        inbox_bytes: found.inbox.bytes,
        assigned_to: found.assignment.as_ref().and_then(|to| to.desired).map(|worker| worker.to_string()),
        pinned: found.assignment.is_some_and(|to| to.pinned),
        waits,
    };
    Ok(Json(details))
}

/// Where a fork begins.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewFork {
    /// The id or the name of the new world; drawn at random if it is not given.
    world: Option<String>,
    /// It shares all records below this height; at the newest if it is not given.
    at: Option<u64>,
    /// What becomes of its effects: `suppress`, `sandbox`, `recorded`, `recorded-then-live` or `live`, as the table of this
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
    /// What the program gets with the receipt: as the adapter of the kind would give it, with bytes as `{"$bytes": "hex"}`. Null if
    /// nothing is said.
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
    parent: String,
    forked_at: u64,
    /// What becomes of its effects.
    effects: String,
    /// It was there before.
    before: bool,
}

/// What is said of a fork in the document.
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
pub(super) async fn fork<E: Engine>(
    WorldScope { api, universe, world: parent, tenant }: WorldScope<E, SEND>,
    JsonBody(new): JsonBody<NewFork>,
) -> Result<Response, Problem> {
    let effects = match new.effects.as_deref() {
        None => None,
        Some(name) => Some(EffectPolicy::offered(name).ok_or_else(|| {
            let names = EffectPolicy::OFFERED.map(EffectPolicy::as_str).join(", ");
            Problem::invalid(format!("effects: `{name}` is none of {names}"))
        })?),
    };
    let script = new.answers.map(scripted).transpose()?;
    let address = wanted(&universe, new.world.as_deref())?;
    let child = address.world(universe.id());
    let at = new.at.map_or(ForkAt::Head, |height| ForkAt::Height(Height::new(height)));
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
        universe.ops().world_fork_on(manifest, parent, address.clone(), at, policy, now_ns).await
    };
    let forked = forking.await;
    let is_new = forked.as_ref().is_ok_and(|forked| forked.created != WorldCreated::Before);
    settle(growth, &universe, is_new).await;
    let forked = forked?;
    let (forked_at, before) = (forked.forked_at.get(), forked.created == WorldCreated::Before);
    if before {
        keep_name(&universe, &address).await?;
    }
    let effects = forked.policy.as_str().to_owned();
    let fork = Fork { world: child.to_string(), parent: parent.to_string(), forked_at, effects, before };
    Ok((if before { StatusCode::OK } else { StatusCode::CREATED }, Json(fork)).into_response())
}

/// The place of a command in the inbox: it takes effect when the world has come that far.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Commanded {
    seq: String,
}

/// From now on the world takes nothing but commands; its inbox keeps what arrives.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/pause", tag = "worlds", responses((status = 202, body = Commanded)),
)]
pub(super) async fn pause<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
) -> Result<Response, Problem> {
    Ok(commanded(universe.ops().world_pause(world).await?))
}

/// The world goes on: after a pause, and after a hold.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/resume", tag = "worlds", responses((status = 202, body = Commanded)),
)]
pub(super) async fn resume<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
) -> Result<Response, Problem> {
    Ok(commanded(universe.ops().world_resume(world).await?))
}

/// What was done about the input that a world was on hold at.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Repair {
    /// The place of the command in the inbox.
    seq: String,
    /// The input that it is about.
    input: String,
    /// Who is on record for it.
    operator: String,
}

/// Takes the input again that the world is on hold at, for example after an upgrade. Who does it is on record.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/retry", operation_id = "world_retry", tag = "worlds",
    responses((status = 202, description = "It is on its way", body = Repair)),
)]
pub(super) async fn retry<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
    By(operator): By,
) -> Result<Response, Problem> {
    let name = operator.name.clone();
    Ok(repaired(universe.ops().world_retry(world, operator).await?, name))
}

/// Passes the one input that the world is on hold at: the program does not see it, and its caller hears `STEP_SKIPPED`. Who does it
/// is on record.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/skip", operation_id = "world_skip", tag = "worlds",
    responses((status = 202, description = "It is on its way", body = Repair)),
)]
pub(super) async fn skip<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
    By(operator): By,
) -> Result<Response, Problem> {
    let name = operator.name.clone();
    Ok(repaired(universe.ops().world_skip(world, operator).await?, name))
}

fn repaired(Repaired { seq, input }: Repaired, operator: String) -> Response {
    let repair = Repair { seq: seq.to_string(), input: input.to_string(), operator };
    (StatusCode::ACCEPTED, Json(repair)).into_response()
}

fn commanded(seq: InboxSeq) -> Response {
    (StatusCode::ACCEPTED, Json(Commanded { seq: seq.to_string() })).into_response()
}

/// Another manifest for a world.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewManifest {
    /// The name of a program, for its newest version, or `name@version`.
    program: Option<String>,
    /// Or the hash of a manifest.
    manifest: Option<String>,
    /// Insists although a rehearsal diverges.
    #[serde(default)]
    forced: bool,
}

/// From the record after the command on, another manifest holds.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/upgrade", tag = "worlds", request_body = NewManifest,
    responses((status = 202, body = Commanded)),
)]
pub(super) async fn upgrade<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
    JsonBody(new): JsonBody<NewManifest>,
) -> Result<Response, Problem> {
    let manifest = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref()).await?;
    Ok(commanded(universe.ops().world_upgrade(world, manifest, new.forced).await?))
}

/// Puts a world into the archive: it takes nothing in until it is taken out again.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/archive", tag = "worlds",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn archive<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
) -> Result<StatusCode, Problem> {
    universe.ops().world_archive(world).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes a world out of the archive.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/unarchive", tag = "worlds",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn unarchive<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
) -> Result<StatusCode, Problem> {
    universe.ops().world_unarchive(world).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a world for good. Its id is never used again.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/worlds/{world}", tag = "worlds", responses((status = 204, description = "Done")),
)]
pub(super) async fn delete<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, ADMIN>,
) -> Result<StatusCode, Problem> {
    universe.ops().describe_world(world).await?;
    universe.ops().world_delete(world).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Family {
    /// The nearest first, each with the height at which the line left it.
    ancestors: Vec<Parent>,
    children: Vec<Child>,
    more_children: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Child {
    world: String,
    forked_at: u64,
}

impl From<&Branch> for Child {
    fn from(branch: &Branch) -> Self {
        Self { world: branch.world.to_string(), forked_at: branch.forked_at.get() }
    }
}

/// Ancestors and children of a world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/lineage", tag = "worlds", responses((status = 200, body = Family)),
)]
pub(super) async fn lineage<E: Engine>(
    WorldScope { universe, world, .. }: WorldScope<E, READ>,
) -> Result<Json<Family>, Problem> {
    let found = universe.ops().world_lineage(world, mundi_model::limits::LIST_ITEMS_MAX).await?;
    Ok(Json(Family {
        ancestors: found.ancestors.iter().map(Parent::from).collect(),
        children: found.children.iter().map(Child::from).collect(),
        more_children: found.more_children,
    }))
}
