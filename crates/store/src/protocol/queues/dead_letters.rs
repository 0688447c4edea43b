//! Dead letters: list, inspect, replay, drop.
//!
//! Guarantees: a letter is replayed at most once, and only if its world still waits for it: it leaves the dead letters
//! and enters its queue, under a new sequence, in one transaction. A letter that cannot be replayed stays.
//! Unknown commit: run again; a letter that is gone was replayed or dropped, which a replay reports as not found.

use crate::protocol::{
    DeadLetterError,
    page::{Page, Room},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family,
        dead_letter::{self, DeadLetter},
        decode_value,
        effect_dedupe::{self, EffectDedupe, EffectStatus},
        effect_pending::{self, EffectItem},
        get,
        low_water::{self, LowWater},
        mailbox,
        queue::{Queue, QueueSeq},
        queue_notify::{self, TIMERS},
        timer_dedupe::{self, TimerDedupe, TimerStatus},
        timer_due::{self, TimerItem},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, cbor};

/// A letter, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLetter {
    pub seq: QueueSeq,
    pub letter: DeadLetter,
}

/// The letters of a queue, oldest first, after a place.
#[derive(Debug, Clone, Copy)]
pub struct ListDeadLetters {
    pub universe: UniverseId,
    pub queue: Queue,
    /// Those of this world only.
    pub world: Option<WorldId>,
    pub after: Option<QueueSeq>,
    pub items_max: usize,
}

impl Protocol for ListDeadLetters {
    type Output = Page<StoredLetter, QueueSeq>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Page<StoredLetter, QueueSeq>, StoreError> {
        let (mut page, mut room) = (Page::new(), Room::new(self.items_max));
        let mut span = dead_letter::prefix(self.universe, self.queue).span();
        if let Some(seq) = self.after {
            span = span.after(&dead_letter::key(self.universe, self.queue, seq));
        }
        let found = tx.range(span.read(room.looks()).snapshot()).await?;
        for (index, (key, bytes)) in (1..).zip(&found.items) {
            let (_, seq) = dead_letter::parse(self.universe, key)?;
            let letter: DeadLetter = decode_value(Family::DeadLetter, key, bytes)?;
            let taken = self.world.is_none_or(|world| letter.world == Some(world));
            page.items.extend(taken.then_some(StoredLetter { seq, letter }));
            room.spend(taken);
            if room.is_spent() || found.more && index == found.items.len() {
                page.next = Some(seq);
                break;
            }
        }
        Ok(page)
    }
}

/// One letter.
#[derive(Debug, Clone, Copy)]
pub struct ReadDeadLetter {
    pub universe: UniverseId,
    pub queue: Queue,
    pub seq: QueueSeq,
}

impl Protocol for ReadDeadLetter {
    type Output = DeadLetter;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<DeadLetter, StoreError> {
        let Self { universe, queue, seq } = *self;
        let letter = get(tx, Family::DeadLetter, &dead_letter::key(universe, queue, seq)).await?;
        Ok(letter.ok_or(DeadLetterError::NotFound { queue, seq })?)
    }
}

/// Forgets a letter. One that is gone already is forgotten.
#[derive(Debug, Clone, Copy)]
pub struct DropDeadLetter {
    pub universe: UniverseId,
    pub queue: Queue,
    pub seq: QueueSeq,
}

impl Protocol for DropDeadLetter {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let key = dead_letter::key(self.universe, self.queue, self.seq);
        if tx.get(key.as_bytes()).await?.is_some() {
            queue_notify::bump(tx, self.universe, queue_notify::DEAD_LETTERS)?;
            tx.delete(key.as_bytes())?;
        }
        Ok(())
    }
}

/// Puts a letter's item back into its queue, with its budget restored.
#[derive(Debug, Clone, Copy)]
pub struct ReplayDeadLetter {
    pub universe: UniverseId,
    pub queue: Queue,
    pub seq: QueueSeq,
    pub now_ns: u64,
}

impl Protocol for ReplayDeadLetter {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, queue, seq, .. } = *self;
        let letter = ReadDeadLetter { universe, queue, seq }.run(tx).await?;
        match queue {
            Queue::Effects => self.replay_effect(tx, &letter).await?,
            Queue::Timers => self.replay_timer(tx, &letter).await?,
            Queue::Mailboxes => self.replay_mail(tx, letter)?,
            _ => return Err(self.unusable("letters of this queue are only read and dropped").into()),
        }
        DropDeadLetter { universe, queue, seq }.run(tx).await
    }
}

impl ReplayDeadLetter {
    fn unusable(&self, reason: &'static str) -> DeadLetterError {
        DeadLetterError::Unusable { queue: self.queue, seq: self.seq, reason }
    }

    /// Under a new sequence, which cannot exist yet: it is the stamp of this commit.
    fn replay_mail<T: Transaction>(&self, tx: &mut T, letter: DeadLetter) -> Result<(), StoreError> {
        let worker = letter.worker.ok_or_else(|| self.unusable("it does not say whose it was"))?;
        mailbox::write(tx, self.universe, worker, (mailbox::AT_ONCE_NS, 0), letter.item.into())?;
        mailbox::bump(tx, self.universe, worker)
    }

    async fn replay_effect<T: Transaction>(&self, tx: &mut T, letter: &DeadLetter) -> Result<(), StoreError> {
        let item: EffectItem = cbor::decode(&letter.item).map_err(|_| self.unusable("its item cannot be read"))?;
        let status = effect_dedupe::read(tx, self.universe, item.world, item.intent).await?;
        if !matches!(status, Some(EffectDedupe { status: EffectStatus::Pending, .. })) {
            return Err(self.unusable("nobody waits for it any more").into());
        }
        effect_pending::publish(tx, self.universe, 0, &item)?;
        queue_notify::bump(tx, self.universe, &item.kind)
    }

    async fn replay_timer<T: Transaction>(&self, tx: &mut T, letter: &DeadLetter) -> Result<(), StoreError> {
        let (universe, at_ns) = (self.universe, self.now_ns);
        let item: TimerItem = cbor::decode(&letter.item).map_err(|_| self.unusable("its item cannot be read"))?;
        let status = timer_dedupe::read(tx, universe, item.world, item.intent).await?;
        if !matches!(status, Some(TimerDedupe { status: TimerStatus::Due { .. }, .. })) {
            return Err(self.unusable("nobody waits for it any more").into());
        }
        let queue_shard = timer_due::queue_shard(timer_due::shard(item.intent));
        let mark = low_water::read(tx, universe, Queue::Timers, queue_shard).await?;
        let place = timer_due::place(item.intent, item.deliver_at_ns, LowWater::time_ns(mark));
        timer_due::write(tx, universe, place, &item)?;
        let status = TimerStatus::Due { place_ns: place.place_ns, attempts: 0 };
        timer_dedupe::write(tx, universe, item.world, item.intent, &TimerDedupe { status, at_ns })?;
        queue_notify::bump(tx, universe, TIMERS)
    }
}
