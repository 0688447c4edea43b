//! Delayed sends: a message waits in a mailbox that no process owns, and is enqueued when it is due.
//!
//! The mailbox's claims are fenced, so any number of processes may serve it. An item enters the inbox in the transaction in which
//! its message leaves the mailbox: it was acknowledged to its sender, so it is tried for as long as timers are, and delivered once. A
//! message that cannot be delivered in all that time becomes a dead letter, with a warning and a count.

use crate::{
    Plane, RuntimeError,
    shell::{Failed, Frame, FrameKind, Handler},
};
use minicbor::{Decode, Encode};
use mundi_engine::Engine;
use mundi_model::{Code, Hash, UniverseId, WorkerId, WorldId, cbor, limits, record::InboxItem};
use mundi_store::{
    keyspace::inbox_dedupe::DedupeId,
    protocol::{FinishMail, InboxError, NewItem, NewMail, SendMail, deliver_mail, require_live},
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
    /// It waits in no mailbox.
    pub const WORKER: WorkerId = match WorkerId::new(i64::MAX.unsigned_abs()) {
        Some(worker) => worker,
        None => panic!("it is not zero"),
    };

    /// Puts it into the mailbox, if the world is there: nobody looks for it again before it is due. When this returns it is durable.
    pub async fn send<P: Plane>(
        &self,
        plane: &P,
        universe: UniverseId,
        due_ns: u64,
        dedupe_window_ns: u64,
    ) -> Result<(), RuntimeError> {
        require_live(&mut plane.engine().begin().await?, universe, self.world).await?;
        let payload = cbor::encode(self);
        let (len, max) = (payload.len(), limits::INBOX_ITEM_BYTES_MAX);
        if len > max {
            return Err(InboxError::ItemTooLarge { index: 0, len, max }.into());
        }
        let mut frame = Frame::command(Self::WORKER, plane.random::<16>().to_vec(), payload);
        frame.kind = FrameKind::Timer;
        let too_large = |_| InboxError::ItemTooLarge { index: 0, len, max };
        let mail =
            NewMail { due_ns, urgent: false, name: self.name(), frame: frame.encode().map_err(too_large)?.into() };
        let (worker, mail, now_ns) = (Self::WORKER, vec![mail], plane.now_ns());
        plane.run(&SendMail { universe, worker, mail, now_ns, dedupe_window_ns }).await?;
        Ok(())
    }

    /// The name under which it is sent at most once.
    fn name(&self) -> Option<Hash> {
        let key = self.idempotency_key.as_ref()?;
        Some(Hash::of_parts([&self.world.as_bytes()[..], key.as_bytes()]))
    }
}

/// Delivers what is due.
pub struct DeliverDelayed<P> {
    pub plane: P,
    pub dedupe_window_ns: u64,
}

impl<P: Plane> Handler for DeliverDelayed<P> {
    async fn handle(&self, frame: &Frame, acknowledge: &FinishMail) -> Result<(), Failed> {
        let delayed: Result<Delayed, _> = cbor::decode(&frame.payload);
        let delayed = delayed.map_err(|error| Failed { code: Code::FrameInvalid, reason: error.to_string() })?;
        let dedupe = delayed.idempotency_key.as_deref().map(DedupeId::idempotency_key);
        let new = NewItem { item: delayed.item, dedupe };
        let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
        let window_ns = self.dedupe_window_ns;
        let delivered = deliver_mail(engine, clock, blobs, acknowledge, delayed.world, new, window_ns).await;
        delivered.map(drop).map_err(|error| Failed::from(&error))
    }

    fn name(&self, frame: &Frame) -> Option<(Hash, u64)> {
        let delayed: Delayed = cbor::decode(&frame.payload).ok()?;
        Some((delayed.name()?, self.dedupe_window_ns))
    }
}
