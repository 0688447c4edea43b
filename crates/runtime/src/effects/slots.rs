//! Effects that start as soon as they are published.
//!
//! An effect waits in a queue until an adapter worker claims it. Where its world runs in the process of an adapter worker with
//! a free slot, the turn publishes the effect as claimed already, and hands it over once that is durable: one commit less, and
//! no read of the queue. Whatever becomes of the handover, the claim is like any other: it expires if nobody carries the effect
//! out. A turn whose commit has an unknown result says so, and the worker looks for the claim.

use super::attempts::Attempts;
use futures_channel::mpsc;
use mundi_model::{Stamp, UniverseId, WorkerId};
use mundi_store::{
    keyspace::{
        QueueShard,
        effect_pending::EffectItem,
        queue::{Claim, QueueSeq},
    },
    protocol::{ClaimedEffect, EffectClaim},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// The slots of an adapter worker: so many calls of each kind may run at a time.
pub struct EffectSlots {
    worker: WorkerId,
    claim_ttl_ns: u64,
    /// Of the whole process.
    attempts: Arc<Attempts>,
    state: Mutex<State>,
}

/// The slots of the adapter worker of this process, once it runs. Clones share them.
pub type RegisteredSlots = Arc<Mutex<Option<Arc<EffectSlots>>>>;

struct State {
    kinds: BTreeMap<Arc<str>, Kind>,
    /// Bounded by the slots. `None` once the worker takes nothing more.
    handover: Option<mpsc::UnboundedSender<Handover>>,
}

struct Kind {
    free: usize,
    max: usize,
    /// Calls that are over, whose answers are not durable yet.
    answering: usize,
    offer: Offer,
}

/// Which slots of a kind turns may reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// None: every effect goes through the queue.
    None,
    /// While more than half of them are free: effects wait in the queue and need the others.
    Surplus,
    All,
}

impl Kind {
    fn new(slots: usize) -> Self {
        Self { free: slots, max: slots, answering: 0, offer: Offer::None }
    }

    /// How many calls may begin: never more are held than twice the slots, those included that are only answering.
    fn available(&self) -> usize {
        self.free.min((self.max + self.free).saturating_sub(self.answering))
    }

    fn is_offered(&self) -> bool {
        match self.offer {
            Offer::None => false,
            Offer::Surplus => self.available() > self.max.div_ceil(2),
            Offer::All => true,
        }
    }
}

/// An effect that a turn hands to an adapter worker.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind, and a box for each would cost more")]
pub enum Handover {
    Start(StartEffect),
    InDoubt(InDoubt),
}

/// Effects that are perhaps claimed: the fate of the commit is unknown.
pub struct InDoubt {
    /// Where the claims are, if there are any.
    pub queue_shards: Vec<QueueShard>,
    pub token: [u8; 16],
    /// As many as there may be claims.
    pub slots: Vec<EffectSlot>,
}

/// A claimed effect, with the slot that its call takes.
pub struct StartEffect {
    pub effect: ClaimedEffect,
    pub slot: EffectSlot,
}

/// The right to run one call. Dropped, the slot is free again.
pub struct EffectSlot {
    slots: Arc<EffectSlots>,
    kind: Arc<str>,
    is_used: bool,
    is_answering: bool,
}

/// A slot for an effect that is about to be published. The worker does not end while there is one.
pub(crate) struct ReservedSlot {
    slot: EffectSlot,
    claim: Claim,
    handover: mpsc::UnboundedSender<Handover>,
}

impl EffectSlots {
    /// So many for each kind, none of them offered; and the stream on which effects arrive. It ends once the slots are closed and none is
    /// reserved.
    pub fn new(
        worker: WorkerId,
        claim_ttl_ns: u64,
        attempts: Arc<Attempts>,
        kinds: impl IntoIterator<Item = (String, usize)>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Handover>) {
        let (handover, arriving) = mpsc::unbounded();
        let kinds = kinds.into_iter().map(|(kind, slots)| (kind.into(), Kind::new(slots))).collect();
        let state = Mutex::new(State { kinds, handover: Some(handover) });
        (Arc::new(Self { worker, claim_ttl_ns, attempts, state }), arriving)
    }

