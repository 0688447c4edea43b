//! A universe that this node serves.

use super::{
    Answered, Asked, Delayed, Node, NodeError, NodePlane, forward::HandOn, program_names::BuiltIn, roles::Roles,
};
use crate::quotas::UniverseQuotas;
use axum::http::{HeaderMap, HeaderValue, header};
use mundi_engine::Engine;
use mundi_kernel::{loader::UniverseShare, manifest::Manifest};
use mundi_model::{
    Hash, UniverseId, Value, WorldId, cbor,
    record::{InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_runtime::{
    Plane,
    calls::Calls,
    lifecycle::{register_trusted, register_used},
    ops::Ops,
};
use mundi_store::{
    blob::Blobs,
    keyspace::{kept_object::Kind, schema_version::SchemaVersion},
    protocol::{Enqueued, GuardSchema, KeepObject, NamedVersion, ReadSchema},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

/// How long [`Universe::call`] waits for its reply.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Universe<E: Engine> {
    name: String,
    id: UniverseId,
    plane: NodePlane<E>,
    ops: Ops<NodePlane<E>>,
    /// The manifests of the programs that come with the node, by name.
    manifests: BTreeMap<String, Hash>,
    /// The programs that come with the node, all versions of them.
    pub(super) built_in: Vec<BuiltIn>,
    roles: Roles<NodePlane<E>>,
    hand_on: Option<Arc<HandOn<E>>>,
    quotas: Arc<UniverseQuotas>,
}

/// What the node has, with programs that share its processors as this universe does.
fn plane_of<E: Engine>(node: &Node<E>, name: &str, id: UniverseId, fuel: Arc<AtomicU64>) -> NodePlane<E> {
    let plane = node.plane().clone();
    let weight = node.config().weights.get(name).copied().unwrap_or(1);
    let (blobs, runtime) = (plane.blobs.clone(), tokio::runtime::Handle::current());
    // Called by threads that compile, which belong to no runtime.
    let read = move |program| runtime.block_on(Blobs::get(&blobs, id, program)).ok().map(|code| code[..].into());
    let share = UniverseShare { universe: id, weight, source: Arc::new(read), fuel };
    let registry = Arc::new(plane.registry.for_universe(share));
    NodePlane { registry, ..plane }
}

/// Whether a universe was last written by a version that registered nothing.
async fn is_before_registration<E: Engine>(plane: &NodePlane<E>, universe: UniverseId) -> Result<bool, NodeError> {
    let found = plane.run(&ReadSchema { universe }).await?.output;
    Ok(found.is_some_and(|found| (found.major, found.minor) < (1, 4)))
}

impl<E: Engine> Universe<E> {
    pub(super) async fn open(node: &Node<E>, name: &str, id: UniverseId) -> Result<Self, NodeError> {
        let quotas = node.quotas_of(name, id);
        let plane = plane_of(node, name, id, quotas.fuel_meter());
        if is_before_registration(&plane, id).await? {
            let manifests = register_used(&plane, id).await?;
            tracing::info!(universe = name, manifests, "registered what worlds run on");
        }
        let guard = GuardSchema { universe: id, expected: SchemaVersion::CURRENT, bootstrap: true };
        plane.run(&guard).await?;
        let (mut built_in, mut named) = (Vec::new(), Vec::new());
        for program in node.built_in() {
            let code = Blobs::put(&plane.blobs, id, program.program.clone().into(), &[]).await?;
            let manifest = Blobs::put(&plane.blobs, id, program.manifest.clone().into(), &[]).await?;
            for (hash, kind) in [(code, Kind::Program), (manifest, Kind::Manifest)] {
                plane.run(&KeepObject { universe: id, hash, kind, now_ns: plane.now_ns() }).await?;
            }
            built_in.push(manifest);
            let version = NamedVersion { version: program.version, manifest, program: code, at_ns: 0 };
            let is_newest = node.programs().get(&program.name).is_some_and(|newest| newest == program);
            named.push(BuiltIn { name: program.name.clone(), version, is_newest });
        }
        register_trusted(&plane, id, &built_in).await?;
        let manifests = node.programs().iter().map(|(name, program)| (name.clone(), program.manifest_hash())).collect();
        let calls = Calls::default();
        quotas.follow(&plane).await?;
        let roles = Roles::start(node, plane.clone(), name, quotas.clone(), calls.clone()).await?;
        let ops = Ops::new(plane.clone(), id, calls).with_dedupe_window_ns(node.config().dedupe_window_ns());
        let ops = match roles.worlds() {
            Some(worker) => ops.beside(worker.clone()),
            None => ops,
        };
        let hand_on = node.0.hand_on.clone();
        Ok(Self { name: name.to_owned(), id, plane, ops, manifests, built_in: named, roles, hand_on, quotas })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> UniverseId {
        self.id
    }

    pub(crate) fn quotas(&self) -> &Arc<UniverseQuotas> {
        &self.quotas
    }

    pub fn ops(&self) -> &Ops<NodePlane<E>> {
        &self.ops
    }

    pub fn plane(&self) -> &NodePlane<E> {
        &self.plane
    }

    /// The manifests of the programs that come with the node, by name; [`find_program`](Self::find_program) finds those
    /// that were given a name, too.
    pub fn manifests(&self) -> &BTreeMap<String, Hash> {
        &self.manifests
    }

    pub(crate) async fn drain(&self) {
        self.roles.drain().await;
    }

    pub(super) fn advertise(&self, address: &str) {
        if let Some(worlds) = self.roles.worlds() {
            worlds.set_address(address.to_owned());
        }
    }

    /// Whether a world is held by this process, as far as it knows.
    pub(crate) fn holds(&self, world: WorldId) -> bool {
        self.roles.worlds().is_some_and(|worlds| worlds.holds(world))
    }

    /// How old the inbox of a world is that this process holds, as far as it knows; `None` if it does not hold it.
    pub(crate) fn inbox_age_ns(&self, world: WorldId) -> Option<u64> {
        let worlds = self.roles.worlds().filter(|worlds| worlds.holds(world))?;
        Some(worlds.inbox_age_ns(world))
    }

    /// The answer of another process, if that holds the world and can be asked; else the request is this one's.
    pub(crate) async fn hand_on(&self, world: WorldId, asked: &Asked<'_>) -> Result<Option<Answered>, NodeError> {
        match &self.hand_on {
            Some(hand_on) if !self.holds(world) => Ok(Box::pin(hand_on.ask(self.id, world, asked)).await?),
            _ => Ok(None),
        }
    }

    /// The same for who has no request of its own.
    async fn ask(&self, world: WorldId, event: &str, value: &Value) -> Result<Option<Value>, NodeError> {
        if self.hand_on.is_none() || self.holds(world) {
            return Ok(None);
        }
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/cbor"))]);
        let asked = Asked { event, cbor: &cbor::encode(value), headers: &headers, timeout: CALL_TIMEOUT };
        let Some(answered) = self.hand_on(world, &asked).await? else { return Ok(None) };
        if answered.status.is_success() {
            return self.value(Payload::Inline(answered.body.to_vec())).await.map(Some);
        }
        let told = serde_json::from_slice(&answered.body).unwrap_or(serde_json::Value::Null);
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        Err(NodeError::CallFailed { code: text("code"), reason: text("detail") })
    }

    /// Keeps a program or manifest until it is deleted, whether a world runs it or not.
    pub(crate) async fn keep(&self, hash: Hash, kind: Kind) -> Result<(), NodeError> {
        let keep = KeepObject { universe: self.id, hash, kind, now_ns: self.plane.now_ns() };
        self.plane.run(&keep).await?;
        Ok(())
    }

    /// Stores a manifest and lets worlds run on it, if its program may be run; says its hash.
    pub async fn register(&self, manifest: &Manifest) -> Result<Hash, NodeError> {
        let hash = Blobs::put(&self.plane.blobs, self.id, manifest.to_bytes().into(), &[]).await?;
        self.ops.register_manifest(hash).await?;
        Ok(hash)
    }

    /// A new world that runs a program: `todo`, the newest version, or `todo@2`.
    pub async fn create(&self, program: &str) -> Result<WorldId, NodeError> {
        let manifest = self.find_program(program).await?.manifest;
        let world = WorldId::from_bytes(self.plane.random());
        self.ops.world_create(world, manifest, self.plane.now_ns()).await?;
        Ok(world)
    }

    /// Sends an event; it is durable when this returns.
    pub async fn send(&self, world: WorldId, event: &str, value: Value) -> Result<Enqueued, NodeError> {
        Ok(self.ops.enqueue_ingress(world, self.event(event, &value), None).await?)
    }

    /// Sends an event after a while; that it will be sent is durable when this returns.
    pub async fn send_later(
        &self,
        world: WorldId,
        event: &str,
        value: Value,
        delay: Duration,
    ) -> Result<(), NodeError> {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self.plane.now_ns().saturating_add(delay_ns);
        let delayed = Delayed { world, item: self.event(event, &value), idempotency_key: None };
        Ok(delayed.send(&self.plane, self.id, due_ns, self.ops.dedupe_window_ns()).await?)
    }

    /// Sends an event and waits for the reply.
    pub async fn call(&self, world: WorldId, event: &str, value: Value) -> Result<Value, NodeError> {
        if let Some(reply) = self.ask(world, event, &value).await? {
            return Ok(reply);
        }
        match self.ops.call(world, self.event(event, &value), None, CALL_TIMEOUT).await? {
            ReplyOutcome::Ok(payload) => self.value(payload).await,
            ReplyOutcome::Failed(code, reason, _) => Err(NodeError::CallFailed { code, reason }),
        }
    }

    /// What a payload holds.
    pub async fn value(&self, payload: Payload) -> Result<Value, NodeError> {
        let unreadable = |error: cbor::CborError| NodeError::ReplyUnreadable(error.to_string());
        match payload {
            Payload::Inline(bytes) => cbor::decode(&bytes).map_err(unreadable),
            Payload::Blob(hash, _) => {
                cbor::decode(&Blobs::get(&self.plane.blobs, self.id, hash).await?).map_err(unreadable)
            }
        }
    }

    fn event(&self, event: &str, value: &Value) -> InboxItem {
        let enqueued_at_ns = self.plane.now_ns();
        let origin = Origin::new(enqueued_at_ns);
        let value = Payload::Inline(cbor::encode(value));
        InboxItem { input: Input::Event { schema: event.to_owned(), value, key: None }, origin }
    }
}
