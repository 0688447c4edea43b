//! Worlds: create, list, describe.

use super::{
    Api, ListPage, PageParams, Problem,
    extract::{JsonBody, Params, READ, SEND, UniverseScope, WorldScope, address_of, world_of},
    json::Snapshot,
    labels,
    moment::Moment,
    naming::{NamesWorld, names_world, with_name, with_names},
    world_filters::WorldFilters,
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
use mundi_model::{Code, Coded, Hash, Height, LabelChange, Labels, WorldAddress, WorldId};
use mundi_runtime::{
    Plane,
    lifecycle::{Beginning, ForkPolicy, Naming},
};
use mundi_store::{
    protocol::{HeldLease, WorldCreated, WorldSummary},
    values::{Hold, Lineage, ListedState, WorldFailure, WorldMeta},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

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
    /// The name of its program, if it has one: `todo@2`, or the name alone of a program that comes with the server.
    program: Option<String>,
    /// Why no worker runs it, until it is retried, skipped, resumed or upgraded.
    hold: Option<HoldOf>,
    /// Steps that failed since it was last upgraded, resumed, retried or skipped.
    failures: u64,
    /// The newest of them.
    failed: Option<FailedOf>,
    /// The policy for the effects of a fork, or of a world that was imported.
    effects: Option<String>,
    /// Its labels, by which people find it.
    labels: BTreeMap<String, String>,
    /// The next height.
    head: Option<u64>,
    /// When a worker last opened or released it; 0 or null if none did.
    active_at_ns: Option<u64>,
    active_at: Option<Moment>,
    /// The cause that it waits for, in a few words: `…/why` says all about it.
    waits: Option<String>,
}

/// The name of the parent stands beside its id.
impl NamesWorld for World {
    fn world(&self) -> Option<&str> {
        self.parent.as_ref().map(|parent| &*parent.world)
    }

    fn set_name(&mut self, name: String) {
        if let Some(parent) = &mut self.parent {
            parent.world_name = Some(name);
        }
    }
}
names_world!(Parent);

/// A step that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailedOf {
    /// Of the record whose step failed, as its caller hears it; of the hold, if the manifest stops the world there.
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
    /// The record that says which step failed, or the next height of its journal, if its turns failed.
    height: u64,
    /// The input that it stands at: the first item that waits in its inbox, or the one whose step failed.
    seq: Option<String>,
    /// The input whose step failed: `event add`. Absent if its turns failed.
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
    world_name: Option<String>,
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
        Self { world: lineage.parent.to_string(), world_name: None, forked_at: lineage.forked_at.get() }
    }
}

