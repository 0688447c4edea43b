//! Delivery: how an item reaches its world. It is decided here and nowhere else; a sender only says what goes to which world.
//!
//! | item | world resident in this process | not resident, may run here | held by another process | otherwise |
//! |---|---|---|---|---|
//! | call | next turn | activated, first turn | forwarded | inbox |
//! | event | next turn | inbox, and activated | forwarded | inbox |
//! | receipt | next turn | inbox, and activated | inbox | inbox |
//! | message, call of a world, batch, command, answer of an operator | inbox, and woken | inbox, and activated | inbox | inbox |
//! | timer, delayed event | inbox | inbox | inbox | inbox |
//!
//! - "Next turn" bypasses the inbox: the item waits in memory ([`local`]) and is acknowledged once the turn that takes it is durable.
//!   That is one commit, where the inbox takes two. An item that no turn takes comes back and goes through the inbox.
//! - Only a call waits for a world that must be activated first: its sender waits for the step anyway. An event is durable sooner in the
//!   inbox.
//! - A call or an event with an idempotency key goes through the inbox, where others find the key; so does one whose payload belongs into
//!   the content store, and so does a command, which has a way of its own past a pause.
//! - A timer fires in a transaction with many others, and a delayed event in the one that takes it from its mailbox: neither can wait for a
//!   turn.
//! - An item in the inbox wakes its world: a worker of this process directly, all others through the ready queue.
//!
//! Without [`LocalWorlds`] everything goes through the inbox: that is the simple way, which tests and the simulator compare the others with.

mod delayed;
pub mod local;

pub use delayed::{Delayed, DeliverDelayed};

use crate::effects::slots::EffectSlots;
use local::{Acknowledgement, Awaits, Taken};
use mundi_engine::Engine;
use mundi_model::{
    Height, InboxSeq, UniverseId, WorldId, limits,
    record::{InboxItem, Input, Payload, ReplyOutcome},
};
use mundi_store::{
    Clock, StoreError,
    blob::Blobs,
    keyspace::inbox_dedupe::DedupeId,
    protocol::{
        Answer, AnswerEffect, AnsweredByHand, AnsweredEffect, Called, ClaimedEffect, CompleteEffect, EffectClaim,
        Enqueued, FabricMessage, FireTimers, Fired, InboxError, NewItem, Sent, WokenBy, WorldCall, answer_effect,
        call_world, complete_effect, enqueue_woken_by, fabric_send, receipt_of,
    },
    run,
};
use std::{future::Future, sync::Arc};

/// Wakes a world that is held in this process.
pub type Wake = Box<dyn FnOnce() + Send>;

/// The worlds that run, or may run, in this process.
pub trait LocalWorlds: Send + Sync {
    /// Puts an item before a world that is resident; with `may_activate` also before one that can be activated now. `None` if it cannot be.
    fn offer(
        &self,
        to: (UniverseId, WorldId),
        item: &Arc<InboxItem>,
        awaits: Awaits,
        may_activate: bool,
    ) -> Option<Acknowledgement>;

    /// How to wake the world, if it is held here as far as anyone knows.
    fn resident(&self, to: (UniverseId, WorldId)) -> Option<Wake>;

    /// Something is in the inbox of a world that is not held here: if it may run here, it is activated now.
    fn activate(&self, _to: (UniverseId, WorldId)) {}

    /// Lets effects of the worlds start in these slots.
    fn register_slots(&self, universe: UniverseId, slots: Arc<EffectSlots>);
}

/// Sends a call or an event to the process that holds its world.
pub trait Forward: Sync {
    type Answer: Send;

    /// The answer of that process; `None` if surely no process has taken the item.
    fn forward(
        &self,
        to: (UniverseId, WorldId),
        item: &InboxItem,
    ) -> impl Future<Output = Result<Option<Self::Answer>, StoreError>> + Send;
}

