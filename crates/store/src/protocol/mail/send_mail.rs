//! Send messages to a worker's mailbox.
//!
//! Guarantees: messages of one call are sent together or not at all, in their order, and wake the worker. Anyone may
//! send; no two senders conflict, except over the same name, and over the mark that a message with a time must not lie
//! below. A message with a name is sent at most once until it is due and for the window after that; each requeue begins the window
//! again ([`Finish::Requeue`](crate::protocol::Finish)), so the name stays while the message does.
//! Unknown commit: run again if every message has a name; otherwise it is reported, because a second run could send twice.
//! Commands are made so that twice does no harm.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        mail_dedupe,
        mail_mark::{self, MailClass},
        mailbox,
    },
    protocol::InboxError,
};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorkerId, limits};

/// Names that one send forgets: more than it adds, so that they do not pile up.
const EXPIRED_PER_MESSAGE: usize = 2;

#[derive(Debug, Clone)]
pub struct SendMail {
    pub universe: UniverseId,
    pub worker: WorkerId,
    pub mail: Vec<NewMail>,
    pub now_ns: u64,
    /// How long a name is remembered once its message is due.
    pub dedupe_window_ns: u64,
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMail {
    /// When it is due; 0 for at once.
    pub due_ns: u64,
    /// Before all that is not. Says nothing about a message with a time.
    pub urgent: bool,
    /// The name under which it is sent at most once.
    pub name: Option<Hash>,
    pub frame: Bytes,
}

impl Protocol for SendMail {
    /// How many were sent; those with a known name were sent before.
    type Output = usize;

    fn on_unknown(&self) -> OnUnknown {
        if self.mail.iter().all(|new| new.name.is_some()) { OnUnknown::RunAgain } else { OnUnknown::Report }
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<usize, StoreError> {
        let Self { universe, worker, ref mail, now_ns, dedupe_window_ns } = *self;
        let (items, max) = (mail.len(), limits::INBOX_BATCH_ITEMS_MAX);
        if items == 0 || items > max {
            return Err(InboxError::BatchInvalid { items, max }.into());
        }
        if mail.iter().any(|new| new.name.is_some()) {
            mail_dedupe::expire(tx, universe, worker, now_ns, EXPIRED_PER_MESSAGE * items).await?;
        }
        let mut sent = 0u16; // a batch is bounded far below 16 bits
        for new in mail {
            if let Some(name) = new.name {
                let known = mail_dedupe::read(tx, universe, worker, name).await?;
                if known.is_some_and(|known| known.expires_at_ns > now_ns) {
                    continue;
                }
                // Until it was delivered, and then for the window: who sends it again meanwhile sends it once.
                let expires_at_ns = now_ns.max(new.due_ns).saturating_add(dedupe_window_ns);
                mail_dedupe::write(tx, universe, worker, name, expires_at_ns)?;
            }
            let due_ns = match (new.due_ns, new.urgent) {
                (0, true) => mailbox::URGENT_NS,
                (0, false) => mailbox::AT_ONCE_NS,
                (due_ns, _) => {
                    let mark = mail_mark::read(tx, universe, worker, MailClass::Timed).await?;
                    due_ns.max(mark.map_or(0, |mark| mark.due_ns)).max(mailbox::AT_ONCE_NS + 1)
                }
            };
            mailbox::write(tx, universe, worker, (due_ns, sent), new.frame.clone())?;
            sent += 1;
        }
        if sent > 0 {
            mailbox::bump(tx, universe, worker)?;
        }
        Ok(sent.into())
    }
}
