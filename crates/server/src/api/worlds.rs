//! Worlds: create, list, describe, fork, pause, resume, upgrade, archive, delete, lineage.

use super::{
    ListPage, Problem,
    access::By,
    extract::{ADMIN, Form, In, Of, Params, READ, SEND, world_of},
    json, limit,
};
use crate::node::Universe;
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use mundi_engine::Engine;
use mundi_model::{Code, Coded, Hash, Height, InboxSeq, WorkerId, WorldId, record::EffectPolicy};
use mundi_runtime::{Plane, lifecycle::ForkAt, ops::Repaired};
use mundi_store::{
    keyspace::{
        world_failure::WorldFailure,
        world_meta::{Hold, Lineage, WorldMeta, WorldState},
    },
    protocol::{Branch, HeldBy, HeldLease, WorldCreated, WorldFilter, WorldSummary},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct World {
    world: String,
    state: String,
    created_at_ns: u64,
    /// Where its own journal begins.
    first_height: u64,
    parent: Option<Parent>,
    lease: Option<LeaseOf>,
    /// Why no worker runs it, until it is retried, skipped, resumed or upgraded.
    hold: Option<HoldOf>,
    /// Steps that failed since it was last upgraded, resumed, retried or skipped.
    failures: u64,
    /// The newest of them.
    failed: Option<FailedOf>,
}

/// A step that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailedOf {
    /// Of the record that says so.
    height: u64,
    code: String,
    reason: String,
    at_ns: u64,
}

impl From<&WorldFailure> for FailedOf {
    fn from(failure: &WorldFailure) -> Self {
        let WorldFailure { height, code, reason, at_ns, .. } = failure;
        Self { height: height.get(), code: code.clone(), reason: reason.clone(), at_ns: *at_ns }
    }
}

/// A world whose turns failed again and again, or of which a step failed that its manifest holds it at.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HoldOf {
    since_ns: u64,
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
}

impl From<HeldLease> for LeaseOf {
    fn from(lease: HeldLease) -> Self {
        let HeldLease { holder, epoch, expires_at_ns } = lease;
        Self { holder: holder.to_string(), epoch: epoch.get(), expires_at_ns }
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
            state: state(meta.state).to_owned(),
            created_at_ns: meta.created_at_ns,
            first_height: meta.first_height.get(),
            parent: meta.lineage.as_ref().map(Parent::from),
            lease: lease.map(LeaseOf::from),
            hold: meta.hold.as_ref().map(HoldOf::from),
            failures: failure.map_or(0, |failure| failure.count),
            failed: failure.map(FailedOf::from),
        }
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

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorldDetails {
    #[serde(flatten)]
    world: World,
    /// The next height.
    head: Option<u64>,
    /// The hash of the last record.
    chain: Option<String>,
    manifest: Option<String>,
    /// The name of the program, if the manifest is one of those that have one.
    program: Option<String>,
    baseline: serde_json::Value,
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
    /// The name of a program.
    program: Option<String>,
    /// The hash of a manifest.
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
    In { universe, .. }: In<E, SEND>,
    Form(new): Form<NewWorld>,
) -> Result<Response, Problem> {
    let world = match new.world.as_deref() {
        Some(name) => world_of(&universe, name)?,
        None => WorldId::from_bytes(universe.plane().random()),
    };
    if let Some(seed) = &new.seed {
        if new.program.is_some() || new.manifest.is_some() {
            return Err(Problem::invalid("a world that begins with a `seed` has the seed's manifest: give no other"));
        }
        return create_from_seed(&universe, world, seed).await;
    }
    let manifest = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref())?;
    let before = match universe.ops().world_create(world, manifest, universe.plane().now_ns()).await {
        Ok(_) => false,
        Err(error) if error.code() == Code::WorldExists => {
            let found = universe.ops().describe_world(world).await?;
            if found.manifest != Some(manifest) {
                return Err(error.into());
            }
            true
        }
        Err(error) => return Err(error.into()),
    };
    let status = if before { StatusCode::OK } else { StatusCode::CREATED };
    let created = Created { world: world.to_string(), manifest: manifest.to_string(), before };
    Ok((status, Json(created)).into_response())
}

async fn create_from_seed<E: Engine>(universe: &Universe<E>, world: WorldId, seed: &Seed) -> Result<Response, Problem> {
    let (of, height, now_ns) =
        (world_of(universe, &seed.world)?, seed.height.map(Height::new), universe.plane().now_ns());
    let forked = universe.ops().world_create_from_seed(world, of, height, now_ns).await?;
    let before = forked.created == WorldCreated::Before;
    let manifest = universe.ops().describe_world(world).await?.manifest.map(|manifest| manifest.to_string());
    let created = Created { world: world.to_string(), manifest: manifest.unwrap_or_default(), before };
    Ok((if before { StatusCode::OK } else { StatusCode::CREATED }, Json(created)).into_response())
}

pub(super) fn manifest_of<E: Engine>(
    universe: &Universe<E>,
    program: Option<&str>,
    manifest: Option<&str>,
) -> Result<Hash, Problem> {
    match (program, manifest) {
        (Some(program), None) => {
            let unknown = || Problem::new(Code::ProgramUnknown, format!("no program is called `{program}` here"));
            universe.manifests().get(program).copied().ok_or_else(unknown)
        }
        (None, Some(manifest)) => Ok(manifest.parse()?),
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
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists worlds, in the order of their ids.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds", tag = "worlds", params(WorldsParams),
    responses((status = 200, body = ListPage<World>)),
)]
pub(super) async fn list<E: Engine>(
    In { universe, .. }: In<E, READ>,
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
    let page = universe.ops().list_worlds(filter, after, limit(params.limit)?).await?;
    Ok(ListPage::of(page, |found: WorldSummary| {
        World::new(found.world, &found.meta, found.lease, found.failure.as_ref())
    }))
}

