//! Worlds: create, list, describe, fork, pause, resume, upgrade, archive, delete, lineage.

use super::{
    ListPage, Problem,
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
use mundi_runtime::{Plane, lifecycle::ForkAt};
use mundi_store::{
    keyspace::world_meta::{Hold, Lineage, WorldMeta, WorldState},
    protocol::{Branch, HeldBy, HeldLease, WorldCreated, WorldFilter, WorldSummary},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    /// The hash of the manifest that holds at its head.
    manifest: Option<String>,
    /// What people call it, if it has a name: `todo@2`, or the name alone of a program that comes with the server.
    program: Option<String>,
    /// Why no worker runs it, until it is resumed or upgraded.
    hold: Option<HoldOf>,
}

/// A world whose turns failed again and again.
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
    /// The first item that waits in its inbox.
    seq: Option<String>,
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
    fn new(world: WorldId, meta: &WorldMeta, lease: Option<HeldLease>) -> Self {
        Self {
            world: world.to_string(),
            state: state(meta.state).to_owned(),
            created_at_ns: meta.created_at_ns,
            first_height: meta.first_height.get(),
            parent: meta.lineage.as_ref().map(Parent::from),
            lease: lease.map(LeaseOf::from),
            manifest: None,
            program: None,
            hold: meta.hold.as_ref().map(HoldOf::from),
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

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorldDetails {
    #[serde(flatten)]
    world: World,
    /// The next height.
    head: Option<u64>,
    /// The hash of the last record.
    chain: Option<String>,
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
    let manifest = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref()).await?;
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
    /// Only worlds that are on hold because their turns failed (`true`), or only those that are not.
    on_hold: Option<bool>,
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
    let filter = WorldFilter { state: wanted.transpose()?, parent, held, on_hold: params.on_hold };
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
    Ok(ListPage::of(page, |found: WorldSummary| {
        World::new(found.world, &found.meta, found.lease).running(found.manifest, &names)
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
    let names = universe.names_of(found.manifest.into_iter().collect()).await?;
    let details = WorldDetails {
        world: World::new(world, &found.meta, found.lease).running(found.manifest, &names),
        head: found.head.as_ref().map(|head| head.height.get()),
        chain: found.head.map(|head| head.chain.to_string()),
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
    let forked = universe.ops().world_fork(parent, child, at, policy, universe.plane().now_ns()).await?;
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
    Of { universe, world, .. }: Of<E, ADMIN>,
    Form(new): Form<NewManifest>,
) -> Result<Response, Problem> {
    let manifest = manifest_of(&universe, new.program.as_deref(), new.manifest.as_deref()).await?;
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
