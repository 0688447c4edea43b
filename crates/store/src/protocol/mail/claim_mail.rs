//! Claim the next messages of a mailbox.
//!
//! Guarantees: a message is worked on under one claim at a time. A claim that has not expired is busy even to its own
//! worker, because two threads of it may ask; one that has expired is taken over under a new token, so whoever held it
//! cannot acknowledge any more. A message that waits for its next attempt, or for its time, does not hold up the others.
//! Urgent ones come first, then the others that are due at once, then those whose time has come; each from the mark below
//! which nothing lies, never from the prefix.
//! Unknown commit: run again; the first claim, if it was made, expires by itself.

use crate::protocol::claim_effects::MARK_STEP_NS;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Span,
        mail_attempt::{self, MailAttempt},
        mail_mark::{self, MailClass},
        mailbox::{self, MailPlace},
        queue::Claim,
    },
};
use bytes::Bytes;
use mundi_engine::{Read, ReadPlan, Transaction};
use mundi_model::{UniverseId, WorkerId};

/// How many messages that cannot be claimed now are passed over.
const LOOK_ITEMS: usize = 256;
/// Messages that are asked about in one trip.
const LOOK_AHEAD: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct ClaimMail {
    pub universe: UniverseId,
    pub worker: WorkerId,
    pub token: [u8; 16],
    pub now_ns: u64,
    pub ttl_ns: u64,
    /// So many at most, under one token and until the same deadline.
    pub items_max: usize,
}

/// A message, and the right to finish it.
#[derive(Debug, Clone)]
pub struct ClaimedMail {
    pub place: MailPlace,
    pub frame: Bytes,
    pub claim: Claim,
}

#[derive(Debug, Clone)]
pub enum MailClaimed {
    /// At least one, in the order of their places; all of one class.
    Messages(Vec<ClaimedMail>),
    /// Nothing can be claimed before this time, unless something is sent.
    Nothing { next_ns: Option<u64>, seen: mailbox::Seen },
}

impl Protocol for ClaimMail {
    type Output = MailClaimed;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let Self { universe, worker, .. } = *self;
        let marks = MailClass::ALL.map(|class| mail_mark::key(universe, worker, class).planned());
        ReadPlan::reads([mailbox::notify_key(universe, worker).planned()].into_iter().chain(marks))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<MailClaimed, StoreError> {
        let Self { universe, worker, now_ns, .. } = *self;
        let seen = mailbox::seen(tx, universe, worker).await?;
        let mut next_ns: Option<u64> = None;
        for class in MailClass::ALL {
            let mark = mail_mark::read_snapshot(tx, universe, worker, class).await?.map(MailPlace::from);
            let page = tx.range(mailbox::of_class(universe, worker, class, mark).read(LOOK_ITEMS).snapshot()).await?;
            let (mut first, mut claimed) = (None, Vec::new());
            for (index, (key, frame)) in page.items.iter().enumerate() {
                let place = mailbox::parse(universe, worker, key)?;
                first = first.or(Some(place));
                if index % LOOK_AHEAD == 0 {
                    self.prefetch(tx, &page.items[index..])?;
                }
                let attempt = mail_attempt::read(tx, universe, worker, place.seq).await?;
                let free_at_ns = free_at_ns(place, attempt.as_ref());
                if free_at_ns > now_ns {
                    next_ns = Some(next_ns.map_or(free_at_ns, |next_ns| next_ns.min(free_at_ns)));
                    if place.due_ns > now_ns {
                        break; // all that follow are due later still
                    }
                    continue;
                }
                // The page was read without a conflict: whether the message is still there is asked with one.
                if tx.get(key).await?.is_some() {
                    claimed.push(self.claim(tx, place, frame.clone(), attempt)?);
                    if claimed.len() >= self.items_max {
                        break;
                    }
                }
            }
            if !claimed.is_empty() {
                self.raise(tx, class, mark, first).await?;
                return Ok(MailClaimed::Messages(claimed));
            }
        }
        Ok(MailClaimed::Nothing { next_ns, seen })
    }
}

impl ClaimMail {
    /// The reads about the messages that will be looked at, if all of them are free.
    fn prefetch<T: Transaction>(&self, tx: &mut T, page: &[(Bytes, Bytes)]) -> Result<(), StoreError> {
        let Self { universe, worker, items_max, .. } = *self;
        let mut reads = Vec::new();
        for (key, _) in page.iter().take(items_max.min(LOOK_AHEAD)) {
            let place = mailbox::parse(universe, worker, key)?;
            reads.extend([mail_attempt::key(universe, worker, place.seq).planned(), Read::Get(key.clone())]);
        }
        tx.prefetch(|| reads);
        Ok(())
    }

    /// Remembers that nothing lies below the first message that was seen.
    async fn raise<T: Transaction>(
        &self,
        tx: &mut T,
        class: MailClass,
        mark: Option<MailPlace>,
        first: Option<MailPlace>,
    ) -> Result<(), StoreError> {
        let Self { universe, worker, .. } = *self;
        let Some(first) = first.filter(|first| mark.is_none_or(|mark| *first > mark)) else { return Ok(()) };
        if class == MailClass::Timed {
            // Each move makes those conflict who send something with a time at that moment.
            if first.due_ns < mark.map_or(0, |mark| mark.due_ns).saturating_add(MARK_STEP_NS) {
                return Ok(());
            }
            let below =
                Span { end: mailbox::key(universe, worker, first), ..mailbox::of_class(universe, worker, class, mark) };
            if !tx.range(below.read(1)).await?.items.is_empty() {
                return Ok(());
            }
        }
        mail_mark::write(tx, universe, worker, class, first.into())
    }

    fn claim<T: Transaction>(
        &self,
        tx: &mut T,
        place: MailPlace,
        frame: Bytes,
        before: Option<MailAttempt>,
    ) -> Result<ClaimedMail, StoreError> {
        let Self { universe, worker, token, now_ns, ttl_ns, .. } = *self;
        let attempt = before.map_or(0, |before| before.claim.attempt).saturating_add(1);
        let claim = Claim { token, worker, deadline_ns: now_ns.saturating_add(ttl_ns), attempt };
        let written = MailAttempt { claim, open: true, not_before_ns: 0 };
        mail_attempt::write(tx, universe, worker, place.seq, &written)?;
        Ok(ClaimedMail { place, frame, claim })
    }
}

/// From when on a message can be claimed.
fn free_at_ns(place: MailPlace, attempt: Option<&MailAttempt>) -> u64 {
    let after_attempt_ns = match attempt {
        Some(attempt) if attempt.open => attempt.claim.deadline_ns,
        Some(attempt) => attempt.not_before_ns,
        None => 0,
    };
    place.due_ns.max(after_attempt_ns)
}