    /// Takes free slots of a kind, for effects that wait in the queue.
    pub fn take(self: &Arc<Self>, kind: &str, max: usize, now_ns: u64) -> Vec<EffectSlot> {
        let mut state = self.state.lock();
        let Some((kind, taken)) = state.take(kind, max, |free| self.attempts.admit(free, now_ns)) else {
            return Vec::new();
        };
        (0..taken).map(|_| EffectSlot::new(self.clone(), kind.clone())).collect()
    }

    /// Says which slots of a kind turns may reserve.
    pub fn offer(&self, kind: &str, offer: Offer) {
        if let Some(kind) = self.state.lock().kinds.get_mut(kind) {
            kind.offer = offer;
        }
    }

    /// How many slots a kind has, if none of them is free.
    pub fn is_full(&self, kind: &str) -> Option<usize> {
        let state = self.state.lock();
        state.kinds.get(kind).filter(|kind| kind.available() == 0).map(|kind| kind.max)
    }

    /// No turn reserves a slot any more.
    pub fn close(&self) {
        self.state.lock().handover = None;
    }

    /// A slot for an effect, unless it must go through the queue: because others wait there and need the slots, or because its rate
    /// is limited or it names a lease, which is enforced there.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        item: &EffectItem,
        now_ns: u64,
        token: impl FnOnce() -> [u8; 16],
    ) -> Option<ReservedSlot> {
        let mut state = self.state.lock();
        let handover = state.handover.clone().filter(|handover| !handover.is_closed() && !must_queue(item))?;
        state.kinds.get(item.kind.as_str()).filter(|kind| kind.is_offered())?;
        let admit = |free| self.attempts.admit(free, now_ns);
        let (kind, _) = state.take(&item.kind, 1, admit).filter(|(_, taken)| *taken > 0)?;
        let deadline_ns = now_ns.saturating_add(self.claim_ttl_ns);
        let claim = Claim { token: token(), worker: self.worker, deadline_ns, attempt: 1 };
        Some(ReservedSlot { slot: EffectSlot::new(self.clone(), kind), claim, handover })
    }
}

/// Whether an effect begins only by a claim from the queue.
fn must_queue(item: &EffectItem) -> bool {
    item.terms.rate.is_some() || item.lease.is_some()
}

impl State {
    /// As many as are free, and as `admit` lets begin.
    fn take(&mut self, kind: &str, max: usize, admit: impl FnOnce(usize) -> usize) -> Option<(Arc<str>, usize)> {
        let name = self.kinds.get_key_value(kind)?.0.clone();
        let kind = self.kinds.get_mut(kind)?;
        let taken = admit(kind.available().min(max));
        kind.free -= taken;
        Some((name, taken))
    }
}

impl EffectSlot {
    fn new(slots: Arc<EffectSlots>, kind: Arc<str>) -> Self {
        Self { slots, kind, is_used: false, is_answering: false }
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Its call begins.
    pub fn call_begins(&mut self) {
        self.is_used = true;
    }

    /// Its call is over: the next one may begin while the answer is made durable.
    pub fn call_is_over(&mut self) {
        let was_answering = std::mem::replace(&mut self.is_answering, true);
        if !was_answering {
            self.slots.attempts.end(true);
        }
        if let Some(kind) = self.slots.state.lock().kinds.get_mut(&self.kind).filter(|_| !was_answering) {
            kind.free += 1;
            kind.answering += 1;
        }
    }
}

impl Drop for EffectSlot {
    fn drop(&mut self) {
        if !self.is_answering {
            self.slots.attempts.end(self.is_used);
        }
        match self.slots.state.lock().kinds.get_mut(&self.kind) {
            Some(kind) if self.is_answering => kind.answering -= 1,
            Some(kind) => kind.free += 1,
            None => {}
        }
    }
}

impl ReservedSlot {
    pub(crate) fn claim(&self) -> Claim {
        self.claim
    }

