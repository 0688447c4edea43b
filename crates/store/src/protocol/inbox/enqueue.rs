//! Enqueue into a world's inbox.
//!
//! Guarantees: items get a place in one total order, the order of commits; a batch keeps its own order and is
//! enqueued whole or not at all. Anyone may enqueue; no fence is asked for, and writers do not conflict with each
//! other. (A sender that wakes the worker itself reads the world's hint, and so conflicts with a turn that settles it.) An item that carries a dedupe id is enqueued at most once within the window, and the place of the first
//! one is returned.
//!
//! A world on hold takes items in, and no calls: nobody would answer them.
//!
//! A full inbox has some room left for commands: the one that empties it may be among them.
//!
//! The bounds of the inbox are checked against counters read without a conflict. So writers that run at the same
//! time may overshoot a bound, together, by at most what they have in flight: one batch each.
//!
//! Unknown commit: run again if every item carries a dedupe id; otherwise it is reported, because a second run
//! could enqueue twice. A sender that then enqueues again may do so: its item is in the inbox twice.

use crate::protocol::{InboxError, WorldError, expire_dedupe::open_ones, on_hold, require_live, require_world};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    keyspace::{
        dedupe_bucket::{self, DedupeKind, Ending},
        inbox_dedupe::{self, DedupeId, SendingEffect},
        inbox_depth::{self, Depth},
        inbox_entry, notify,
        ready::{self, ReadyHint},
        ready_notify,
        world_meta::{self, InboxBounds, WorldMeta, WorldState},
    },
    run,
};
use bytes::Bytes;
use mundi_engine::{Engine, Read, ReadPlan, Source, Transaction};
use mundi_model::{
    InboxSeq, Stamp, UniverseId, WorldId, cbor, limits,
    mutants::{Mutant, planted},
    record::{InboxItem, Input, Origin, Payload, Receipt},
};
use std::collections::BTreeMap;

/// An item to be enqueued.
#[derive(Debug, Clone)]
pub struct NewItem {
    pub item: InboxItem,
    /// The name under which it is enqueued at most once.
    pub dedupe: Option<DedupeId>,
}

/// Items for one world, checked and encoded.
#[derive(Debug, Clone)]
pub struct Enqueue {
    universe: UniverseId,
    world: WorldId,
    items: Vec<Encoded>,
    now_ns: u64,
    dedupe_window_ns: u64,
    bounded: bool,
    woken_by: WokenBy,
    /// Nothing but commands.
    commands: bool,
    /// Somebody waits for a reply.
    calls: bool,
    /// The index of the first item among those of the commit.
    first_index: u16,
    /// The effects that send them, if they are messages.
    sent_by: Option<SendingEffect>,
}

#[derive(Debug, Clone)]
struct Encoded {
    bytes: Vec<u8>,
    depth: Depth,
    dedupe: Option<DedupeId>,
}

/// How the worker of a world learns that something was enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WokenBy {
    /// From the ready queue, which all workers watch.
    ReadyQueue,
    /// From the sender, which wakes the worker that holds the world after the commit, whatever came of it. The ready queue changes only if
    /// the world is not in it yet.
    Sender,
}

/// Where an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    pub seq: InboxSeq,
    /// It was there already, under the same dedupe id.
    pub before: bool,
}

/// Moves large payloads to the content store, then enqueues.
pub async fn enqueue<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    universe: UniverseId,
    world: WorldId,
    items: Vec<NewItem>,
    dedupe_window_ns: u64,
) -> Result<Vec<Enqueued>, StoreError> {
    enqueue_woken_by(WokenBy::ReadyQueue, engine, clock, blobs, universe, world, items, dedupe_window_ns).await
}

/// As [`enqueue`], and says how the world's worker learns of it.
#[expect(clippy::too_many_arguments, reason = "those of `enqueue`, and one")]
pub async fn enqueue_woken_by<E: Engine, B: Blobs>(
    woken_by: WokenBy,
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    universe: UniverseId,
    world: WorldId,
    mut items: Vec<NewItem>,
    dedupe_window_ns: u64,
) -> Result<Vec<Enqueued>, StoreError> {
    spill_all(blobs, universe, &mut items).await?;
    let enqueue = Enqueue::new(universe, world, &items, clock.now_ns(), dedupe_window_ns)?;
    enqueue.woken_by(woken_by).commit(engine, clock).await
}