impl World {
    fn new(world: WorldId, meta: &WorldMeta, lease: Option<HeldLease>, failure: Option<&WorldFailure>) -> Self {
        Self {
            world: world.to_string(),
            name: meta.name.clone(),
            state: meta.listed_state().as_str().to_owned(),
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
            labels: meta.labels.as_ref().map(Labels::to_map).unwrap_or_default(),
            head: None,
            active_at_ns: None,
            active_at: None,
            waits: None,
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

/// The state of a world. A live one may be paused; of a world of an older version only the journal says so. Where the journal cannot be read, because it
/// is damaged or the world is deleted meanwhile, the state is `live`, so that one world does not hide the others from a list.
async fn state_of(universe: &Universe, world: WorldId, meta: &WorldMeta) -> String {
    let listed = meta.listed_state();
    let is_paused = listed == ListedState::Live
        && meta.paused.is_none()
        && universe.ops().is_paused(world, meta).await.unwrap_or(false);
    if is_paused { ListedState::Paused } else { listed }.as_str().to_owned()
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorldDetails {
    #[serde(flatten)]
    world: World,
    /// The hash of the last record.
    chain: Option<String>,
    baseline: Option<Snapshot>,
    /// Records below it lie in segments.
    exported_to: Option<u64>,
    inbox_items: u64,
    inbox_bytes: u64,
    assigned_to: Option<String>,
    pinned: bool,
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
    /// Its labels, by which people find it.
    labels: Option<BTreeMap<String, String>>,
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
    /// Its name, if it has one.
    name: Option<String>,
    manifest: String,
    /// It was there before.
    before: bool,
}

/// Creates a world. Asked again for the same one, it answers the same.
#[utoipa::path(
    post, path = "/v1/u/{universe}/worlds", tag = "worlds", request_body = NewWorld,
    responses((status = 201, body = Created), (status = 200, description = "It was there before", body = Created)),
)]
pub(super) async fn create(
    UniverseScope { api, universe, tenant }: UniverseScope<SEND>,
    JsonBody(new): JsonBody<NewWorld>,
) -> Result<Response, Problem> {
    let address = wanted(&universe, new.world.as_deref()).await?;
    let world = universe.world_at(&address).await?;
    let labels = labels::given(new.labels.clone())?;
    if let Some(seed) = &new.seed {
        if new.program.is_some() || new.manifest.is_some() {
            return Err(Problem::invalid("a world that begins with a `seed` has the seed's manifest: give no other"));
        }
        let growth = grow(&api, &universe, tenant, world, Amounts::WORLD).await?;
        let created =
            create_from_seed(&universe, &address, seed, labels).await.map_err(|problem| named(problem, &new, world));
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
    let created =
        create_with(&universe, &address, manifest, labels).await.map_err(|problem| named(problem, &new, world));
    settle(growth, &universe, created.as_ref().is_ok_and(|before| !before)).await;
    let before = created?;
    if before {
        keep_name(&universe, &address).await?;
    }
    let status = if before { StatusCode::OK } else { StatusCode::CREATED };
    let name = universe.ops().names_of_worlds([world].into()).await?.remove(&world);
    let created = Created { world: world.to_string(), name, manifest: manifest.to_string(), before };
    Ok((status, Json(created)).into_response())
}

/// A client that addressed a world by name does not know the id that the problem names.
fn named(problem: Problem, new: &NewWorld, world: WorldId) -> Problem {
    match &new.world {
        Some(name) => problem.naming(name, world),
        None => problem,
    }
}

/// The id of a new world: derived from its name, or drawn at random without one.
pub(super) async fn wanted(universe: &Universe, name: Option<&str>) -> Result<WorldAddress, Problem> {
    let Some(name) = name else { return Ok(WorldId::from_bytes(universe.plane().random()).into()) };
    let address = address_of(name)?;
    let world = universe.world_at(&address).await?;
    // A name that an import has, or a fork that was made under an id, stands for that world.
    Ok(if world == address.world(universe.id()) { address } else { world.into() })
}

/// Stores the name of a world that was there before, perhaps without one.
pub(super) async fn keep_name(universe: &Universe, address: &WorldAddress) -> Result<(), Problem> {
    match address {
        WorldAddress::Name(name) => Ok(universe.ops().name_world(name.clone()).await?),
        WorldAddress::Id(_) => Ok(()),
    }
}

/// Room for one more world, and for what is stored with it. One that is there already needs none.
pub(super) async fn grow(
    api: &Api,
    universe: &Universe,
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

pub(super) async fn settle(growth: Growth, universe: &Universe, is_new: bool) {
    if is_new {
        growth.keep();
    } else {
        growth.give_back(universe).await;
    }
}

/// Says whether it was there before.
async fn create_with(
    universe: &Universe,
    address: &WorldAddress,
    manifest: Hash,
    labels: Option<LabelChange>,
) -> Result<bool, Problem> {
    let (world, now_ns) = (address.world(universe.id()), universe.plane().now_ns());
    match universe.ops().world_create_labelled(address.clone(), labels, manifest, now_ns).await {
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

async fn create_from_seed(
    universe: &Universe,
    address: &WorldAddress,
    seed: &Seed,
    labels: Option<LabelChange>,
) -> Result<(Response, bool), Problem> {
    let world = address.world(universe.id());
    let (of, height, now_ns) =
        (world_of(universe, &seed.world).await?, seed.height.map(Height::new), universe.plane().now_ns());
    let at = universe.ops().seed_at(of, height).await?;
    let naming = Naming { name: address.name().cloned(), labels };
    let policy = ForkPolicy::default();
    let forked =
        universe.ops().world_fork_labelled(Beginning::default(), of, world, naming, at, policy, now_ns).await?;
    let before = forked.created == WorldCreated::Before;
    let manifest = universe.ops().describe_world(world).await?.manifest.map(|manifest| manifest.to_string());
    let name = address.name().map(ToString::to_string);
    let created = Created { world: world.to_string(), name, manifest: manifest.unwrap_or_default(), before };
    let status = if before { StatusCode::OK } else { StatusCode::CREATED };
    Ok(((status, Json(created)).into_response(), before))
}

/// The manifest that a request means. A hash and a name are taken in either place: scripts pass on what an upload printed.
pub(super) async fn manifest_of(
    universe: &Universe,
    program: Option<&str>,
    manifest: Option<&str>,
) -> Result<Hash, Problem> {
    match (program, manifest) {
        (None, Some(hash)) if hash.starts_with("h_") => Ok(hash.parse()?),
        (Some(named), None) | (None, Some(named)) => Ok(universe.find_program(named).await?.manifest),
        _ => Err(Problem::invalid("give either `program` or `manifest`")),
    }
}

/// Lists the worlds that filters name. With a filter, a page may be short or empty and not be the last: only `next` says so. Filters on `parent`, `label`,
/// `program`, `name`, `state`, `sort=name` and `sort=created` are answered by an index and cost what they return; the others are checked for each world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds", tag = "worlds", params(WorldFilters, PageParams),
    responses((status = 200, body = ListPage<World>)),
)]
pub(super) async fn list(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    Params(params): Params<Vec<(String, String)>>,
) -> Result<Json<ListPage<World>>, Problem> {
    let (filters, page) = WorldFilters::of_query(params)?;
    let (query, limit) = (filters.query(&universe).await?, page.limit()?);
    let after = page.after.as_deref().map(str::parse).transpose()?;
    let page = universe.ops().find_worlds(query, after, limit).await?;
    let items = shown(&universe, page.items, true).await?;
    Ok(Json(ListPage { items, next: page.next.map(|next| next.to_string()) }))
}

/// Worlds as lists show them; `waits` says whether what each waits for is read, which is a look at its own keys.
pub(super) async fn shown(universe: &Universe, found: Vec<WorldSummary>, waits: bool) -> Result<Vec<World>, Problem> {
    let names = universe.names_of(found.iter().filter_map(|found| found.manifest).collect()).await?;
    let mut items = Vec::with_capacity(found.len());
    for found in found {
        let state = state_of(universe, found.world, &found.meta).await;
        let waits = match waits {
            true => universe.ops().waits_briefly(found.world, &found.meta, found.lease.as_ref()).await?,
            false => None,
        };
        let WorldSummary { world, meta, lease, failure, manifest, head, active_at_ns } = found;
        let world = World::new(world, &meta, lease, failure.as_ref()).running(manifest, &names);
        let active_at = active_at_ns.map(Moment::of);
        items.push(World { state, head: head.map(Height::get), active_at_ns, active_at, waits, ..world });
    }
    with_names(universe, items).await
}

/// All that is known about a world.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}", tag = "worlds", responses((status = 200, body = WorldDetails)),
)]
pub(super) async fn describe(
    WorldScope { universe, world, .. }: WorldScope<READ>,
) -> Result<Json<WorldDetails>, Problem> {
    let found = universe.ops().describe_world(world).await?;
    let waits = universe.ops().waits_briefly(world, &found.meta, found.lease.as_ref()).await?;
    let names = universe.names_of(found.manifest.into_iter().collect()).await?;
    let shown = World {
        state: state_of(&universe, world, &found.meta).await,
        head: found.head.as_ref().map(|head| head.height.get()),
        active_at_ns: found.active_at_ns,
        active_at: found.active_at_ns.map(Moment::of),
        waits,
        ..World::new(world, &found.meta, found.lease, found.failure.as_ref()).running(found.manifest, &names)
    };
    let details = WorldDetails {
        world: with_name(&universe, shown).await?,
        chain: found.head.map(|head| head.chain.to_string()),
        baseline: found.baseline.as_ref().map(Snapshot::from),
        exported_to: found.exported_to.map(Height::get),
        inbox_items: found.inbox.items,
        inbox_bytes: found.inbox.bytes,
        assigned_to: found.assignment.as_ref().and_then(|to| to.desired).map(|worker| worker.to_string()),
        pinned: found.assignment.is_some_and(|to| to.pinned),
    };
    Ok(Json(details))
}
