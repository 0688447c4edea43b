//! Effects that are in someone's hands as soon as they are published.
//!
//! An effect waits in a queue until an adapter worker claims it. Where its world runs in the process of an adapter worker that
//! has a hand free, the turn publishes it as claimed already, and hands it over once that is durable: one commit less, and
//! no look into the queue. Whatever becomes of the hand-over, the claim is like any other: it runs out if nobody carries
//! the effect out. A turn that does not know whether it was applied says so, and the worker looks whether there is a claim.

use crate::attempts::Attempts;
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

/// The hands of an adapter worker.
pub struct Hands {
    worker: WorkerId,
    claim_ttl_ns: u64,
    /// Of the whole process.
    attempts: Arc<Attempts>,
    state: Mutex<State>,
}

/// The hands that worlds of a process put their effects into. Clones are the same ones.
pub(crate) type Employed = Arc<Mutex<Option<Arc<Hands>>>>;

struct State {
    kinds: BTreeMap<Arc<str>, Kind>,
    /// Bounded by the hands. `None` once the worker takes nothing more.
    given: Option<mpsc::UnboundedSender<Given>>,
}

struct Kind {
    free: usize,
    max: usize,
    /// Calls that are over, whose answers are not durable yet.
    answering: usize,
    offer: Offer,
}

/// Which hands of a kind worlds may put effects into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// None: all must stand in the queue.
    None,
    /// As long as more than half of them are free: something waits in the queue, and must find some.
    Surplus,
    All,
}

impl Kind {
    fn new(hands: usize) -> Self {
        Self { free: hands, max: hands, answering: 0, offer: Offer::None }
    }

    /// How many calls may begin: never more are held than twice the hands, those included that are only answering.
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

/// What worlds give to an adapter worker.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind, and a box for each would cost more")]
pub enum Given {
    InHand(InHand),
    InDoubt(InDoubt),
}

/// Effects that are perhaps claimed: nobody knows whether the commit was applied.
pub struct InDoubt {
    /// Where the claims are, if there are any.
    pub queue_shards: Vec<QueueShard>,
    pub token: [u8; 16],
    /// As many as there may be claims.
    pub hands: Vec<Hand>,
}

/// An effect with the hand that holds it.
pub struct InHand {
    pub effect: ClaimedEffect,
    pub hand: Hand,
}

/// One effect may be carried out. Dropped, the hand is free again.
pub struct Hand {
    hands: Arc<Hands>,
    kind: Arc<str>,
    is_used: bool,
    is_answering: bool,
}

/// A hand for an effect that is about to be published. The worker does not end while there is one.
pub(crate) struct Reserved {
    hand: Hand,
    claim: Claim,
    given: mpsc::UnboundedSender<Given>,
}

impl Hands {
    /// So many for each kind, none of them offered; and where the effects arrive. That ends once the hands are closed and none is
    /// reserved.
    pub fn new(
        worker: WorkerId,
        claim_ttl_ns: u64,
        attempts: Arc<Attempts>,
        kinds: impl IntoIterator<Item = (String, usize)>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Given>) {
        let (given, arriving) = mpsc::unbounded();
        let kinds = kinds.into_iter().map(|(kind, hands)| (kind.into(), Kind::new(hands))).collect();
        let state = Mutex::new(State { kinds, given: Some(given) });
        (Arc::new(Self { worker, claim_ttl_ns, attempts, state }), arriving)
    }

    /// Takes free hands of a kind, for what waits in the queue.
    pub fn take(self: &Arc<Self>, kind: &str, max: usize, now_ns: u64) -> Vec<Hand> {
        let mut state = self.state.lock();
        let Some((kind, taken)) = state.take(kind, max, |free| self.attempts.admit(free, now_ns)) else {
            return Vec::new();
        };
        (0..taken).map(|_| Hand::new(self.clone(), kind.clone())).collect()
    }

    /// Whether effects of a kind may come past the queue.
    pub fn offer(&self, kind: &str, offer: Offer) {
        if let Some(kind) = self.state.lock().kinds.get_mut(kind) {
            kind.offer = offer;
        }
    }

