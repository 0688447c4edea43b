//! What was sent with a delay: it waits in a mailbox that no process owns, and is enqueued when it is due.
//!
//! The mailbox's claims are fenced, so any number of processes may serve it. An item is enqueued under the message's id:
//! a process that dies between the enqueue and the acknowledgement enqueues nothing twice.

use minicbor::{Decode, Encode};
use mundi_engine::Engine;
use mundi_model::{Code, Hash, UniverseId, WorkerId, WorldId, cbor, hex, limits, record::InboxItem};
use mundi_runtime::{
    Plane, RuntimeError,
    shell::{Failed, Frame, FrameKind, Handler},
};
use mundi_store::{
    keyspace::inbox_dedupe::DedupeId,
    protocol::{InboxError, NewItem, NewMail, SendMail, enqueue, require_live},
};

/// An item for a world, for later.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Delayed {
    #[n(0)]
    pub world: WorldId,
    #[n(1)]
    pub item: InboxItem,
    /// The sender's own key, if it gave one.
    #[n(2)]
    pub idempotency_key: Option<String>,
}

impl Delayed {
    /// Whose mailbox it waits in: nobody's.
    pub const WORKER: WorkerId = match WorkerId::new(i64::MAX.unsigned_abs()) {
        Some(worker) => worker,
        None => panic!("it is not zero"),
    };

    /// Puts it into the mailbox, if the world is there: nobody looks for it again before it is due. When this returns it is durable.
    pub async fn send<P: Plane>(&self, plane: &P, universe: UniverseId, due_ns: u64) -> Result<(), RuntimeError> {
        require_live(&mut plane.engine().begin().await?, universe, self.world).await?;
        let payload = cbor::encode(self);
        let (len, max) = (payload.len(), limits::INBOX_ITEM_BYTES_MAX);
        if len > max {
            return Err(InboxError::ItemTooLarge { index: 0, len, max }.into());
        }
        let mut frame = Frame::command(Self::WORKER, plane.random::<16>().to_vec(), payload);
        frame.kind = FrameKind::Timer;
        let too_large = |_| InboxError::ItemTooLarge { index: 0, len, max };
        let of = |key: &String| Hash::of_parts([&self.world.as_bytes()[..], key.as_bytes()]);
        let name = self.idempotency_key.as_ref().map(of);
        let mail = NewMail { due_ns, urgent: false, name, frame: frame.encode().map_err(too_large)?.into() };
        let send = SendMail { universe, worker: Self::WORKER, mail: vec![mail], now_ns: plane.now_ns() };
        plane.run(&send).await?;
        Ok(())
    }
}

/// Delivers what is due.
pub(super) struct Deliver<P> {
    pub(super) plane: P,
    pub(super) universe: UniverseId,
}

impl<P: Plane> Handler for Deliver<P> {
    async fn handle(&self, frame: &Frame) -> Result<(), Failed> {
        let delayed: Result<Delayed, _> = cbor::decode(&frame.payload);
        let delayed = delayed.map_err(|error| Failed { code: Code::FrameInvalid, reason: error.to_string() })?;
        let dedupe = match &delayed.idempotency_key {
            Some(key) => DedupeId::idempotency_key(key),
            None => DedupeId::idempotency_key(&format!("delayed/{}", hex(&frame.message_id))),
        };
        let new = vec![NewItem { item: delayed.item, dedupe: Some(dedupe) }];
        let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
        let window_ns = limits::DEDUPE_WINDOW_NS;
        let placed = enqueue(engine, clock, blobs, self.universe, delayed.world, new, window_ns).await;
        placed.map(drop).map_err(|error| Failed::from(&error))
    }
}