pub(in crate::protocol) async fn spill_all<B: Blobs>(
    blobs: &B,
    universe: UniverseId,
    items: &mut [NewItem],
) -> Result<(), StoreError> {
    for new in items {
        spill(blobs, universe, &mut new.item).await?;
    }
    Ok(())
}

/// A payload that is not worth carrying through the engine becomes a reference to a blob.
async fn spill<B: Blobs>(blobs: &B, universe: UniverseId, item: &mut InboxItem) -> Result<(), StoreError> {
    let payload = match &mut item.input {
        Input::Event { value: payload, .. }
        | Input::Message { payload, .. }
        | Input::TimerFired { payload, .. }
        | Input::Control { payload, .. } => payload,
        Input::Receipt(receipt) => &mut receipt.payload,
    };
    spill_payload(blobs, universe, payload).await
}

pub(in crate::protocol) async fn spill_payload<B: Blobs>(
    blobs: &B,
    universe: UniverseId,
    payload: &mut Payload,
) -> Result<(), StoreError> {
    if let Payload::Inline(bytes) = payload
        && bytes.len() > limits::PAYLOAD_INLINE_BYTES_MAX
    {
        let bytes = Bytes::from(std::mem::take(bytes));
        let len = bytes.len() as u64;
        *payload = Payload::Blob(blobs.put(universe, bytes, &[]).await?, len);
    }
    Ok(())
}

impl Enqueue {
    pub fn new(
        universe: UniverseId,
        world: WorldId,
        items: &[NewItem],
        now_ns: u64,
        dedupe_window_ns: u64,
    ) -> Result<Self, InboxError> {
        if items.is_empty() || items.len() > limits::INBOX_BATCH_ITEMS_MAX {
            return Err(InboxError::BatchInvalid { items: items.len(), max: limits::INBOX_BATCH_ITEMS_MAX });
        }
        Self::encoded(universe, world, items, now_ns, dedupe_window_ns)
    }

    /// Receipts for a world that waits for them, beyond all bounds but that of a transaction.
    pub(in crate::protocol) fn of_receipts(
        universe: UniverseId,
        world: WorldId,
        receipts: &[Receipt],
        now_ns: u64,
    ) -> Result<Self, InboxError> {
        let origin = Origin::new(now_ns);
        let item = |receipt: &Receipt| NewItem {
            item: InboxItem { input: Input::Receipt(receipt.clone()), origin: origin.clone() },
            dedupe: Some(DedupeId::receipt(receipt.intent)),
        };
        let items: Vec<_> = receipts.iter().map(item).collect();
        Ok(Self::encoded(universe, world, &items, now_ns, limits::DEDUPE_WINDOW_NS)?.beyond_bounds())
    }

    fn encoded(
        universe: UniverseId,
        world: WorldId,
        items: &[NewItem],
        now_ns: u64,
        dedupe_window_ns: u64,
    ) -> Result<Self, InboxError> {
        let encode = |(index, new): (usize, &NewItem)| {
            let bytes = cbor::encode(&new.item);
            if bytes.len() > limits::INBOX_ITEM_BYTES_MAX {
                return Err(InboxError::ItemTooLarge { index, len: bytes.len(), max: limits::INBOX_ITEM_BYTES_MAX });
            }
            Ok(Encoded { depth: Depth::of(&new.item, bytes.len()), bytes, dedupe: new.dedupe })
        };
        let commands = items.iter().all(|new| matches!(new.item.input, Input::Control { .. }));
        let calls = items.iter().any(|new| new.item.origin.wants_reply);
        let items = items.iter().enumerate().map(encode).collect::<Result<_, _>>()?;
        Ok(Self {
            universe,
            world,
            items,
            now_ns,
            dedupe_window_ns,
            bounded: true,
            woken_by: WokenBy::ReadyQueue,
            commands,
            calls,
            first_index: 0,
            sent_by: None,
        })
    }

