//! A universe that this node serves.

use super::{Delayed, Node, NodeError, NodePlane, roles::Roles};
use mundi_engine::Engine;
use mundi_model::{
    Hash, UniverseId, Value, WorldId, cbor,
    record::{InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_runtime::{Plane, calls::Calls, ops::Ops};
use mundi_store::{
    blob::Blobs,
    keyspace::schema_version::SchemaVersion,
    protocol::{Enqueued, GuardSchema},
};
use std::{collections::BTreeMap, time::Duration};

/// How long [`Universe::call`] waits for its reply.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Universe<E: Engine> {
    name: String,
    id: UniverseId,
    plane: NodePlane<E>,
    ops: Ops<NodePlane<E>>,
    /// The manifests that have a name.
    manifests: BTreeMap<String, Hash>,
    roles: Roles<NodePlane<E>>,
}

impl<E: Engine> Universe<E> {
    pub(super) async fn open(node: &Node<E>, name: &str, id: UniverseId) -> Result<Self, NodeError> {
        let plane = node.plane().clone();
        let guard = GuardSchema { universe: id, expected: SchemaVersion::CURRENT, bootstrap: true };
        plane.run(&guard).await?;
        let mut manifests = BTreeMap::new();
        for (name, program) in node.programs() {
            Blobs::put(&plane.blobs, id, program.program.clone().into(), &[]).await?;
            let manifest = Blobs::put(&plane.blobs, id, program.manifest.clone().into(), &[]).await?;
            manifests.insert(name.clone(), manifest);
        }
        let calls = Calls::default();
        let roles = Roles::start(node, id, calls.clone()).await?;
        let ops = Ops::new(plane.clone(), id, calls);
        let ops = match roles.worlds() {
            Some(worker) => ops.beside(worker.clone()),
            None => ops,
        };
        Ok(Self { name: name.to_owned(), id, plane, ops, manifests, roles })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> UniverseId {
        self.id
    }

    pub fn ops(&self) -> &Ops<NodePlane<E>> {
        &self.ops
    }

    pub fn plane(&self) -> &NodePlane<E> {
        &self.plane
    }

    /// The manifests that have a name here.
    pub fn manifests(&self) -> &BTreeMap<String, Hash> {
        &self.manifests
    }

    /// The world that a name of someone's choosing stands for. Names are not kept: they are another way to write an id.
    pub fn named_world(&self, name: &str) -> WorldId {
        let hash = Hash::of_parts([b"mundi.world.1\0", &self.id.as_bytes()[..], name.as_bytes()]);
        let mut id = [0; WorldId::LEN];
        id.copy_from_slice(&hash.as_bytes()[..WorldId::LEN]);
        WorldId::from_bytes(id)
    }

    pub(crate) async fn drain(&self) {
        self.roles.drain().await;
    }

    /// A new world that runs the program of this name.
    pub async fn create(&self, program: &str) -> Result<WorldId, NodeError> {
        let manifest = self.manifests.get(program).ok_or_else(|| NodeError::ProgramUnknown(program.to_owned()))?;
        let world = WorldId::from_bytes(self.plane.random());
        self.ops.world_create(world, *manifest, self.plane.now_ns()).await?;
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
        Ok(delayed.send(&self.plane, self.id, due_ns).await?)
    }

    /// Sends an event and waits for the reply.
    pub async fn call(&self, world: WorldId, event: &str, value: Value) -> Result<Value, NodeError> {
        match self.ops.call(world, self.event(event, &value), None, CALL_TIMEOUT).await? {
            ReplyOutcome::Ok(payload) => self.value(payload).await,
            ReplyOutcome::Failed(code, reason) => Err(NodeError::CallFailed { code, reason }),
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
        let origin = Origin { enqueued_at_ns, correlation_id: None, trace: None, wants_reply: false, sender: None };
        let value = Payload::Inline(cbor::encode(value));
        InboxItem { input: Input::Event { schema: event.to_owned(), value, key: None }, origin }
    }
}
