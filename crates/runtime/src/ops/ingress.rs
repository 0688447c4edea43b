//! What goes into a world, and the replies that come out.

use super::Ops;
use crate::{Plane, RuntimeError, trace::TraceContext};
use mundi_model::{
    InboxSeq, WorldId, limits,
    record::{InboxItem, ReplyOutcome},
};
use mundi_store::{
    keyspace::inbox_dedupe::DedupeId,
    protocol::{Enqueued, InboxError, NewItem, enqueue},
};
use std::time::Duration;

impl<P: Plane> Ops<P> {
    /// Puts an item into a world's inbox; under the same key at most once.
    pub async fn enqueue_ingress(
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

    /// Puts items into a world's inbox, together and in their order. An item that belongs to no trace begins one.
    #[tracing::instrument(skip_all, fields(%world, items = items.len()))]
    pub async fn enqueue_batch(&self, world: WorldId, mut items: Vec<NewItem>) -> Result<Vec<Enqueued>, RuntimeError> {
        for NewItem { item: InboxItem { origin, .. }, .. } in &mut items {
            let trace = origin.trace.get_or_insert_with(|| TraceContext::root(self.plane.random()).to_string());
            tracing::debug!(trace, "ingress");
        }
        let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
        Ok(enqueue(engine, clock, blobs, self.universe, world, items, limits::DEDUPE_WINDOW_NS).await?)
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
        let placed = self.enqueue_ingress(world, item, idempotency_key).await?;
        self.reply(world, placed.seq, timeout).await
    }

    /// The reply to a call that was made before.
    pub async fn reply(&self, world: WorldId, call: InboxSeq, timeout: Duration) -> Result<ReplyOutcome, RuntimeError> {
        self.calls.reply(&self.plane, self.universe, world, call, timeout).await
    }
}
