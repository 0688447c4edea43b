//! Finish a claimed message: acknowledge, requeue or dead-letter it.
//!
//! Guarantees: only who holds the claim, token and all, finishes a message; it is asked before anything is removed. A
//! requeued message keeps its sequence and waits for its time. One that was due at a time moves to the later one: any number of
//! messages that wait for their next attempt hold up none behind them. Its name, if it has one, stays for the window after that
//! attempt. A dead letter keeps the frame, the code and the attempts.
//! Unknown commit: run again; a message that is gone was finished, and a requeue under this token is the same requeue.

use crate::protocol::MailError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        dead_letter::{self, DeadLetter},
        mail_attempt::{self, MailAttempt},
        mail_dedupe,
        mail_mark::{self, MailClass},
        mailbox::{self, MailPlace},
        queue::{Claim, Queue},
    },
};
use bytes::Bytes;
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{Hash, UniverseId, WorkerId};

#[derive(Debug, Clone)]
pub struct FinishMail {
    pub universe: UniverseId,
    pub worker: WorkerId,
    pub place: MailPlace,
    pub claim: Claim,
    pub how: Finish,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    Acknowledge,
    Requeue {
        not_before_ns: u64,
        /// The name under which it was sent, and until when that is remembered now.
        name: Option<MailName>,
    },
    DeadLetter {
        code: String,
        reason: String,
        now_ns: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailName {
    pub name: Hash,
    pub expires_at_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailFinished {
    Now,
    /// The message is gone: it was finished before.
    Before,
}

impl Protocol for FinishMail {
    type Output = MailFinished;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let Self { universe, worker, place, .. } = *self;
        let keys = [mailbox::key(universe, worker, place), mail_attempt::key(universe, worker, place.seq)];
        ReadPlan::reads(keys.map(|key| key.planned()))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<MailFinished, StoreError> {
        let Self { universe, worker, place, .. } = *self;
        let key = mailbox::key(universe, worker, place);
        let Some(frame) = tx.get(key.as_bytes()).await? else { return Ok(MailFinished::Before) };
        let attempt = mail_attempt::read(tx, universe, worker, place.seq).await?;
        let attempt = attempt.filter(|attempt| attempt.claim.token == self.claim.token);
        let attempt = attempt.ok_or(MailError::ClaimLost { worker, seq: place.seq })?;
        match &self.how {
            Finish::Requeue { not_before_ns, name } => {
                let requeued = MailAttempt { open: false, not_before_ns: *not_before_ns, ..attempt };
                mail_attempt::write(tx, universe, worker, place.seq, &requeued)?;
                self.postpone(tx, *not_before_ns, frame).await?;
                if let Some(MailName { name, expires_at_ns }) = *name {
                    mail_dedupe::write(tx, universe, worker, name, expires_at_ns)?;
                }
                return Ok(MailFinished::Now);
            }
            Finish::Acknowledge => {}
            Finish::DeadLetter { code, reason, now_ns } => {
                let letter = DeadLetter {
                    world: None,
                    code: code.clone(),
                    reason: reason.clone(),
                    attempts: attempt.claim.attempt,
                    item: frame.to_vec(),
                    at_ns: *now_ns,
                    worker: Some(worker),
                };
                dead_letter::write(tx, universe, Queue::Mailboxes, 0, &letter)?;
            }
        }
        tx.delete(key.as_bytes())?;
        tx.delete(mail_attempt::key(universe, worker, place.seq).as_bytes())?;
        Ok(MailFinished::Now)
    }
}

impl FinishMail {
    /// The mark is read with a conflict: who raises it meanwhile would never look at a place below it.
    async fn postpone<T: Transaction>(&self, tx: &mut T, not_before_ns: u64, frame: Bytes) -> Result<(), StoreError> {
        let Self { universe, worker, place, .. } = *self;
        if place.due_ns <= mailbox::AT_ONCE_NS {
            return Ok(());
        }
        let mark = mail_mark::read(tx, universe, worker, MailClass::Timed).await?;
        let due_ns = not_before_ns.max(mark.map_or(0, |mark| mark.due_ns.saturating_add(1)));
        if due_ns <= place.due_ns {
            return Ok(());
        }
        tx.delete(mailbox::key(universe, worker, place).as_bytes())?;
        let later = MailPlace { due_ns, ..place };
        Ok(tx.put(mailbox::key(universe, worker, later).as_bytes(), frame)?)
    }
}