    async fn commit<E: Engine>(&self, engine: &E, clock: &dyn Clock) -> Result<Vec<Enqueued>, StoreError> {
        let done = run(engine, clock, self).await?;
        Ok(placed(&done.output, done.stamp))
    }

    /// For what the world itself asked for: receipts and timers. The bounds on open intents and timers bound them
    /// already, and a full inbox must not cost an answer for which the outside has acted.
    pub(in crate::protocol) fn beyond_bounds(self) -> Self {
        Self { bounded: false, ..self }
    }

    pub(in crate::protocol) fn woken_by(self, woken_by: WokenBy) -> Self {
        Self { woken_by, ..self }
    }

    /// For a transaction that enqueues more than once: so many items come before these. Two items of one commit with the
    /// same index would be one.
    pub(in crate::protocol) fn after(self, items: u16) -> Self {
        Self { first_index: items, ..self }
    }

    /// The name under which it is enqueued, or was before, stays for as long as this effect is open.
    pub(in crate::protocol) fn sent_by(self, effect: SendingEffect) -> Self {
        Self { sent_by: Some(effect), ..self }
    }

    /// Its usual reads: a world has the usual priority until it is given another one.
    fn reads(&self) -> Vec<Read> {
        let Self { universe, world, .. } = *self;
        let mut reads = reads_of(universe, world, self.items.iter().filter_map(|item| item.dedupe)).collect::<Vec<_>>();
        if self.bounded {
            reads.extend(inbox_depth::keys(universe, world).map(|key| key.planned()));
        }
        if self.woken_by == WokenBy::Sender {
            reads.push(ready::key(universe, ready::PRIORITY_NORMAL, world).planned());
        }
        reads
    }

    /// As a part of another protocol, whose plan need not say what this one reads.
    pub(in crate::protocol) async fn run_within<T: Transaction>(
        &self,
        tx: &mut T,
    ) -> Result<Vec<Placement>, StoreError> {
        tx.prefetch(|| self.reads());
        self.run(tx).await
    }

    /// Items that the world itself asked for reach it in any state but one from which it never returns.
    async fn require_taker<T: Transaction>(&self, tx: &mut T) -> Result<WorldMeta, StoreError> {
        if self.bounded {
            return require_live(tx, self.universe, self.world).await;
        }
        let meta = require_world(tx, self.universe, self.world).await?;
        if matches!(meta.state, WorldState::Deleting | WorldState::Deleted) {
            return Err(WorldError::Deleted(self.world).into());
        }
        Ok(meta)
    }

    /// Where each named item was enqueued before.
    async fn known<T: Transaction>(&self, tx: &mut T) -> Result<BTreeMap<DedupeId, InboxSeq>, StoreError> {
        let mut known = BTreeMap::new();
        for id in self.items.iter().filter_map(|item| item.dedupe) {
            let seq = inbox_dedupe::read(tx, self.universe, self.world, id).await?;
            if let Some(seq) = seq.filter(|_| !planted(Mutant::DedupeSkipped)) {
                known.insert(id, seq);
            }
        }
        Ok(known)
    }

    /// The effect that finds a message which another one has sent under the same chosen name keeps the name as well. Those that are over make
    /// room for it.
    async fn note_sender<T: Transaction>(
        &self,
        tx: &mut T,
        id: DedupeId,
        effect: SendingEffect,
    ) -> Result<(), StoreError> {
        if planted(Mutant::SharedNameForgotten) {
            return Ok(());
        }
        let Self { universe, world, .. } = *self;
        let Some(mut known) = inbox_dedupe::known(tx, universe, world, id).await? else { return Ok(()) };
        if known.senders.iter().any(|sender| sender.is_same(&effect)) {
            return Ok(());
        }
        if known.senders.len() >= limits::MESSAGE_SENDERS_MAX {
            known.senders = open_ones(tx, known.senders).await?;
        }
        if known.senders.len() >= limits::MESSAGE_SENDERS_MAX {
            return Err(InboxError::SendersFull { world, max: limits::MESSAGE_SENDERS_MAX }.into());
        }
        known.senders.push(effect);
        inbox_dedupe::rewrite(tx, &known)
    }

