//! Input of worlds, and their replies.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    delivery::{Delivered, Forward, local::Awaits},
    manifests::{load_manifest, newest_manifest},
    objects::{AtHand, with_objects},
    trace::TraceContext,
};
use futures_util::future::{BoxFuture, Either, select};
use mundi_kernel::{
    lease_kernel::command::COMMAND,
    manifest::{CheckError, CompiledManifest},
};
use mundi_model::{
    CallId, Hash, UniverseId, WorldId,
    record::{InboxItem, Input, Payload, ReplyOutcome},
};
use mundi_store::{
    StoreError,
    protocol::{Enqueued, NewItem, UpgradeWaits},
};
use std::{convert::Infallible, pin::pin, time::Duration};

/// A call that was delivered.
#[derive(Debug)]
pub struct BegunCall {
    /// Under this the reply is found.
    pub call: CallId,
    /// If it is there already.
    pub reply: Option<ReplyOutcome>,
    /// A world of this process took it.
    is_taken_here: bool,
}

impl From<Delivered> for BegunCall {
    fn from(Delivered { seq, reply, is_taken_here, .. }: Delivered) -> Self {
        let (replied_at, reply) = reply.unzip();
        Self { call: CallId { seq, replied_at }, reply, is_taken_here }
    }
}

/// How much later than its time a call ends whose wait for a reply did not end by itself: the error of that one names the call.
const DEADLINE_GRACE: Duration = Duration::from_millis(100);

/// A call, and how it may be answered.
pub struct CallRequest<'a, F> {
    pub item: InboxItem,
    pub idempotency_key: Option<&'a str>,
    /// For all that it takes.
    pub timeout: Duration,
    /// Refuse an event that the world's manifest does not take before it is delivered. The world checks again.
    pub is_checked: bool,
    /// The way to the process that holds the world, if there may be another one.
    pub forward: Option<&'a F>,
}

/// The answer to a call.
#[derive(Debug)]
pub enum CallAnswer<A> {
    Replied {
        call: CallId,
        outcome: ReplyOutcome,
    },
    /// Of the process that holds the world.
    Forwarded(A),
}

/// An event, and the way to its world.
pub struct SendRequest<'a, F> {
    pub item: InboxItem,
    pub idempotency_key: Option<&'a str>,
    /// As of a call.
    pub is_checked: bool,
    pub forward: Option<&'a F>,
}

/// The place of an event that was sent.
#[derive(Debug)]
pub enum SendAnswer<A> {
    Enqueued(Enqueued),
    /// Of the process that holds the world.
    Forwarded(A),
}

/// For calls that no other process answers.
pub enum NoForward {}

impl Forward for NoForward {
    type Answer = Infallible;

    async fn forward(&self, _: (UniverseId, WorldId), _: &InboxItem) -> Result<Option<Infallible>, StoreError> {
        Ok(None)
    }
}

/// Checks of the same events by one manifest after another.
struct SenderChecks<I> {
    events: I,
    /// The manifest that was asked last, and its answer.
    last: Option<(Hash, Result<(), CheckError>)>,
}

impl<'v, I: IntoIterator<Item = (&'v str, &'v [u8])> + Clone> SenderChecks<I> {
    fn by(&mut self, manifest: &CompiledManifest) -> Result<(), CheckError> {
        match &self.last {
            Some((asked, answer)) if *asked == manifest.hash => answer.clone(),
            _ => self.last.insert((manifest.hash, manifest.check_sent(self.events.clone()))).1.clone(),
        }
    }
}