    /// The effect was published under the claim, with this stamp and index.
    pub(crate) fn start(self, universe: UniverseId, (stamp, index): (Stamp, u16), item: EffectItem) {
        let Self { slot, claim, handover } = self;
        let (queue_shard, seq) = (QueueShard::of(&item.kind, item.intent), QueueSeq::new(stamp, index));
        let (world, intent) = (item.world, item.intent);
        let proof = EffectClaim { universe, queue_shard, seq, token: claim.token, world, intent };
        // If the worker is gone, the claim expires.
        let _gone = handover
            .unbounded_send(Handover::Start(StartEffect { effect: ClaimedEffect { proof, claim, item }, slot }));
    }

    /// It is unknown whether the effect was published under the claim.
    pub(crate) fn leave_in_doubt(self, item: &EffectItem) {
        let Self { slot, claim, handover } = self;
        let queue_shards = vec![QueueShard::of(&item.kind, item.intent)];
        // If the worker is gone, the claim expires.
        let _gone =
            handover.unbounded_send(Handover::InDoubt(InDoubt { queue_shards, token: claim.token, slots: vec![slot] }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::attempts::AttemptBounds;
    use futures_util::{FutureExt, StreamExt};
    use mundi_model::{Height, IntentHash, WorldId, pool::LeaseId, record::Payload};
    use mundi_store::keyspace::effect_pending::{EffectLease, EffectTerms, RateTerms};

    fn item(kind: &str, rate: Option<RateTerms>) -> EffectItem {
        EffectItem {
            world: WorldId::from_bytes([1; 16]),
            intent: IntentHash::from_bytes([2; 32]),
            height: Height::new(1),
            kind: kind.to_owned(),
            params: Payload::Inline(Vec::new()),
            label: String::new(),
            policy_context: None,
            published_at_ns: 0,
            trace: None,
            terms: EffectTerms { rate, ..EffectTerms::default() },
            correlation_id: None,
            call: None,
            lease: None,
        }
    }

    fn reserve(slots: &Arc<EffectSlots>, item: &EffectItem) -> Option<ReservedSlot> {
        slots.reserve(item, 0, || [7; 16])
    }

    #[test]
    fn a_slot_is_reserved_only_where_the_queue_has_no_say() {
        let (slots, _arriving) = EffectSlots::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 2)]);
        let plain = item("a", None);
        assert!(reserve(&slots, &plain).is_none(), "they are not offered");
        slots.offer("a", Offer::All);
        assert!(reserve(&slots, &item("b", None)).is_none(), "nobody serves it");
        let rate = RateTerms { per_second: 1, burst: 1 };
        assert!(reserve(&slots, &item("a", Some(rate))).is_none(), "its turn is reckoned in the queue");
        let lease = EffectLease {
            pool: "gpus".to_owned(),
            world: WorldId::from_bytes([3; 16]),
            lease_id: LeaseId::from_bytes([4; 16]),
            lease_epoch: 1,
        };
        let leased = EffectItem { lease: Some(lease), ..plain.clone() };
        assert!(reserve(&slots, &leased).is_none(), "the claim compares its lease with that of the pool");
        let (one, two) = (reserve(&slots, &plain), reserve(&slots, &plain));
        assert!(one.is_some() && two.is_some() && reserve(&slots, &plain).is_none());
        assert!(slots.take("a", 8, 0).is_empty());
        assert_eq!((slots.is_full("a"), slots.is_full("b")), (Some(2), None));
        drop(one);
        assert_eq!(slots.is_full("a"), None);
        assert_eq!(slots.take("a", 8, 0).len(), 1, "one that is dropped is free again");
        slots.offer("a", Offer::None);
        assert!(reserve(&slots, &plain).is_none());
    }