    fn write<T: Transaction>(&self, tx: &mut T, index: u16, item: &Encoded) -> Result<(), StoreError> {
        let Self { universe, world, now_ns, dedupe_window_ns, .. } = *self;
        inbox_entry::write(tx, universe, world, index, item.bytes.clone())?;
        let Some(id) = item.dedupe else { return Ok(()) };
        let expires_at_ns = now_ns.saturating_add(dedupe_window_ns);
        inbox_dedupe::write(tx, universe, world, id, index, expires_at_ns, self.sent_by)?;
        dedupe_bucket::write(tx, universe, &Ending::new(DedupeKind::Inbox, world, id.as_hash(), expires_at_ns))
    }
}

impl Protocol for Enqueue {
    type Output = Vec<Placement>;

    fn on_unknown(&self) -> OnUnknown {
        let all_named = self.items.iter().all(|item| item.dedupe.is_some());
        if all_named { OnUnknown::RunAgain } else { OnUnknown::Report }
    }

    /// Many are sent at a time, and little is read: the world's state, which seldom changes, and a depth that is only looked at.
    fn source(&self) -> Source {
        Source::Cache
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan::reads(self.reads())
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<Placement>, StoreError> {
        let Self { universe, world, now_ns, .. } = *self;
        let meta = self.require_taker(tx).await?;
        // Nobody would answer before an operator comes.
        if let Some(hold) = meta.hold.as_ref().filter(|_| self.calls) {
            return Err(on_hold(world, hold).into());
        }
        let plan = plan(&self.items, &self.known(tx).await?, self.first_index);
        for (item, place) in self.items.iter().zip(&plan.places) {
            if let (Some(id), Some(effect), Placement::Known(_)) = (item.dedupe, self.sent_by, place) {
                self.note_sender(tx, id, effect).await?;
            }
        }
        if plan.added.items == 0 {
            return Ok(plan.places);
        }
        if self.bounded {
            let bounds = if self.commands { with_room_for_commands(meta.inbox) } else { meta.inbox };
            check_bounds(world, inbox_depth::read(tx, universe, world).await?, plan.added, bounds)?;
        }
        for (item, place) in self.items.iter().zip(&plan.places) {
            if let Placement::New { index, first: true } = place {
                self.write(tx, *index, item)?;
            }
        }
        inbox_depth::add(tx, universe, world, plan.added)?;
        notify::bump(tx, universe, world)?;
        if meta.hold.is_some() {
            return Ok(plan.places); // it is looked at when it is released
        }
        let (priority, hint) = (meta.ready_priority(), ReadyHint { at_ns: now_ns });
        if self.woken_by == WokenBy::ReadyQueue {
            ready::write(tx, universe, world, priority, &hint)?;
        } else if ready::ensure(tx, universe, world, priority, &hint).await? {
            return Ok(plan.places);
        }
        ready_notify::bump(tx, universe, ready::shard(world))?;
        Ok(plan.places)
    }
}

/// The reads before anything is enqueued under these names.
pub(in crate::protocol) fn reads_of(
    universe: UniverseId,
    world: WorldId,
    names: impl IntoIterator<Item = DedupeId>,
) -> impl Iterator<Item = Read> {
    let known = move |id| Read::Range(inbox_dedupe::prefix(universe, world, id).span().read(1));
    std::iter::once(world_meta::key(universe, world).planned()).chain(names.into_iter().map(known))
}

/// The place of one item, before the stamp of the commit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// At this index of the commit; not `first` when an item before it in the batch has the same name.
    New {
        index: u16,
        first: bool,
    },
    Known(InboxSeq),
}

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    places: Vec<Placement>,
    added: Depth,
}

