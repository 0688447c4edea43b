//! Publish what a fork, or a world that arrives, inherits: its open effects or the receipts for them, and its timers.
//!
//! Guarantees: each is published once, a bounded part of them per transaction: the first part in the transaction that creates the world,
//! the others after it, in order. How far it came stands in the world's meta record, so whoever opens the world goes on where its creator
//! ended, and the world takes no turn before all is published.
//! Unknown commit: run again; a part that was applied has moved the place in the meta record.

use crate::protocol::{CommitTurn, InProcess};
use crate::{
    Clock, Fence, OnUnknown, Protocol, StoreError,
    journal::Batch,
    keyspace::{
        child_budget::{self, ChildBudget},
        effect_pending::EffectItem,
        journal_head::JournalHead,
        ready::{self, ReadyHint},
        ready_notify,
        timer_due::TimerItem,
        world_meta::{self, WorldMeta},
    },
    run,
};
use minicbor::Encode;
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Epoch, Height, UniverseId, WorldId, cbor,
    child::Lane,
    limits,
    record::{Receipt, Record},
};

/// The effects, timers and budgets of a new world, in an order that does not change.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    /// The effects that a live fork continues to wait for.
    pub effects: Vec<EffectItem>,
    pub timers: Vec<TimerItem>,
    /// For open intents that are not carried out, under the world's own names for them.
    pub receipts: Vec<Receipt>,
    /// The spending of its children, as its journal proves, and their limits.
    pub budgets: Vec<(Lane, ChildBudget)>,
}

impl Inherited {
    /// The items from a place on that one transaction publishes, and the place behind them, unless they are the last.
    fn part(&self, from: u64) -> (Self, Option<u64>) {
        let mut part = Self::default();
        let (mut room, mut place) =
            (Room { items: limits::INHERITED_ITEMS_MAX, bytes: limits::INHERITED_BYTES_MAX }, 0);
        room.take(&self.effects, from, &mut place, &mut part.effects);
        room.take(&self.timers, from, &mut place, &mut part.timers);
        room.take(&self.receipts, from, &mut place, &mut part.receipts);
        let len = (self.effects.len() + self.timers.len() + self.receipts.len()) as u64;
        (part, (place < len).then_some(place))
    }
}

/// The room of a transaction; one item fits always.
struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    /// Takes those that stand at or behind a place, until there is no room. `place` counts all that were passed or taken.
    fn take<V: Clone + Encode<()>>(&mut self, all: &[V], from: u64, place: &mut u64, taken: &mut Vec<V>) {
        for item in all {
            if *place >= from {
                if self.items == 0 || self.bytes == 0 {
                    return;
                }
                self.items -= 1;
                self.bytes = self.bytes.saturating_sub(cbor::encode(item).len());
                taken.push(item.clone());
            }
            *place += 1;
        }
    }
}

/// Publishes the first part, with the creation of a world; says where the next part begins. The receipts
/// stand behind as many items as were enqueued before.
pub(super) async fn publish_first<T: Transaction>(
    tx: &mut T,
    (universe, world, meta): (UniverseId, WorldId, WorldMeta),
    inherited: &Inherited,
    begins_at: Height,
    (enqueued_before, now_ns): (u16, u64),
) -> Result<Option<u64>, StoreError> {
    let (part, next) = inherited.part(0);
    publish(tx, (universe, world, begins_at), part, (enqueued_before, now_ns)).await?;
    for (lane, budget) in &inherited.budgets {
        child_budget::write(tx, universe, world, *lane, budget)?;
    }
    if next.is_some() {
        // If its creator ends here, a worker goes on.
        ready::write(tx, universe, world, meta.ready_priority(), &ReadyHint { at_ns: now_ns })?;
        ready_notify::bump(tx, universe, ready::shard(world))?;
        let after = WorldMeta { inherits_from: next, ..meta.clone() };
        world_meta::write(tx, universe, world, Some(&meta), &after)?;
    }
    Ok(next)
}

/// Publishes the parts from a place on, one transaction after another.
pub async fn inherit_all<E: Engine>(engine: &E, clock: &dyn Clock, mut part: Inherit<'_>) -> Result<(), StoreError> {
    while let Some(from) = run(engine, clock, &part).await?.output {
        part.from = from;
    }
    Ok(())
}

/// As a turn would, but for intents that the records of another world announce.
async fn publish<T: Transaction>(
    tx: &mut T,
    (universe, world, begins_at): (UniverseId, WorldId, Height),
    Inherited { effects, timers, receipts, .. }: Inherited,
    (enqueued_before, now_ns): (u16, u64),
) -> Result<(), StoreError> {
    let turn = CommitTurn {
        fence: Fence { universe, world, epoch: Epoch::INITIAL },
        cursor: None,
        consumed: None,
        records: Batch::empty(JournalHead { height: begins_at, chain: Record::CHAIN_START }),
        effects,
        timers,
        receipts,
        expects_end: None,
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities: Vec::new(),
        paused: None,
        ready: false,
        now_ns,
    };
    turn.publish_effects(tx).await?;
    turn.publish_timers(tx).await?;
    turn.answer_after(tx, enqueued_before).await
}

/// Publishes the part that begins at a place.
#[derive(Debug, Clone, Copy)]
pub struct Inherit<'a> {
    pub universe: UniverseId,
    pub world: WorldId,
    /// The height of its first record, or of the one by which it arrived.
    pub begins_at: Height,
    pub inherited: &'a Inherited,
    pub from: u64,
    pub now_ns: u64,
}

impl Protocol for Inherit<'_> {
    /// Where the next part begins; `None` if all is published, or the world is gone.
    type Output = Option<u64>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<u64>, StoreError> {
        let Self { universe, world, begins_at, from, now_ns, .. } = *self;
        let Some(meta) = world_meta::read(tx, universe, world).await?.filter(|meta| !meta.state.is_gone()) else {
            return Ok(None);
        };
        if meta.inherits_from != Some(from) {
            return Ok(meta.inherits_from);
        }
        let (part, next) = self.inherited.part(from);
        publish(tx, (universe, world, begins_at), part, (0, now_ns)).await?;
        let after = WorldMeta { inherits_from: next, ..meta.clone() };
        world_meta::write(tx, universe, world, Some(&meta), &after)?;
        Ok(next)
    }
}
