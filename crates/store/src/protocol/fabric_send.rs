//! Send to another world (seed 000, protocol F).
//!
//! Guarantees: a message is enqueued at its destination at most once within the dedupe window, however often it is sent;
//! who sends again learns where it stands. It gets its place in the one order of the destination's inbox, and says from
//! which world it came and which height that world had reached. Messages to one destination are read in the order in
//! which they were enqueued there; between destinations there is no order.
//!
//! The receipt for the sender is written by whoever completes the effect, in another transaction: a crash between the two
//! sends again, and finds the message there.
//!
//! Unknown commit: run again; the message is there, under its name.

use super::{NewItem, enqueue_told};
use crate::{Clock, StoreError, blob::Blobs, keyspace::inbox_dedupe::DedupeId};
use mundi_engine::Engine;
use mundi_model::{
    InboxSeq, IntentHash, UniverseId, WorldId, limits,
    record::{InboxItem, Input, Origin, Sender},
};

/// A message on its way.
#[derive(Debug, Clone)]
pub struct FabricMessage {
    /// Its name: the intent of the sender.
    pub id: IntentHash,
    pub from: Sender,
    pub to: WorldId,
    /// An [`Input::Event`] or an [`Input::Message`].
    pub input: Input,
    pub correlation_id: Option<String>,
    /// W3C `traceparent`.
    pub trace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub seq: InboxSeq,
    pub already_enqueued: bool,
}

/// Delivers a message to a world of `universe`. Who says that it tells the holder does so afterwards, whatever came of it.
pub async fn fabric_send<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    universe: UniverseId,
    message: FabricMessage,
    holder_is_told: bool,
) -> Result<Sent, StoreError> {
    let FabricMessage { id, from, to, input, correlation_id, trace } = message;
    let origin =
        Origin { enqueued_at_ns: clock.now_ns(), correlation_id, trace, wants_reply: false, sender: Some(from) };
    let new = vec![NewItem { item: InboxItem { input, origin }, dedupe: Some(DedupeId::message(id)) }];
    let window_ns = limits::DEDUPE_WINDOW_NS;
    let placed = enqueue_told(holder_is_told, engine, clock, blobs, universe, to, new, window_ns).await?;
    #[expect(clippy::expect_used, reason = "one item in, one place out")]
    let placed = placed.first().expect("the place of the one item");
    Ok(Sent { seq: placed.seq, already_enqueued: placed.before })
}