    /// Nothing more is taken past the queue.
    pub fn close(&self) {
        self.state.lock().given = None;
    }

    /// A hand for an effect, unless it must go through the queue: because others stand there and need the hands, or because its rate
    /// is limited, which is reckoned there.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        item: &EffectItem,
        now_ns: u64,
        token: impl FnOnce() -> [u8; 16],
    ) -> Option<Reserved> {
        let mut state = self.state.lock();
        let given = state.given.clone().filter(|given| !given.is_closed() && item.terms.rate.is_none())?;
        state.kinds.get(item.kind.as_str()).filter(|kind| kind.is_offered())?;
        let admit = |free| self.attempts.admit(free, now_ns);
        let (kind, _) = state.take(&item.kind, 1, admit).filter(|(_, taken)| *taken > 0)?;
        let deadline_ns = now_ns.saturating_add(self.claim_ttl_ns);
        let claim = Claim { token: token(), worker: self.worker, deadline_ns, attempt: 1 };
        Some(Reserved { hand: Hand::new(self.clone(), kind), claim, given })
    }
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

impl Hand {
    fn new(hands: Arc<Hands>, kind: Arc<str>) -> Self {
        Self { hands, kind, is_used: false, is_answering: false }
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
            self.hands.attempts.end(true);
        }
        if let Some(kind) = self.hands.state.lock().kinds.get_mut(&self.kind).filter(|_| !was_answering) {
            kind.free += 1;
            kind.answering += 1;
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if !self.is_answering {
            self.hands.attempts.end(self.is_used);
        }
        match self.hands.state.lock().kinds.get_mut(&self.kind) {
            Some(kind) if self.is_answering => kind.answering -= 1,
            Some(kind) => kind.free += 1,
            None => {}
        }
    }
}

impl Reserved {
    pub(crate) fn claim(&self) -> Claim {
        self.claim
    }

    /// The effect was published under the claim, with this stamp and index.
    pub(crate) fn give(self, universe: UniverseId, (stamp, index): (Stamp, u16), item: EffectItem) {
        let Self { hand, claim, given } = self;
        let (queue_shard, seq) = (QueueShard::of(&item.kind, item.intent), QueueSeq::new(stamp, index));
        let (world, intent) = (item.world, item.intent);
        let proof = EffectClaim { universe, queue_shard, seq, token: claim.token, world, intent };
        // If the worker is gone, the claim runs out.
        let _gone = given.unbounded_send(Given::InHand(InHand { effect: ClaimedEffect { proof, claim, item }, hand }));
    }

