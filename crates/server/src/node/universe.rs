//! A universe that this node serves.

use super::{
    Answered, Delayed, FORWARDED_TO, Node, NodeError, NodePlane,
    budgets::UniverseBudgets,
    forward::{ForwardedCall, ForwardedVerb, Forwarder},
    program_names::BuiltIn,
    roles::Roles,
    world_names::WorldNames,
};
use crate::quotas::UniverseQuotas;
use axum::http::{HeaderMap, HeaderValue, header};
use mundi_kernel::{loader::UniverseShare, manifest::Manifest};
use mundi_model::{
    Hash, UniverseId, Value, WorldId, cbor,
    record::{InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_runtime::{
    Plane, RuntimeError,
    calls::Calls,
    control::{CallAnswer, CallRequest, Ops, SendAnswer, SendRequest},
    lifecycle::register_trusted,
};
use mundi_store::{
    blob::Blobs,
    protocol::{Enqueued, GuardSchema, KeepObject, NamedVersion, index_worlds},
    values::{KeptKind, SchemaVersion},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, atomic::AtomicU64},
    time::Duration,
};
use url::Url;

/// How long a call waits for its reply unless it says so itself.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The headers by which [`Universe::call`] asks another process.
static ACCEPT_CBOR: LazyLock<HeaderMap> =
    LazyLock::new(|| HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/cbor"))]));

pub struct Universe {
    name: String,
    id: UniverseId,
    plane: NodePlane,
    ops: Ops<NodePlane>,
    /// The manifests of the programs that come with the node, by name.
    manifests: BTreeMap<String, Hash>,
    /// The programs that come with the node, all versions of them.
    pub(super) built_in: Vec<BuiltIn>,
    roles: Roles<NodePlane>,
    forwarder: Option<Arc<Forwarder>>,
    quotas: Arc<UniverseQuotas>,
    pub(super) world_names: WorldNames,
}

/// The plane of the node, for programs that share its processors as this universe does.
fn plane_of(node: &Node, name: &str, id: UniverseId, fuel: Arc<AtomicU64>) -> NodePlane {
    let plane = node.plane().clone();
    let weight = node.config().weights.get(name).copied().unwrap_or(1);
    let (blobs, runtime) = (plane.blobs.clone(), tokio::runtime::Handle::current());
    // Called by threads that compile, which belong to no runtime.
    let read = move |program| runtime.block_on(Blobs::get(&blobs, id, program)).ok().map(|code| code[..].into());
    let share = UniverseShare { universe: id, weight, source: Arc::new(read), fuel };
    let registry = Arc::new(plane.registry.for_universe(share));
    NodePlane { registry, ..plane }
}

impl Universe {
    pub(super) async fn open(node: &Node, name: &str, id: UniverseId) -> Result<Self, NodeError> {
        let quotas = node.quotas_of(name, id);
        let plane = plane_of(node, name, id, quotas.fuel_meter());
        let guard = GuardSchema { universe: id, expected: SchemaVersion::CURRENT, bootstrap: true };
        if plane.run(&GuardSchema { bootstrap: false, ..guard }).await.is_err() {
            // Of an earlier version, or new: before it is marked as one of this version, all that is found by the index is there.
            index_worlds(&plane.engine, &**plane.clock(), id).await?;
        }
        plane.run(&guard).await?;
        let (mut built_in, mut named) = (Vec::new(), Vec::new());
        for program in node.built_in() {
            let code = Blobs::put(&plane.blobs, id, program.program.clone().into(), &[]).await?;
            let manifest = Blobs::put(&plane.blobs, id, program.manifest.clone().into(), &[]).await?;
            for (hash, kind) in [(code, KeptKind::Program), (manifest, KeptKind::Manifest)] {
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
        let caps = node.config().adapters.universe_caps.clone();
        let (slots, attempts) = (roles.slots(), node.0.attempts.clone());
        let ops = ops.with_budgets(Arc::new(UniverseBudgets { quotas: quotas.clone(), caps, slots, attempts }));
        let ops = ops.with_metrics(node.shared_metrics());
        let ops = match roles.worlds() {
            Some(worker) => ops.beside(worker.clone()),
            None => ops,
        };
        let forwarder = node.0.forwarder.clone();
        Ok(Self {
            name: name.to_owned(),
            id,
            plane,
            ops,
            manifests,
            built_in: named,
            roles,
            forwarder,
            quotas,
            world_names: WorldNames::default(),
        })
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

    pub fn ops(&self) -> &Ops<NodePlane> {
        &self.ops
    }

    pub fn plane(&self) -> &NodePlane {
        &self.plane
    }

    /// The manifests of the programs that come with the node, by name; [`find_program`](Self::find_program) finds those
    /// that were given a name, too.
    pub fn manifests(&self) -> &BTreeMap<String, Hash> {
        &self.manifests
    }

    /// Its roles claim and fire nothing more.
    pub(crate) fn begin_drain(&self) {
        self.roles.begin_drain();
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

    /// The address of the process that holds the world, if another one does and clients may know. A process alone knows no other.
    pub(crate) async fn address_of_holder(&self, world: WorldId) -> Option<Url> {
        let forwarder = self.forwarder.as_deref().filter(|_| !self.holds(world))?;
        Box::pin(forwarder.address_of_holder(self.id, world)).await
    }

    /// How old the inbox of a world is that this process holds, as far as it knows; `None` if it does not hold it.
    pub(crate) fn inbox_age_ns(&self, world: WorldId) -> Option<u64> {
        let worlds = self.roles.worlds().filter(|worlds| worlds.holds(world))?;
        Some(worlds.inbox_age_ns(world))
    }

    /// Answers a call, in this process or by the one that holds the world. A call that was forwarded to this process is not forwarded
    /// again.
    pub(crate) async fn answer_call(
        &self,
        world: WorldId,
        (item, idempotency_key): (InboxItem, Option<&str>),
        headers: &HeaderMap,
        timeout: Duration,
        is_checked: bool,
    ) -> Result<CallAnswer<Answered>, RuntimeError> {
        let forwarder = self.forwarder.as_deref().filter(|_| !headers.contains_key(FORWARDED_TO));
        let verb = ForwardedVerb::Call;
        let forward = forwarder.map(|forwarder| ForwardedCall { forwarder, verb, headers, timeout });
        let request = CallRequest { item, idempotency_key, timeout, is_checked, forward: forward.as_ref() };
        self.ops.answer_call(world, request).await
    }

    /// Sends an event to its world, in this process or in the one that holds it. An event that was forwarded to this process is not
    /// forwarded again.
    pub(crate) async fn send_event(
        &self,
        world: WorldId,
        (item, idempotency_key): (InboxItem, Option<&str>),
        headers: &HeaderMap,
        is_checked: bool,
    ) -> Result<SendAnswer<Answered>, RuntimeError> {
        let forwarder = self.forwarder.as_deref().filter(|_| !headers.contains_key(FORWARDED_TO));
        let (verb, timeout) = (ForwardedVerb::Send, CALL_TIMEOUT);
        let forward = forwarder.map(|forwarder| ForwardedCall { forwarder, verb, headers, timeout });
        let request = SendRequest { item, idempotency_key, is_checked, forward: forward.as_ref() };
        self.ops.send_event(world, request).await
    }

    /// Keeps a program or manifest until it is deleted, whether a world runs it or not.
    pub(crate) async fn keep(&self, hash: Hash, kind: KeptKind) -> Result<(), NodeError> {
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
        let item = self.event(event, &value);
        match self.send_event(world, (item, None), &HeaderMap::new(), false).await? {
            SendAnswer::Enqueued(enqueued) => Ok(enqueued),
            SendAnswer::Forwarded(answered) => answered.enqueued(),
        }
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
        let item = self.event(event, &value);
        match self.answer_call(world, (item, None), &ACCEPT_CBOR, CALL_TIMEOUT, false).await? {
            CallAnswer::Replied { outcome: ReplyOutcome::Ok(payload), .. } => self.value(payload).await,
            CallAnswer::Replied { outcome: ReplyOutcome::Failed(code, reason, _), .. } => {
                Err(NodeError::CallFailed { code, reason })
            }
            CallAnswer::Forwarded(Answered { status, body, .. }) if status.is_success() => {
                self.value(Payload::Inline(body.to_vec())).await
            }
            CallAnswer::Forwarded(answered) => Err(answered.problem()),
        }
    }

    /// The value in a payload.
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