/// An item that is durable.
#[derive(Debug)]
pub struct Delivered {
    pub seq: InboxSeq,
    /// It was delivered before, under the same key.
    pub before: bool,
    /// The reply, if the turn that took the item gave one and its sender waits for it; and the height of its record.
    pub reply: Option<(Height, ReplyOutcome)>,
    /// A world of this process took it.
    pub is_taken_here: bool,
}

/// Delivers items to worlds. A view of what it needs; cheap to make.
#[derive(Clone, Copy)]
pub struct Delivery<'a, E, B> {
    pub engine: &'a E,
    pub clock: &'a dyn Clock,
    pub blobs: &'a B,
    pub local: Option<&'a dyn LocalWorlds>,
    /// How long an idempotency key is remembered.
    pub dedupe_window_ns: u64,
}

impl<E: Engine, B: Blobs> Delivery<'_, E, B> {
    /// Delivers an event, a command or a call; it is durable when this returns. Under the same key it is delivered at most once.
    pub async fn deliver(
        &self,
        to: (UniverseId, WorldId),
        item: InboxItem,
        key: Option<&str>,
        awaits: Awaits,
    ) -> Result<Delivered, StoreError> {
        let item = Arc::new(item);
        if let Some(local) = self.local.filter(|_| may_bypass_inbox(&item, key))
            && let Some(acknowledgement) = local.offer(to, &item, awaits, awaits == Awaits::Reply)
            && let Some(Taken { seq, reply }) = acknowledgement.taken().await?
        {
            return Ok(Delivered { seq, before: false, reply, is_taken_here: true });
        }
        let dedupe = key.map(DedupeId::idempotency_key);
        let new = NewItem { item: Arc::unwrap_or_clone(item), dedupe };
        let placed = Box::pin(self.batch(to, vec![new])).await?;
        let (items, max) = (0, limits::INBOX_BATCH_ITEMS_MAX);
        let Enqueued { seq, before } = placed.first().copied().ok_or(InboxError::BatchInvalid { items, max })?;
        Ok(Delivered { seq, before, reply: None, is_taken_here: false })
    }

    /// Lets another process answer a call or take an event, if that holds the world and this one does not.
    pub async fn forward<F: Forward>(
        &self,
        to: (UniverseId, WorldId),
        item: &InboxItem,
        key: Option<&str>,
        forward: &F,
    ) -> Result<Option<F::Answer>, StoreError> {
        let is_resident = self.local.is_some_and(|local| local.resident(to).is_some());
        if is_resident || !may_bypass_inbox(item, key) {
            return Ok(None);
        }
        forward.forward(to, item).await
    }

    /// Delivers several items, together and in their order.
    #[tracing::instrument(name = "enqueue_batch", skip_all, fields(world = %to.1, items = items.len()))]
    pub async fn batch(&self, to: (UniverseId, WorldId), items: Vec<NewItem>) -> Result<Vec<Enqueued>, StoreError> {
        let Self { engine, clock, blobs, dedupe_window_ns: window_ns, .. } = *self;
        let (universe, world) = to;
        let enqueue =
            async |woken_by| enqueue_woken_by(woken_by, engine, clock, blobs, universe, world, items, window_ns).await;
        self.through_inbox(to, enqueue).await
    }

    /// Delivers the receipt of an effect, which ends the effect.
    pub async fn receipt(&self, claimed: &ClaimedEffect, answer: Answer) -> Result<(), StoreError> {
        let to = (claimed.proof.universe, claimed.proof.world);
        if let Some(local) = self.local.filter(|_| is_inline(&answer.payload)) {
            let receipt = Arc::new(receipt_of(&claimed.item, answer.clone(), self.clock.now_ns()));
            let answered = AnsweredEffect { claim: claimed.proof, status: answer.status };
            let offered = local.offer(to, &receipt, Awaits::EffectEnd(answered), false);
            // Of unknown fate, it goes through the inbox as well: there it is recognized.
            if let Some(acknowledgement) = offered
                && matches!(acknowledgement.taken().await, Ok(Some(_)))
            {
                return Ok(());
            }
        }
        let Self { engine, clock, blobs, .. } = *self;
        let complete = async |woken_by| complete_effect(engine, clock, blobs, claimed, answer, woken_by).await;
        let completed = self.through_inbox(to, complete).await?;
        tracing::debug!(intent = %claimed.proof.intent, ?completed, "effect");
        Ok(())
    }

    /// Delivers the receipt that a worker outside of this process gives for an effect that it has claimed.
    pub async fn receipt_of_external(&self, claim: EffectClaim, answer: Answer) -> Result<(), StoreError> {
        let Self { engine, clock, .. } = *self;
        let (now_ns, dedupe_window_ns) = (clock.now_ns(), limits::DEDUPE_WINDOW_NS);
        let complete = async |woken_by| {
            run(engine, clock, &CompleteEffect { claim, answer, now_ns, dedupe_window_ns, woken_by }).await
        };
        self.through_inbox((claim.universe, claim.world), complete).await.map(drop)
    }

    /// Delivers the receipt that an operator gives in place of an adapter. How its world is woken is decided here, whatever it says.
    pub async fn answer_of_operator(&self, answer: AnswerEffect) -> Result<AnsweredByHand, StoreError> {
        let Self { engine, clock, blobs, .. } = *self;
        let to = (answer.universe, answer.world);
        let give = async |woken_by| answer_effect(engine, clock, blobs, AnswerEffect { woken_by, ..answer }).await;
        self.through_inbox(to, give).await
    }

    /// Delivers a message of another world, once for all attempts of its effect.
    pub async fn message(&self, universe: UniverseId, message: FabricMessage) -> Result<Sent, StoreError> {
        let Self { engine, clock, blobs, .. } = *self;
        let to = (universe, message.to);
        let send = async |woken_by| fabric_send(engine, clock, blobs, universe, message, woken_by).await;
        self.through_inbox(to, send).await
    }

    /// Delivers a call of another world, once for all attempts of its effect. Its reply comes with a turn of the world, as the receipt.
    pub async fn world_call(&self, universe: UniverseId, call: WorldCall) -> Result<Called, StoreError> {
        let Self { engine, clock, blobs, .. } = *self;
        let to = (universe, call.message.to);
        let make = async |woken_by| call_world(engine, clock, blobs, universe, call, woken_by).await;
        self.through_inbox(to, make).await
    }

    /// Commits something into the inbox of a world, and wakes the world, whatever came of the commit: its result may be unknown.
    async fn through_inbox<O>(&self, to: (UniverseId, WorldId), commit: impl AsyncFnOnce(WokenBy) -> O) -> O {
        let wake = self.local.and_then(|local| local.resident(to));
        let outcome = commit(if wake.is_some() { WokenBy::Sender } else { WokenBy::ReadyQueue }).await;
        match (wake, self.local) {
            (Some(wake), _) => wake(),
            (None, Some(local)) => local.activate(to),
            (None, None) => {}
        }
        outcome
    }
}

/// Fires timers that are due: they go through the inboxes of their worlds, many in one commit.
pub async fn fire_timers<E: Engine>(engine: &E, clock: &dyn Clock, fire: &FireTimers) -> Result<Fired, StoreError> {
    Ok(run(engine, clock, fire).await?.output)
}

/// Whether an item may reach its world without an entry in the inbox: an event that nobody else has to find, and that a turn can take as
/// it is.
fn may_bypass_inbox(item: &InboxItem, key: Option<&str>) -> bool {
    let fits = |value: &Payload| matches!(value, Payload::Blob(..)) || is_inline(value);
    key.is_none() && matches!(&item.input, Input::Event { value, .. } if fits(value))
}

/// Whether a payload is small enough to stay with its item.
fn is_inline(payload: &Payload) -> bool {
    matches!(payload, Payload::Inline(bytes) if bytes.len() <= limits::PAYLOAD_INLINE_BYTES_MAX)
}