impl<P: Plane> Ops<P> {
    /// Whether a world's manifest takes these events from outside, so that their sender is notified at once. The world checks again, and
    /// alone decides about those whose check takes long.
    ///
    /// Each manifest checks them once. Beyond the one that the world has in memory, a newer one counts that only the journal knows, and an upgrade
    /// that waits among the first items of the inbox. Behind so many that it is not found there, the newest manifest on record decides.
    ///
    /// No pool takes its commands this way: it trusts what they say about client and holder, and some need the verb `admin`.
    pub async fn check_events<'v>(
        &self,
        world: WorldId,
        events: impl IntoIterator<Item = (&'v str, &'v [u8])> + Clone,
    ) -> Result<(), RuntimeError> {
        if events.clone().into_iter().any(|(schema, _)| schema == COMMAND) {
            return Err(RuntimeError::PoolCommand);
        }
        let mut checks = SenderChecks { events, last: None };
        if let Some(manifest) = self.worker.as_ref().and_then(|worker| worker.manifest(world))
            && checks.by(&manifest).is_ok()
        {
            return Ok(());
        }
        let place = (self.universe, world);
        let Some(newest) = newest_manifest(&self.plane, place).await? else { return Ok(()) };
        if checks.by(&newest).is_ok() {
            return Ok(());
        }
        // The inbox may be long: it is read only for events that are refused otherwise.
        if self.plane.run(&UpgradeWaits { universe: self.universe, world }).await?.output {
            return Ok(());
        }
        // An upgrade that was taken in meanwhile is on record now.
        match newest_manifest(&self.plane, place).await? {
            Some(newest) => Ok(checks.by(&newest)?),
            None => Ok(()),
        }
    }

    /// Whether a stored manifest can be used: it and its schemas are there and compile, and its program can be run. One
    /// that must be prepared first is waited for.
    pub async fn check_manifest(&self, manifest: Hash) -> Result<(), RuntimeError> {
        let nobody = WorldId::from_bytes([0; 16]);
        let compiled = load_manifest(&self.plane, (self.universe, nobody), manifest).await?;
        let load = |objects: &AtHand| self.plane.registry().program(objects, &compiled.manifest);
        with_objects(&self.plane, (self.universe, nobody), &mut AtHand::default(), load).await.map(drop)
    }

    /// Delivers an event or a command; under the same key at most once. It is durable when this returns.
    pub async fn enqueue_ingress(
        &self,
        world: WorldId,
        mut item: InboxItem,
        idempotency_key: Option<&str>,
    ) -> Result<Enqueued, RuntimeError> {
        self.trace(&mut item);
        let to = (self.universe, world);
        let Delivered { seq, before, .. } = self.delivery().deliver(to, item, idempotency_key, Awaits::Record).await?;
        Ok(Enqueued { seq, before })
    }

    /// Sends an event from outside to its world, in whichever process that runs. It is durable when this returns.
    pub async fn send_event<F: Forward>(
        &self,
        world: WorldId,
        SendRequest { item, idempotency_key, is_checked, forward }: SendRequest<'_, F>,
    ) -> Result<SendAnswer<F::Answer>, RuntimeError> {
        if let Some(answer) = self.forwarded(world, (&item, idempotency_key), forward).await? {
            return Ok(SendAnswer::Forwarded(answer)); // its holder checks the event by the manifest that it has in memory
        }
        if is_checked && let Input::Event { schema, value: Payload::Inline(value), .. } = &item.input {
            self.check_events(world, [(schema.as_str(), value.as_slice())]).await?;
        }
        self.enqueue_ingress(world, item, idempotency_key).await.map(SendAnswer::Enqueued)
    }

    /// The answer of the process that holds the world, if that is another one; `None` if surely no process has taken the item.
    async fn forwarded<F: Forward>(
        &self,
        world: WorldId,
        (item, idempotency_key): (&InboxItem, Option<&str>),
        forward: Option<&F>,
    ) -> Result<Option<F::Answer>, RuntimeError> {
        let Some(forward) = forward else { return Ok(None) };
        Ok(Box::pin(self.delivery().forward((self.universe, world), item, idempotency_key, forward)).await?)
    }

    /// Delivers items together and in their order.
    pub async fn enqueue_batch(&self, world: WorldId, mut items: Vec<NewItem>) -> Result<Vec<Enqueued>, RuntimeError> {
        items.iter_mut().for_each(|new| self.trace(&mut new.item));
        let delivery = self.delivery();
        // Boxed: those who call this have futures within futures enough.
        let placed: BoxFuture<'_, _> = Box::pin(delivery.batch((self.universe, world), items));
        Ok(placed.await?)
    }

    /// If anyone listens, an item that belongs to no trace begins one.
    fn trace(&self, item: &mut InboxItem) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let root = || TraceContext::root(self.plane.random()).to_string();
            let trace = item.origin.trace.get_or_insert_with(root);
            tracing::debug!(trace, "ingress");
        }
    }

    /// Sends an event and waits for the reply. On a timeout, [`Self::reply`] finds it under the place in the error.
    pub async fn call(
        &self,
        world: WorldId,
        item: InboxItem,
        idempotency_key: Option<&str>,
        timeout: Duration,
    ) -> Result<ReplyOutcome, RuntimeError> {
        let forward: Option<&NoForward> = None;
        let request = CallRequest { item, idempotency_key, timeout, is_checked: false, forward };
        match self.answer_call(world, request).await? {
            CallAnswer::Replied { outcome, .. } => Ok(outcome),
            CallAnswer::Forwarded(never) => match never {},
        }
    }

    /// The answer to a call, of whichever process holds the world, within its time: also while the engine does not answer.
    pub async fn answer_call<F: Forward>(
        &self,
        world: WorldId,
        request: CallRequest<'_, F>,
    ) -> Result<CallAnswer<F::Answer>, RuntimeError> {
        let timeout = request.timeout;
        let late = self.plane.clock().sleep(timeout.saturating_add(DEADLINE_GRACE));
        match select(pin!(self.unbounded_answer(world, request)), late).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                let waited_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                Err(RuntimeError::CallUnanswered { world, waited_ms })
            }
        }
    }

    async fn unbounded_answer<F: Forward>(
        &self,
        world: WorldId,
        CallRequest { mut item, idempotency_key, timeout, is_checked, forward }: CallRequest<'_, F>,
    ) -> Result<CallAnswer<F::Answer>, RuntimeError> {
        let (began_ns, to) = (self.plane.now_ns(), (self.universe, world));
        if let Some(answer) = self.forwarded(world, (&item, idempotency_key), forward).await? {
            return Ok(CallAnswer::Forwarded(answer));
        }
        if is_checked && let Input::Event { schema, value: Payload::Inline(value), .. } = &item.input {
            self.check_events(world, [(schema.as_str(), value.as_slice())]).await?;
        }
        item.origin.wants_reply = true;
        self.trace(&mut item);
        let begun = BegunCall::from(self.delivery().deliver(to, item, idempotency_key, Awaits::Reply).await?);
        let call = begun.call;
        let outcome = match begun {
            BegunCall { reply: Some(outcome), .. } => outcome,
            begun => {
                let spent = Duration::from_nanos(self.plane.now_ns().saturating_sub(began_ns));
                self.finish_call(world, begun, timeout.saturating_sub(spent)).await?
            }
        };
        Ok(CallAnswer::Replied { call, outcome })
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

    /// Delivers a call.
    pub async fn begin_call(
        &self,
        world: WorldId,
        mut item: InboxItem,
        idempotency_key: Option<&str>,
    ) -> Result<BegunCall, RuntimeError> {
        self.trace(&mut item);
        let to = (self.universe, world);
        Ok(self.delivery().deliver(to, item, idempotency_key, Awaits::Reply).await?.into())
    }

    /// The reply to a call that was made before.
    pub async fn reply(&self, world: WorldId, call: CallId, timeout: Duration) -> Result<ReplyOutcome, RuntimeError> {
        Box::pin(self.calls.reply(&self.plane, self.universe, (world, call), false, timeout)).await
    }
}
