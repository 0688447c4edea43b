//! What goes into a world, and the replies that come out.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    direct::{Sender, Taken},
    holder::{Holder, tell},
    manifests::{load_manifest, newest_manifest},
    objects::{AtHand, with_objects},
    trace::TraceContext,
};
use futures_util::future::BoxFuture;
use mundi_kernel::manifest::CompiledManifest;
use mundi_model::{
    CallId, Hash, WorldId, limits,
    record::{InboxItem, Input, Payload, ReplyOutcome},
};
use mundi_store::{
    StoreError,
    keyspace::inbox_dedupe::DedupeId,
    protocol::{Enqueued, InboxError, NewItem, UpgradeWaits, enqueue_told},
};
use std::{sync::Arc, time::Duration};

/// A call that was made.
#[derive(Debug)]
pub struct BegunCall {
    /// Under this the reply is found.
    pub call: CallId,
    /// If it is there already.
    pub reply: Option<ReplyOutcome>,
    /// The world took it in this process.
    is_taken_here: bool,
}

impl<P: Plane> Ops<P> {
    /// Whether a world's manifest takes these events, so that their sender hears of it at once. The world checks again.
    pub async fn check_events<'v>(
        &self,
        world: WorldId,
        events: impl IntoIterator<Item = (&'v str, &'v [u8])> + Clone,
    ) -> Result<(), RuntimeError> {
        let check = |manifest: &CompiledManifest| manifest.check_events(events.clone());
        // What is right by the world itself is right; what is not may be by a newer manifest, of which only the journal knows.
        if self.worker.as_ref().and_then(|worker| worker.manifest(world)).is_some_and(|it| check(&it).is_ok()) {
            return Ok(());
        }
        let place = (self.universe, world);
        let allows =
            async || Ok::<_, RuntimeError>(newest_manifest(&self.plane, place).await?.map_or(Ok(()), |it| check(&it)));
        // The inbox may be long: it is looked into only for what is refused otherwise.
        if allows().await?.is_ok() || self.plane.run(&UpgradeWaits { universe: self.universe, world }).await?.output {
            return Ok(());
        }
        Ok(allows().await??) // an upgrade that was taken in meanwhile is on record now
    }

    /// Whether a stored manifest can be used: it and its schemas are there and compile, and its program can be run. One
    /// that must be prepared first is waited for.
    pub async fn check_manifest(&self, manifest: Hash) -> Result<(), RuntimeError> {
        let nobody = WorldId::from_bytes([0; 16]);
        let compiled = load_manifest(&self.plane, (self.universe, nobody), manifest).await?;
        let load = |objects: &AtHand| self.plane.registry().program(objects, &compiled.manifest);
        with_objects(&self.plane, (self.universe, nobody), &mut AtHand::default(), load).await.map(drop)
    }

    /// Puts an item into a world's inbox, or before the world itself; under the same key at most once.
    pub async fn enqueue_ingress(
        &self,
        world: WorldId,
        item: InboxItem,
        idempotency_key: Option<&str>,
    ) -> Result<Enqueued, RuntimeError> {
        let Taken { seq, .. } = match self.hand(world, item, idempotency_key, Sender::Event).await? {
            Ok(taken) => taken,
            Err(item) => return Box::pin(self.enqueue_one(world, item, idempotency_key)).await,
        };
        Ok(Enqueued { seq, before: false })
    }

    /// Hands an item to the world itself, if it runs here or may, and waits until it is on record. Gives the item back if it
    /// must go through the inbox: because others must find it there (a key), or because no turn took it.
    async fn hand(
        &self,
        world: WorldId,
        mut item: InboxItem,
        idempotency_key: Option<&str>,
        from: Sender,
    ) -> Result<Result<Taken, InboxItem>, RuntimeError> {
        let Some(worker) = self.worker.as_ref().filter(|_| idempotency_key.is_none() && is_small_event(&item)) else {
            return Ok(Err(item));
        };
        self.trace(&mut item);
        let item = Arc::new(item);
        // Who calls waits for the step anyway. Who only sends waits for no world that must be opened first: the inbox is durable sooner.
        let taken = match from {
            Sender::Call => worker.hand_or_open(world, &item, from).await,
            Sender::Event | Sender::Receipt(_) => worker.hand(world, &item, from).await,
        };
        let taken = taken.map_err(StoreError::Commit)?;
        Ok(taken.ok_or_else(|| Arc::unwrap_or_clone(item)))
    }

    async fn enqueue_one(
        &self,
        world: WorldId,
        item: InboxItem,
        idempotency_key: Option<&str>,
    ) -> Result<Enqueued, RuntimeError> {
        let new = NewItem { item, dedupe: idempotency_key.map(DedupeId::idempotency_key) };
        let placed = self.enqueue_batch(world, vec![new]).await?;
        placed.into_iter().next().ok_or_else(|| {
            let (items, max) = (0, limits::INBOX_BATCH_ITEMS_MAX);
            InboxError::BatchInvalid { items, max }.into()
        })
    }

    /// If anyone listens, an item that belongs to no trace begins one.
    fn trace(&self, item: &mut InboxItem) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let root = || TraceContext::root(self.plane.random()).to_string();
            let trace = item.origin.trace.get_or_insert_with(root);
            tracing::debug!(trace, "ingress");
        }
    }

    /// Puts items into a world's inbox, together and in their order.
    #[tracing::instrument(skip_all, fields(%world, items = items.len()))]
    pub async fn enqueue_batch(&self, world: WorldId, mut items: Vec<NewItem>) -> Result<Vec<Enqueued>, RuntimeError> {
        items.iter_mut().for_each(|new| self.trace(&mut new.item));
        let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
        let (universe, window_ns) = (self.universe, self.dedupe_window_ns);
        let holder = self.worker.as_ref().map(|worker| worker as &dyn Holder);
        let send = async |told| enqueue_told(told, engine, clock, blobs, universe, world, items, window_ns).await;
        // As an object: who calls this has futures within futures enough.
        let placed: BoxFuture<'_, _> = Box::pin(tell(holder, (universe, world), send));
        Ok(placed.await?)
    }

    /// Sends an event and waits for the reply. On a timeout, [`Self::reply`] finds it under the place in the error.
    pub async fn call(
        &self,
        world: WorldId,
        mut item: InboxItem,
        idempotency_key: Option<&str>,
        timeout: Duration,
    ) -> Result<ReplyOutcome, RuntimeError> {
        item.origin.wants_reply = true;
        let begun = self.begin_call(world, item, idempotency_key).await?;
        self.finish_call(world, begun, timeout).await
    }

    /// The reply to a call that was just made.
    pub async fn finish_call(
        &self,
        world: WorldId,
        BegunCall { call, reply, is_taken_here }: BegunCall,
        timeout: Duration,
    ) -> Result<ReplyOutcome, RuntimeError> {
        let Self { plane, universe, calls, .. } = self;
        match reply {
            Some(reply) => Ok(reply),
            None => Box::pin(calls.reply(plane, *universe, (world, call), is_taken_here, timeout)).await,
        }
    }

    /// Makes a call.
    pub async fn begin_call(
        &self,
        world: WorldId,
        item: InboxItem,
        idempotency_key: Option<&str>,
    ) -> Result<BegunCall, RuntimeError> {
        match self.hand(world, item, idempotency_key, Sender::Call).await? {
            Ok(Taken { seq, reply }) => {
                let (replied_at, reply) = reply.unzip();
                Ok(BegunCall { call: CallId { seq, replied_at }, reply, is_taken_here: true })
            }
            Err(item) => {
                let call = Box::pin(self.enqueue_one(world, item, idempotency_key)).await?.seq.into();
                Ok(BegunCall { call, reply: None, is_taken_here: false })
            }
        }
    }

    /// The reply to a call that was made before.
    pub async fn reply(&self, world: WorldId, call: CallId, timeout: Duration) -> Result<ReplyOutcome, RuntimeError> {
        Box::pin(self.calls.reply(&self.plane, self.universe, (world, call), false, timeout)).await
    }
}

/// Whether it is an event that a turn can take as it is: commands have a way of their own past a pause, and what is large
/// goes to the content store first.
fn is_small_event(item: &InboxItem) -> bool {
    let fits = |value: &Payload| match value {
        Payload::Inline(bytes) => bytes.len() <= limits::PAYLOAD_INLINE_BYTES_MAX,
        Payload::Blob(..) => true,
    };
    matches!(&item.input, Input::Event { value, .. } if fits(value))
}