    /// Nobody knows whether the effect was published under the claim.
    pub(crate) fn doubt(self, item: &EffectItem) {
        let Self { hand, claim, given } = self;
        let queue_shards = vec![QueueShard::of(&item.kind, item.intent)];
        // If the worker is gone, the claim runs out.
        let _gone =
            given.unbounded_send(Given::InDoubt(InDoubt { queue_shards, token: claim.token, hands: vec![hand] }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempts::AttemptBounds;
    use futures_util::{FutureExt, StreamExt};
    use mundi_model::{Height, IntentHash, WorldId, record::Payload};
    use mundi_store::keyspace::effect_pending::{EffectTerms, RateTerms};

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
        }
    }

    fn reserve(hands: &Arc<Hands>, item: &EffectItem) -> Option<Reserved> {
        hands.reserve(item, 0, || [7; 16])
    }

    #[test]
    fn a_hand_is_reserved_only_where_the_queue_has_no_say() {
        let (hands, _arriving) = Hands::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 2)]);
        let plain = item("a", None);
        assert!(reserve(&hands, &plain).is_none(), "they are not offered");
        hands.offer("a", Offer::All);
        assert!(reserve(&hands, &item("b", None)).is_none(), "nobody serves it");
        let rate = RateTerms { per_second: 1, burst: 1 };
        assert!(reserve(&hands, &item("a", Some(rate))).is_none(), "its turn is reckoned in the queue");
        let (one, two) = (reserve(&hands, &plain), reserve(&hands, &plain));
        assert!(one.is_some() && two.is_some() && reserve(&hands, &plain).is_none());
        assert!(hands.take("a", 8, 0).is_empty());
        drop(one);
        assert_eq!(hands.take("a", 8, 0).len(), 1, "one that is dropped is free again");
        hands.offer("a", Offer::None);
        assert!(reserve(&hands, &plain).is_none());
    }

    #[test]
    fn half_of_the_hands_are_for_what_waits() {
        let (hands, _arriving) = Hands::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 4)]);
        hands.offer("a", Offer::Surplus);
        let plain = item("a", None);
        let taken = [reserve(&hands, &plain), reserve(&hands, &plain), reserve(&hands, &plain)];
        assert_eq!(taken.iter().flatten().count(), 2);
        assert_eq!(hands.take("a", 8, 0).len(), 2);
        let (hands, _arriving) = Hands::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 1)]);
        hands.offer("a", Offer::Surplus);
        assert!(reserve(&hands, &plain).is_none() && hands.take("a", 8, 0).len() == 1, "the only one is, too");
    }

    #[test]
    fn what_is_held_is_bounded_by_twice_the_hands() {
        let (hands, _arriving) = Hands::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 2)]);
        hands.offer("a", Offer::All);
        let mut answering = hands.take("a", 8, 0);
        answering.iter_mut().for_each(Hand::call_is_over);
        answering.push(hands.take("a", 1, 0).remove(0));
        answering[2].call_is_over();
        assert_eq!(hands.take("a", 8, 0).len(), 1, "three are held");
        answering.push(hands.take("a", 1, 0).remove(0));
        assert!(hands.take("a", 8, 0).is_empty() && reserve(&hands, &item("a", None)).is_none(), "four are held");
        drop(answering);
        assert_eq!(hands.take("a", 8, 0).len(), 2);
    }

    #[test]
    fn a_hand_counts_against_the_bound_of_the_process_until_its_call_is_over() {
        let attempts = Arc::new(Attempts::new(AttemptBounds { at_a_time_max: 2, per_second_max: 3 }));
        let hands_of = |kind: &str| Hands::new(WorkerId::new(1).unwrap(), 5, attempts.clone(), [(kind.to_owned(), 8)]);
        let ((one, _one), (other, _other)) = (hands_of("a"), hands_of("b")); // of two universes
        other.offer("b", Offer::All);
        let mut taken = one.take("a", 8, 0);
        assert_eq!(taken.len(), 2);
        assert!(other.take("b", 8, 0).is_empty() && reserve(&other, &item("b", None)).is_none());
        taken.pop(); // never used
        let mut reserved = reserve(&other, &item("b", None)).unwrap();
        for hand in [&mut taken[0], &mut reserved.hand] {
            hand.call_begins();
            hand.call_is_over();
        }
        assert_eq!(one.take("a", 8, 0).len(), 1, "three in a second, of which two were made");
    }

    #[test]
    fn who_closes_gets_what_was_reserved_before() {
        let (hands, mut arriving) = Hands::new(WorkerId::new(1).unwrap(), 5, Arc::default(), [("a".to_owned(), 2)]);
        hands.offer("a", Offer::All);
        let plain = item("a", None);
        let (given, dropped) = (reserve(&hands, &plain).unwrap(), reserve(&hands, &plain).unwrap());
        hands.close();
        assert!(reserve(&hands, &plain).is_none());
        let claim = given.claim();
        assert_eq!((claim.deadline_ns, claim.attempt, claim.token), (5, 1, [7; 16]));
        given.give(UniverseId::from_bytes([3; 16]), (Stamp::new(9, 1), 4), plain.clone());
        let Some(Given::InHand(arrived)) = arriving.next().now_or_never().unwrap() else {
            panic!("nothing is in doubt")
        };
        assert_eq!(arrived.effect.proof.seq, QueueSeq::new(Stamp::new(9, 1), 4));
        assert!(arriving.next().now_or_never().is_none(), "one is reserved still");
        drop(dropped);
        assert!(arriving.next().now_or_never().unwrap().is_none());
    }
}