    #[test]
    fn half_of_the_slots_are_for_what_waits() {
        let (slots, _arriving) = EffectSlots::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 4)]);
        slots.offer("a", Offer::Surplus);
        let plain = item("a", None);
        let taken = [reserve(&slots, &plain), reserve(&slots, &plain), reserve(&slots, &plain)];
        assert_eq!(taken.iter().flatten().count(), 2);
        assert_eq!(slots.take("a", 8, 0).len(), 2);
        let (slots, _arriving) = EffectSlots::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 1)]);
        slots.offer("a", Offer::Surplus);
        assert!(reserve(&slots, &plain).is_none() && slots.take("a", 8, 0).len() == 1, "the only one is, too");
    }

    #[test]
    fn what_is_held_is_bounded_by_twice_the_slots() {
        let (slots, _arriving) = EffectSlots::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 2)]);
        slots.offer("a", Offer::All);
        let mut answering = slots.take("a", 8, 0);
        answering.iter_mut().for_each(EffectSlot::call_is_over);
        answering.push(slots.take("a", 1, 0).remove(0));
        answering[2].call_is_over();
        assert_eq!(slots.take("a", 8, 0).len(), 1, "three are held");
        answering.push(slots.take("a", 1, 0).remove(0));
        assert!(slots.take("a", 8, 0).is_empty() && reserve(&slots, &item("a", None)).is_none(), "four are held");
        drop(answering);
        assert_eq!(slots.take("a", 8, 0).len(), 2);
    }

    #[test]
    fn a_slot_counts_against_the_bound_of_the_process_until_its_call_is_over() {
        let attempts = Arc::new(Attempts::new(AttemptBounds { at_a_time_max: 2, per_second_max: 3 }));
        let slots_of =
            |kind: &str| EffectSlots::new(WorkerId::new(1).unwrap(), 5, attempts.clone(), [(kind.to_owned(), 8)]);
        let ((one, _one), (other, _other)) = (slots_of("a"), slots_of("b")); // of two universes
        other.offer("b", Offer::All);
        let mut taken = one.take("a", 8, 0);
        assert_eq!(taken.len(), 2);
        assert!(other.take("b", 8, 0).is_empty() && reserve(&other, &item("b", None)).is_none());
        taken.pop(); // never used
        let mut reserved = reserve(&other, &item("b", None)).unwrap();
        for slot in [&mut taken[0], &mut reserved.slot] {
            slot.call_begins();
            slot.call_is_over();
        }
        assert_eq!(one.take("a", 8, 0).len(), 1, "three in a second, of which two were made");
    }

    #[test]
    fn who_closes_gets_what_was_reserved_before() {
        let (slots, mut arriving) =
            EffectSlots::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 2)]);
        slots.offer("a", Offer::All);
        let plain = item("a", None);
        let (given, dropped) = (reserve(&slots, &plain).unwrap(), reserve(&slots, &plain).unwrap());
        slots.close();
        assert!(reserve(&slots, &plain).is_none());
        let claim = given.claim();
        assert_eq!((claim.deadline_ns, claim.attempt, claim.token), (5, 1, [7; 16]));
        given.start(UniverseId::from_bytes([3; 16]), (Stamp::new(9, 1), 4), plain.clone());
        let Some(Handover::Start(arrived)) = arriving.next().now_or_never().unwrap() else {
            panic!("nothing is in doubt")
        };
        assert_eq!(arrived.effect.proof.seq, QueueSeq::new(Stamp::new(9, 1), 4));
        assert!(arriving.next().now_or_never().is_none(), "one is reserved still");
        drop(dropped);
        assert!(arriving.next().now_or_never().unwrap().is_none());
    }
}