fn plan(items: &[Encoded], known: &BTreeMap<DedupeId, InboxSeq>, first_index: u16) -> Plan {
    let mut in_batch: BTreeMap<DedupeId, u16> = BTreeMap::new();
    let mut plan = Plan { places: Vec::with_capacity(items.len()), added: Depth::default() };
    let mut next = first_index; // a batch is bounded far below 16 bits
    for item in items {
        let place = match item.dedupe.and_then(|id| known.get(&id)) {
            Some(seq) => Placement::Known(*seq),
            None => match item.dedupe.and_then(|id| in_batch.get(&id)) {
                Some(index) => Placement::New { index: *index, first: false },
                None => {
                    let index = next;
                    next += 1;
                    in_batch.extend(item.dedupe.map(|id| (id, index)));
                    plan.added = [plan.added, item.depth].into_iter().sum();
                    Placement::New { index, first: true }
                }
            },
        };
        plan.places.push(place);
    }
    plan
}

/// Beyond all that can be there without commands: receipts are never refused, and a world has at most one for each open intent.
fn with_room_for_commands(bounds: InboxBounds) -> InboxBounds {
    let items = limits::OPEN_INTENTS_MAX + limits::INBOX_COMMANDS_MAX;
    InboxBounds {
        items_max: bounds.items_max.saturating_add(items),
        bytes_max: bounds.bytes_max.saturating_add(items * limits::INBOX_ITEM_BYTES_MAX as u64),
    }
}

fn check_bounds(world: WorldId, depth: Depth, added: Depth, bounds: InboxBounds) -> Result<(), InboxError> {
    let items = depth.items.saturating_add(added.items);
    let bytes = depth.bytes.saturating_add(added.bytes);
    if items > bounds.items_max || bytes > bounds.bytes_max {
        return Err(InboxError::Full { world, items: depth.items, bytes: depth.bytes });
    }
    Ok(())
}

/// The sequences, now that the commit has its stamp.
pub(in crate::protocol) fn placed(places: &[Placement], stamp: Option<Stamp>) -> Vec<Enqueued> {
    let place = |place: &Placement| match (*place, stamp) {
        (Placement::Known(seq), _) => Some(Enqueued { seq, before: true }),
        (Placement::New { index, first }, Some(stamp)) => {
            Some(Enqueued { seq: InboxSeq::new(stamp, index), before: !first })
        }
        (Placement::New { .. }, None) => None, // a commit with a new item has written, so it has a stamp
    };
    places.iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(dedupe: Option<&str>) -> Encoded {
        let depth = Depth { items: 1, bytes: 10 };
        Encoded { bytes: vec![0; 10], depth, dedupe: dedupe.map(DedupeId::idempotency_key) }
    }

    #[test]
    fn unnamed_items_are_always_new() {
        let plan = plan(&[encoded(None), encoded(None)], &BTreeMap::new(), 0);
        assert_eq!(plan.places, [0, 1].map(|index| Placement::New { index, first: true }));
        assert_eq!(plan.added, Depth { items: 2, bytes: 20 });
    }

    #[test]
    fn a_known_name_keeps_its_place_and_a_repeated_one_shares_it() {
        let seq = InboxSeq::new(Stamp::new(3, 0), 4);
        let known = BTreeMap::from([(DedupeId::idempotency_key("known"), seq)]);
        let items = [encoded(Some("known")), encoded(Some("a")), encoded(None), encoded(Some("a"))];
        let plan = plan(&items, &known, 0);
        let new = |index, first| Placement::New { index, first };
        assert_eq!(plan.places, [Placement::Known(seq), new(0, true), new(1, true), new(0, false)]);
        assert_eq!(plan.added.items, 2);
    }

    #[test]
    fn a_bound_is_reached_by_items_or_by_bytes() {
        let (world, bounds) = (WorldId::from_bytes([1; 16]), InboxBounds { items_max: 3, bytes_max: 100 });
        let depth = Depth { items: 2, bytes: 50 };
        assert_eq!(check_bounds(world, depth, Depth { items: 1, bytes: 50 }, bounds), Ok(()));
        assert!(check_bounds(world, depth, Depth { items: 2, bytes: 1 }, bounds).is_err());
        assert!(check_bounds(world, depth, Depth { items: 1, bytes: 51 }, bounds).is_err());
    }
}
