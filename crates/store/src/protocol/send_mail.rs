//! Send messages to a worker's mailbox (seed 003).
//!
//! Guarantees: messages of one call are sent together or not at all, in their order, and wake the worker. Anyone may
//! send; no two senders conflict.
//! Unknown commit: reported, because a second run could send twice. Commands are made so that twice does no harm.

use crate::{OnUnknown, Protocol, StoreError, keyspace::mailbox, protocol::InboxError};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, limits};

#[derive(Debug, Clone)]
pub struct SendMail {
    pub universe: UniverseId,
    pub worker: WorkerId,
    /// Each with the time at which it is due; 0 for at once.
    pub frames: Vec<(u64, Bytes)>,
}

impl Protocol for SendMail {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::Report
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, worker, frames } = self;
        let (items, max) = (frames.len(), limits::INBOX_BATCH_ITEMS_MAX);
        if items == 0 || items > max {
            return Err(InboxError::BatchInvalid { items, max }.into());
        }
        for (index, (due_ns, frame)) in (0u16..).zip(frames) {
            mailbox::write(tx, *universe, *worker, (*due_ns, index), frame.clone())?;
        }
        mailbox::bump(tx, *universe, *worker)
    }
}