/// All that is known about a world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}", tag = "worlds", responses((status = 200, body = WorldDetails)),
)]
pub(super) async fn describe<E: Engine>(
    Of { universe, world, .. }: Of<E, READ>,
) -> Result<Json<WorldDetails>, Problem> {
    let found = universe.ops().describe_world(world).await?;
    let waits = universe.ops().waits_for(&found).await?.map(|waits| waits.to_string());
    let named = |manifest: Hash| universe.manifests().iter().find(|(_, named)| **named == manifest);
    let details = WorldDetails {
        world: World::new(world, &found.meta, found.lease, found.failure.as_ref()),
        head: found.head.as_ref().map(|head| head.height.get()),
        chain: found.head.map(|head| head.chain.to_string()),
        program: found.manifest.and_then(named).map(|(name, _)| name.clone()),
        manifest: found.manifest.map(|manifest| manifest.to_string()),
        baseline: found.baseline.as_ref().map_or(serde_json::Value::Null, json::snapshot),
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
    /// What becomes of open effects: `suppress` (the default) or `live`.
    effects: Option<String>,
    /// The name of another program that the branch runs from its first input on.
    program: Option<String>,
    /// Or the hash of its manifest.
    manifest: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Fork {
    world: String,
    parent: String,
    forked_at: u64,
    /// It was there before.
    before: bool,
}

/// Forks a world at any height of its past. The parent is only read. Asked again for the same fork, it answers the same.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/fork", tag = "worlds", request_body = NewFork,
    responses((status = 201, body = Fork), (status = 200, description = "It was there before", body = Fork)),
)]
pub(super) async fn fork<E: Engine>(
    Of { universe, world: parent, .. }: Of<E, SEND>,
    Form(new): Form<NewFork>,
) -> Result<Response, Problem> {
    let policy = match new.effects.as_deref() {
        None | Some("suppress") => EffectPolicy::Suppress,
        Some("live") => EffectPolicy::Live,
        Some("recorded") => EffectPolicy::Recorded,
        Some(other) => return Err(Problem::invalid(format!("effects: `{other}` is none of suppress, recorded, live"))),
    };
    let child = match new.world.as_deref() {
        Some(name) => world_of(&universe, name)?,
        None => WorldId::from_bytes(universe.plane().random()),
    };
    let at = new.at.map_or(ForkAt::Head, |height| ForkAt::Height(Height::new(height)));
    let manifest = match (new.program.as_deref(), new.manifest.as_deref()) {
        (None, None) => None,
        (program, manifest) => Some(manifest_of(&universe, program, manifest)?),
    };
    let now_ns = universe.plane().now_ns();
    let forked = universe.ops().world_fork_on(manifest, parent, child, at, policy, now_ns).await?;
    let (forked_at, before) = (forked.forked_at.get(), forked.created == WorldCreated::Before);
    let fork = Fork { world: child.to_string(), parent: parent.to_string(), forked_at, before };
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
pub(super) async fn pause<E: Engine>(Of { universe, world, .. }: Of<E, ADMIN>) -> Result<Response, Problem> {
    Ok(commanded(universe.ops().world_pause(world).await?))
}

/// The world goes on: after a pause, and after a hold.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/resume", tag = "worlds", responses((status = 202, body = Commanded)),
)]
pub(super) async fn resume<E: Engine>(Of { universe, world, .. }: Of<E, ADMIN>) -> Result<Response, Problem> {
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
    Of { universe, world, .. }: Of<E, ADMIN>,
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
    Of { universe, world, .. }: Of<E, ADMIN>,
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
    program: Option<String>,
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
    Of { universe, world, .. }: Of<E, ADMIN>,
    Form(new): Form<NewManifest>,
) -> Result<Response, Problem> {
    let manifest = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref())?;
    Ok(commanded(universe.ops().world_upgrade(world, manifest, new.forced).await?))
}

/// Puts a world into the archive: it takes nothing in until it is taken out again.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/archive", tag = "worlds",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn archive<E: Engine>(Of { universe, world, .. }: Of<E, ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().world_archive(world).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes a world out of the archive.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds/{world}/unarchive", tag = "worlds",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn unarchive<E: Engine>(Of { universe, world, .. }: Of<E, ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().world_unarchive(world).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a world for good. Its id is never used again.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/worlds/{world}", tag = "worlds", responses((status = 204, description = "Done")),
)]
pub(super) async fn delete<E: Engine>(Of { universe, world, .. }: Of<E, ADMIN>) -> Result<StatusCode, Problem> {
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
pub(super) async fn lineage<E: Engine>(Of { universe, world, .. }: Of<E, READ>) -> Result<Json<Family>, Problem> {
    let found = universe.ops().world_lineage(world, mundi_model::limits::LIST_ITEMS_MAX).await?;
    Ok(Json(Family {
        ancestors: found.ancestors.iter().map(Parent::from).collect(),
        children: found.children.iter().map(Child::from).collect(),
        more_children: found.more_children,
    }))
}
