//! Effects from the turn that asks for them to the one receipt that answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{
    Code, Coded, IntentHash, WorkerId, limits,
    record::{Body, Intent, Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence, StoreError,
    journal::Batch,
    keyspace::{
        Family, Lane, Parts, Shard,
        effect_dedupe::{self, EffectStatus},
        effect_pending::{self, EffectTerms, RateTerms},
        queue::{Claim, Queue},
    },
    protocol::{
        Answer, AnsweredEffect, ClaimEffects, ClaimedEffect, CommitTurn, Completed, DropDeadLetter, ExtendClaims,
        FailEffect, Failed, Failure, InHands, KindCap, LanesToReap, ListDeadLetters, ReadDeadLetter, ReapEffects,
        Reaped, Repeat, ReplayDeadLetter, complete_effect, delete_world, expire_dedupe,
    },
    testing::{Fixture, Probe, ask, ask_in_hands, engine_contents, event, note_body, receipts},
};
use pollster::block_on;
use std::time::Duration;

type Store = Fixture<Probe<Memory>>;

const TTL_NS: u64 = 30_000_000_000;

const TERMS: EffectTerms =
    EffectTerms { timeout_ms: 1_000, attempts_max: 3, backoff_ms: 1_000, backoff_ms_max: 60_000, rate: None };

async fn store() -> Store {
    Fixture::new(Probe::new(Memory::new()), 1).await.unwrap()
}

/// Claims under a token that says who and which time it was.
async fn claim(store: &Store, kind: &str, token: u8) -> Vec<ClaimedEffect> {
    let request = ClaimEffects {
        universe: store.universe,
        kind: kind.into(),
        worker: WorkerId::new(u64::from(token)).unwrap(),
        token: [token; 16],
        items_max: 100,
        ttl_ns: TTL_NS,
        now_ns: store.clock.now_ns(),
        first: Shard::new(token % 16).unwrap(),
        cap: KindCap::default(),
    };
    store.run(&request).await.unwrap().output.effects
}

fn ok() -> Answer {
    Answer { status: ReceiptStatus::Ok, payload: Payload::Inline(vec![0xf5]), adapter: "test".into() }
}

async fn complete(store: &Store, claimed: &ClaimedEffect) -> Result<Completed, StoreError> {
    complete_effect(&store.engine, &store.clock, &store.blobs, claimed, ok(), false).await
}

async fn fail(store: &Store, claimed: &ClaimedEffect, repeat: Repeat) -> Failed {
    let failure = Failure { code: Code::EffectFailed, reason: "down".into(), repeat };
    let (now_ns, adapter) = (store.clock.now_ns(), "test".to_owned());
    let fail = FailEffect { claim: claimed.proof, failure, adapter, now_ns, dedupe_window_ns: 1 };
    store.run(&fail).await.unwrap().output
}

/// Reaps all lanes, and sees that those which need not be looked into have nothing.
async fn reap(store: &Store, kind: &str) -> Reaped {
    let mut all = Reaped::default();
    let (universe, items_max, now_ns) = (store.universe, 100, store.clock.now_ns());
    let look = LanesToReap { universe, kinds: vec!["other".into(), kind.into()], items_max, now_ns };
    let wanting = store.run(&look).await.unwrap().output;
    for lane in Lane::all(kind, Shard::new(0).unwrap()) {
        let reaped = store.run(&ReapEffects { universe, lane, touched: false, items_max, now_ns }).await.unwrap();
        assert!(wanting.contains(&lane) || reaped.stamp.is_none(), "{lane:?} was changed: {reaped:?}");
        let reaped = reaped.output;
        all.retrying += reaped.retrying;
        all.answered += reaped.answered;
        all.dropped += reaped.dropped;
        all.buried += reaped.buried;
    }
    all
}

async fn status(store: &Store, fence: Fence, intent: IntentHash) -> Option<EffectStatus> {
    let mut tx = store.engine.begin().await.unwrap();
    effect_dedupe::read(&mut tx, store.universe, fence.world, intent).await.unwrap().map(|dedupe| dedupe.status)
}

async fn cancel(store: &Store, fence: Fence, intent: IntentHash) {
    turn(store, fence, vec![Body::Cancel(intent)]).await;
}

async fn turn(store: &Store, fence: Fence, bodies: Vec<Body>) {
    let input = store.read_turn(fence).await.unwrap();
    let turn = CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, bodies).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        in_hands: InHands::default(),
        ready: false,
        now_ns: store.clock.now_ns(),
    };
    store.run(&turn).await.unwrap();
}

async fn asked(kinds: &[&str], terms: EffectTerms) -> (Store, Fence, Vec<IntentHash>) {
    let store = store().await;
    let fence = store.live(1).await.unwrap();
    let intents = ask(&store, fence, kinds, terms).await.unwrap();
    (store, fence, intents)
}

/// A world that has put an effect into a hand of its own process.
async fn in_hand(terms: EffectTerms) -> (Store, Fence, ClaimedEffect) {
    let store = store().await;
    let fence = store.live(1).await.unwrap();
    let (worker, deadline_ns) = (WorkerId::new(1).unwrap(), store.clock.now_ns() + TTL_NS);
    let claim = Claim { token: [1; 16], worker, deadline_ns, attempt: 1 };
    let claimed = ask_in_hands(&store, fence, &["a"], terms, claim).await.unwrap().remove(0);
    (store, fence, claimed)
}

/// The turn that takes the receipt from the hand.
async fn take(store: &Store, fence: Fence, claimed: &ClaimedEffect, bodies: Vec<Body>) -> Result<(), StoreError> {
    let input = store.read_turn(fence).await.unwrap();
    let answered = AnsweredEffect { claim: claimed.proof, status: ReceiptStatus::Ok };
    let turn = CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, bodies).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        in_hands: InHands { answered: vec![answered], ..InHands::default() },
        ready: false,
        now_ns: store.clock.now_ns(),
    };
    store.run(&turn).await.map(drop)
}

/// How many keys speak of effects.
async fn effect_keys(store: &Store) -> usize {
    let families = [Family::EffectPending, Family::EffectInflight, Family::EffectRetry, Family::EffectAttempt];
    let families = families.into_iter().chain([Family::EffectDedupe, Family::DedupeBucket]);
    let (contents, mut keys) = (engine_contents(&store.engine).await.unwrap(), 0);
    for family in families {
        keys += contents.iter().filter(|(key, _)| Parts::of(key).is_some_and(|parts| parts.family == family)).count();
    }
    keys
}

#[test]
fn an_effect_in_a_hand_is_one_key_and_leaves_none() {
    block_on(async {
        let (store, fence, claimed) = in_hand(TERMS).await;
        assert_eq!(effect_keys(&store).await, 1);
        take(&store, fence, &claimed, vec![Body::Cancel(claimed.proof.intent)]).await.unwrap();
        assert_eq!(effect_keys(&store).await, 0, "also if the same turn would have withdrawn it");
        let again = take(&store, fence, &claimed, vec![note_body(1)]).await.unwrap_err();
        assert_eq!(again.code(), Code::EffectClaimLost);
        assert_eq!(complete(&store, &claimed).await.unwrap_err().code(), Code::EffectClaimLost);
    });
}

#[test]
fn what_no_hand_has_is_withdrawn_without_a_trace() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let hash = IntentHash::of(b"an idle timer that every event sets anew");
        let params = Payload::Inline(vec![0xf6]);
        let announced = Intent { hash, kind: "timer".into(), params, label: String::new() };
        turn(&store, fence, vec![Body::Intent(announced), Body::Cancel(hash)]).await;
        assert_eq!(effect_keys(&store).await, 0, "it was never published");

        let (store, fence, claimed) = in_hand(TERMS).await;
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Delivered);
        store.clock.advance(Duration::from_nanos(limits::DEDUPE_WINDOW_NS));
        let dedupe = effect_dedupe::key(store.universe, fence.world, claimed.proof.intent);
        let mut tx = store.engine.begin().await.unwrap();
        tx.delete(dedupe.as_bytes()).unwrap(); // as if it had expired before the receipt was taken
        tx.commit().await.unwrap();
        cancel(&store, fence, claimed.proof.intent).await;
        assert_eq!(status(&store, fence, claimed.proof.intent).await, None, "its receipt waits in the inbox");
    });
}

#[test]
fn an_effect_that_is_withdrawn_from_a_hand_is_never_answered_nor_tried_again() {
    block_on(async {
        for is_reaped in [false, true] {
            let (store, fence, claimed) = in_hand(TERMS).await;
            cancel(&store, fence, claimed.proof.intent).await;
            let extend = ExtendClaims { claims: vec![claimed.proof], deadline_ns: store.clock.now_ns() + 1 };
            assert_eq!(store.run(&extend).await.unwrap().output.withdrawn, [claimed.proof]);
            // However long nobody looks at it.
            store.clock.advance(Duration::from_secs(400_000));
            expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
            match is_reaped {
                true => assert_eq!(reap(&store, "a").await.dropped, 1),
                false => assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Dropped),
            }
            assert_eq!(effect_keys(&store).await, 0);
            assert!(receipts(&store, fence).await.unwrap().is_empty());
        }
    });
}

#[test]
fn an_effect_whose_hand_fails_or_dies_is_tried_again_and_answered_once() {
    block_on(async {
        for is_reaped in [false, true] {
            let (store, fence, claimed) = in_hand(TERMS).await;
            match is_reaped {
                true => {
                    store.clock.advance(Duration::from_nanos(TTL_NS + 1));
                    assert_eq!(reap(&store, "a").await.retrying, 1);
                }
                false => drop(fail(&store, &claimed, Repeat::Backoff).await),
            }
            assert_eq!(status(&store, fence, claimed.proof.intent).await, Some(EffectStatus::Pending));
            let late = take(&store, fence, &claimed, vec![note_body(1)]).await.unwrap_err();
            assert_eq!(late.code(), Code::EffectClaimLost);
            store.clock.advance(Duration::from_secs(60));
            let second = claim(&store, "a", 2).await.remove(0);
            assert_eq!((second.proof.seq, second.claim.attempt), (claimed.proof.seq, 2));
            assert_eq!(complete(&store, &second).await.unwrap(), Completed::Delivered);
            assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Before);
            assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
        }
    });
}

#[test]
fn an_effect_in_a_hand_is_answered_through_the_inbox_if_no_turn_takes_it() {
    block_on(async {
        let (store, fence, claimed) = in_hand(TERMS).await;
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Delivered);
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Before);
        assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
    });
}

#[test]
fn an_effect_in_a_hand_goes_with_its_world() {
    block_on(async {
        for is_reaped in [false, true] {
            let (store, fence, claimed) = in_hand(TERMS).await;
            delete_world(&store.engine, &store.clock, fence).await.unwrap();
            let extend = ExtendClaims { claims: vec![claimed.proof], deadline_ns: store.clock.now_ns() + 1 };
            assert_eq!(store.run(&extend).await.unwrap().output.withdrawn, [claimed.proof]);
            store.clock.advance(Duration::from_nanos(TTL_NS + 1));
            match is_reaped {
                true => assert_eq!(reap(&store, "a").await.dropped, 1),
                false => assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Dropped),
            }
            assert_eq!(effect_keys(&store).await, 0);
        }
    });
}

/// Found by the simulator: the receipts of one commit overwrote each other, and a world waited forever.
#[test]
fn claims_of_one_world_that_run_out_together_are_all_answered() {
    block_on(async {
        let (store, fence, intents) = asked(&["flaky"; 40], EffectTerms { attempts_max: 1, ..TERMS }).await;
        assert_eq!(claim(&store, "flaky", 1).await.len(), 40);
        store.clock.advance(Duration::from_nanos(TTL_NS + 1));
        assert_eq!(reap(&store, "flaky").await.answered, 40);
        let found = receipts(&store, fence).await.unwrap();
        assert_eq!(found.len(), 40);
        assert!(intents.iter().all(|intent| found.iter().filter(|receipt| receipt.intent == *intent).count() == 1));
    });
}

#[test]
fn an_effect_is_claimed_once_and_answered_once() {
    block_on(async {
        let (store, fence, intents) = asked(&["a", "a", "b"], TERMS).await;
        let claimed = claim(&store, "a", 1).await;
        assert_eq!(claimed.len(), 2, "only what is of the kind");
        assert!(claim(&store, "a", 2).await.is_empty(), "what is claimed is gone for others");
        assert!(claimed.iter().all(|claimed| claimed.claim.attempt == 1));
        for claimed in &claimed {
            assert_eq!(complete(&store, claimed).await.unwrap(), Completed::Delivered);
            assert_eq!(complete(&store, claimed).await.unwrap(), Completed::Before);
        }
        let found = receipts(&store, fence).await.unwrap();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|receipt| intents[..2].contains(&receipt.intent) && receipt.kind == "a"));
        assert_eq!(status(&store, fence, intents[0]).await, Some(EffectStatus::Complete(ReceiptStatus::Ok)));
        assert_eq!(status(&store, fence, intents[2]).await, Some(EffectStatus::Pending));
    });
}

/// FACTS, bugs 2 and 4: an acknowledgement without a token, and a removal before the owner was checked.
#[test]
fn a_slow_worker_whose_claim_was_reaped_cannot_acknowledge() {
    block_on(async {
        let (store, fence, _) = asked(&["a"], TERMS).await;
        let slow = claim(&store, "a", 1).await.remove(0);
        store.clock.advance(Duration::from_nanos(TTL_NS));
        assert_eq!(reap(&store, "a").await.retrying, 1);
        let before = engine_contents(&store.engine).await.unwrap();
        assert_eq!(complete(&store, &slow).await.unwrap_err().code(), Code::EffectClaimLost);
        assert_eq!(fail(&store, &slow, Repeat::Never).await, Failed::Over);
        assert_eq!(engine_contents(&store.engine).await.unwrap(), before, "nothing was changed");

        store.clock.advance(Duration::from_secs(1));
        let second = claim(&store, "a", 2).await.remove(0);
        assert_eq!(second.claim.attempt, 2);
        assert_eq!(complete(&store, &slow).await.unwrap_err().code(), Code::EffectClaimLost, "while another holds it");
        assert_eq!(complete(&store, &second).await.unwrap(), Completed::Delivered);
        assert_eq!(complete(&store, &slow).await.unwrap(), Completed::Before);
        assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
    });
}

/// FACTS, bug 5: the place of an intent depends on nothing but its kind and its hash.
#[test]
fn an_item_lies_where_any_release_looks_for_it() {
    let lane = Lane::of("http.request", IntentHash::from_bytes([7; 32]));
    let key = effect_pending::key(
        mundi_model::UniverseId::from_bytes([0; 16]),
        lane,
        mundi_store::keyspace::queue::QueueSeq::from_bytes([0; 12]),
    );
    assert_eq!(format!("{key:?}")[34..52], *"353f6f287a2a49f60e");
}

/// FACTS, bug 6: effects deduplicated by a hash that left out the world.
#[test]
fn the_same_intent_of_two_worlds_is_two_effects() {
    block_on(async {
        let store = store().await;
        let (one, two) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
        for fence in [one, two] {
            ask(&store, fence, &["a"], TERMS).await.unwrap();
        }
        let claimed = claim(&store, "a", 1).await;
        assert_eq!(claimed.len(), 2);
        // Whatever the hashes are: an answer to one world's effect is none to the other's.
        complete(&store, &claimed[0]).await.unwrap();
        let mixed = mundi_store::protocol::EffectClaim { world: claimed[1].item.world, ..claimed[0].proof };
        let mixed = ClaimedEffect { proof: mixed, ..claimed[0].clone() };
        assert!(complete(&store, &mixed).await.is_err());
        complete(&store, &claimed[1]).await.unwrap();
        for fence in [one, two] {
            assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
        }
    });
}

/// FACTS, bug 7: sequence numbers that restart when a queue runs empty.
#[test]
fn a_sequence_is_never_used_twice_and_stays_with_its_item() {
    block_on(async {
        let (store, fence, _) = asked(&["a"], TERMS).await;
        let first = claim(&store, "a", 1).await.remove(0);
        fail(&store, &first, Repeat::Backoff).await;
        store.clock.advance(Duration::from_secs(1));
        let again = claim(&store, "a", 2).await.remove(0);
        assert_eq!(again.proof.seq, first.proof.seq);
        complete(&store, &again).await.unwrap();
        let mut last = first.proof.seq;
        for token in 3..9 {
            ask(&store, fence, &["a"], TERMS).await.unwrap();
            let next = claim(&store, "a", token).await.remove(0);
            assert!(next.proof.seq > last);
            last = next.proof.seq;
            complete(&store, &next).await.unwrap();
        }
    });
}

/// FACTS, bug 8: intents that were published in another transaction than their records.
#[test]
fn no_turn_is_journaled_without_its_effects() {
    block_on(async {
        for operation in 0.. {
            let store = store().await;
            let fence = store.live(1).await.unwrap();
            let head = store.read_turn(fence).await.unwrap().head;
            store.engine.arm(operation, mundi_store::testing::Trouble::DieAfter);
            let done = ask(&store, fence, &["a", "b"], TERMS).await;
            store.engine.revive();
            let journaled = store.read_turn(fence).await.unwrap().head != head;
            let published = claim(&store, "a", 1).await.len() + claim(&store, "b", 2).await.len();
            assert_eq!(published, if journaled { 2 } else { 0 }, "dead after operation {operation}");
            if done.is_ok() {
                return;
            }
        }
    });
}

#[test]
fn a_failure_waits_and_the_budget_ends_in_an_error_receipt() {
    block_on(async {
        let (store, fence, intents) = asked(&["a"], TERMS).await;
        for (attempt, wait_s) in [(1, 1), (2, 2)] {
            let claimed = claim(&store, "a", attempt).await.remove(0);
            assert_eq!(claimed.claim.attempt, u32::from(attempt));
            assert!(matches!(fail(&store, &claimed, Repeat::Backoff).await, Failed::Retrying { .. }));
            store.clock.advance(Duration::from_secs(wait_s) - Duration::from_nanos(1));
            assert!(claim(&store, "a", 9).await.is_empty(), "not before its time");
            store.clock.advance(Duration::from_nanos(1));
        }
        let last = claim(&store, "a", 3).await.remove(0);
        assert_eq!(fail(&store, &last, Repeat::Backoff).await, Failed::Answered(ReceiptStatus::Error));
        let receipt = receipts(&store, fence).await.unwrap().remove(0);
        assert_eq!((receipt.intent, receipt.status), (intents[0], ReceiptStatus::Error));
        let Payload::Inline(bytes) = receipt.payload else { panic!("small") };
        let text = format!("{:?}", mundi_model::cbor::decode::<mundi_model::Value>(&bytes).unwrap());
        assert!(text.contains("EFFECT_FAILED") && text.contains("down"), "{text}");
    });
}

/// A worker whose clock is behind gives an item back for a time that others are past.
#[test]
fn a_retry_is_found_although_the_mark_has_passed_its_time() {
    block_on(async {
        let (store, _, _) = asked(&["a"; 17], TERMS).await;
        let claimed = claim(&store, "a", 1).await;
        let lane = |claimed: &ClaimedEffect| claimed.proof.lane;
        let twins = claimed.iter().find_map(|one| {
            let two = claimed.iter().find(|two| lane(one) == lane(two) && one.proof.seq != two.proof.seq)?;
            Some((one, two))
        });
        let (one, two) = twins.expect("seventeen items in sixteen lanes");
        store.clock.advance(Duration::from_secs(10));
        fail(&store, one, Repeat::Backoff).await;
        store.clock.advance(Duration::from_secs(10));
        assert_eq!(claim(&store, "a", 2).await.len(), 1, "the mark is beyond ten seconds now");
        let failure = Failure { code: Code::EffectFailed, reason: String::new(), repeat: Repeat::Backoff };
        let adapter = String::new();
        let late = FailEffect { claim: two.proof, failure, adapter, now_ns: 5, dedupe_window_ns: 1 };
        store.run(&late).await.unwrap();
        assert_eq!(claim(&store, "a", 3).await.len(), 1);
    });
}

#[test]
fn what_cannot_pass_is_answered_at_once() {
    block_on(async {
        let (store, fence, _) = asked(&["a"], TERMS).await;
        let claimed = claim(&store, "a", 1).await.remove(0);
        assert_eq!(fail(&store, &claimed, Repeat::Never).await, Failed::Answered(ReceiptStatus::Error));
        assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
    });
}

#[test]
fn workers_that_die_use_up_the_budget_and_leave_a_timeout() {
    block_on(async {
        let (store, fence, _) = asked(&["a"], TERMS).await;
        for token in 1..=3 {
            assert_eq!(claim(&store, "a", token).await.len(), 1);
            assert_eq!(reap(&store, "a").await, Reaped::default(), "a claim that stands is left alone");
            store.clock.advance(Duration::from_nanos(TTL_NS));
            let reaped = reap(&store, "a").await;
            assert_eq!((reaped.retrying, reaped.answered), if token < 3 { (1, 0) } else { (0, 1) });
            store.clock.advance(Duration::from_secs(10));
        }
        let found = receipts(&store, fence).await.unwrap();
        assert_eq!(found.iter().map(|receipt| receipt.status).collect::<Vec<_>>(), [ReceiptStatus::Timeout]);
        assert!(claim(&store, "a", 9).await.is_empty());
    });
}

#[test]
fn a_heartbeat_keeps_a_claim_and_says_when_it_is_lost_or_withdrawn() {
    block_on(async {
        let (store, fence, intents) = asked(&["a", "a"], TERMS).await;
        let claimed = claim(&store, "a", 1).await;
        let proofs: Vec<_> = claimed.iter().map(|claimed| claimed.proof).collect();
        store.clock.advance(Duration::from_nanos(TTL_NS - 1));
        let extend = ExtendClaims { claims: proofs.clone(), deadline_ns: store.clock.now_ns() + TTL_NS };
        assert_eq!(store.run(&extend).await.unwrap().output, Default::default());
        store.clock.advance(Duration::from_secs(1));
        assert_eq!(reap(&store, "a").await, Reaped::default());

        cancel(&store, fence, intents[0]).await;
        let extended = store.run(&extend).await.unwrap().output;
        assert_eq!(extended.withdrawn.iter().map(|claim| claim.intent).collect::<Vec<_>>(), [intents[0]]);
        store.clock.advance(Duration::from_nanos(TTL_NS));
        assert_eq!((reap(&store, "a").await.dropped, claim(&store, "a", 2).await.len()), (1, 0));
        assert_eq!(store.run(&extend).await.unwrap().output.lost.len(), 2);
    });
}

#[test]
fn a_cancelled_effect_is_never_called_and_never_answered() {
    block_on(async {
        let (store, fence, intents) = asked(&["a", "b"], TERMS).await;
        cancel(&store, fence, intents[0]).await;
        assert!(claim(&store, "a", 1).await.is_empty());
        let claimed = claim(&store, "b", 1).await.remove(0);
        cancel(&store, fence, intents[1]).await;
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Dropped);
        assert!(receipts(&store, fence).await.unwrap().is_empty());
        assert!(claim(&store, "b", 2).await.is_empty());
    });
}

#[test]
fn effects_of_a_deleted_world_are_dropped() {
    block_on(async {
        let (store, fence, _) = asked(&["a", "b"], TERMS).await;
        let claimed = claim(&store, "a", 1).await.remove(0);
        delete_world(&store.engine, &store.clock, fence).await.unwrap();
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Dropped);
        assert!(claim(&store, "b", 1).await.is_empty());
    });
}

#[test]
fn a_full_inbox_does_not_cost_an_answer() {
    block_on(async {
        let store = store().await;
        let world = mundi_store::testing::world_id(7);
        let bounds = mundi_store::keyspace::world_meta::InboxBounds { items_max: 1, bytes_max: 1_000 };
        store.create(world, Some(bounds)).await.unwrap();
        let fence = store.acquire(world, 1).await.unwrap();
        ask(&store, fence, &["a"], TERMS).await.unwrap();
        store.send(world, vec![event("x")]).await.unwrap();
        assert_eq!(store.send(world, vec![event("y")]).await.unwrap_err().code(), Code::InboxFull);
        let claimed = claim(&store, "a", 1).await.remove(0);
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Delivered);
    });
}

#[test]
fn a_dedupe_record_outlives_an_open_intent_and_ends_after_its_window() {
    block_on(async {
        let (store, fence, intents) = asked(&["a", "b"], TERMS).await;
        let hour = Duration::from_secs(3_600 + 300);
        store.clock.advance(hour * 100);
        expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        assert_eq!(status(&store, fence, intents[0]).await, Some(EffectStatus::Pending));
        complete(&store, &claim(&store, "a", 1).await[0]).await.unwrap();
        cancel(&store, fence, intents[1]).await;
        expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        assert_eq!(status(&store, fence, intents[0]).await, Some(EffectStatus::Complete(ReceiptStatus::Ok)));
        store.clock.advance(hour);
        expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        assert_eq!(status(&store, fence, intents[0]).await, None);
        assert_eq!(status(&store, fence, intents[1]).await, None);
        assert!(claim(&store, "b", 1).await.is_empty(), "a forgotten cancellation still holds");
    });
}

#[test]
fn a_rate_limit_spreads_effects_and_blocks_no_other_world() {
    block_on(async {
        let store = store().await;
        let (limited, free) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
        let rate = Some(RateTerms { per_second: 1, burst: 2 });
        ask(&store, limited, &["a"; 5], EffectTerms { rate, ..TERMS }).await.unwrap();
        ask(&store, free, &["a"; 3], TERMS).await.unwrap();
        let first = claim(&store, "a", 1).await;
        let of = |fence: Fence| first.iter().filter(|claimed| claimed.item.world == fence.world).count();
        assert_eq!((of(limited), of(free)), (2, 3));
        for token in 2..5 {
            assert!(claim(&store, "a", token).await.is_empty());
            store.clock.advance(Duration::from_secs(1));
            assert_eq!(claim(&store, "a", token).await.len(), 1, "one a second");
        }
        assert!(claim(&store, "a", 9).await.is_empty());
    });
}

#[test]
fn an_item_that_cannot_be_read_becomes_a_dead_letter_and_blocks_nobody() {
    block_on(async {
        let (store, _, intents) = asked(&["a"], TERMS).await;
        let lane = Lane::of("a", intents[0]);
        let bad = mundi_store::keyspace::queue::QueueSeq::from_bytes([0; 12]);
        let mut tx = store.engine.begin().await.unwrap();
        tx.put(effect_pending::key(store.universe, lane, bad).as_bytes(), vec![0xff, 0x00]).unwrap();
        tx.commit().await.unwrap();
        assert_eq!(claim(&store, "a", 1).await.len(), 1);
        let (universe, queue) = (store.universe, Queue::Effects);
        let list = ListDeadLetters { universe, queue, world: None, after: None, items_max: 10 };
        let letters = store.run(&list).await.unwrap().output;
        assert_eq!(letters.items.len(), 1);
        let seq = letters.items[0].seq;
        let letter = store.run(&ReadDeadLetter { universe, queue, seq }).await.unwrap().output;
        assert_eq!((letter.code.as_str(), &letter.item[..]), ("STORE_CORRUPT", &[0xff, 0x00][..]));
        let replay = ReplayDeadLetter { universe, queue, seq, now_ns: 1 };
        assert_eq!(store.run(&replay).await.unwrap_err().code(), Code::DeadLetterUnusable);
        let after = ListDeadLetters { after: Some(seq), ..list };
        assert!(store.run(&after).await.unwrap().output.items.is_empty());
        store.run(&DropDeadLetter { universe, queue, seq }).await.unwrap();
        assert_eq!(store.run(&replay).await.unwrap_err().code(), Code::DeadLetterNotFound);
    });
}

/// A scan of the dead costs more than all other work together.
#[test]
fn a_claim_looks_only_at_what_is_there() {
    block_on(async {
        let (store, fence, _) = asked(&["a"; 50], TERMS).await;
        for token in 1..20u8 {
            for claimed in claim(&store, "a", token).await {
                if token % 2 == 0 {
                    fail(&store, &claimed, Repeat::Backoff).await;
                    store.clock.advance(Duration::from_secs(3));
                } else {
                    complete(&store, &claimed).await.unwrap();
                }
            }
            reap(&store, "a").await;
            ask(&store, fence, &["a"; 50], TERMS).await.unwrap();
        }
        store.clock.advance(Duration::from_secs(100));
        claim(&store, "a", 30).await;
        store.engine.revive();
        claim(&store, "a", 31).await;
        let counts = store.engine.counts();
        assert!(counts.ranges <= 16 * 4 && counts.gets <= 16 * 4, "{counts:?}");
    });
}

/// Where there is a line between us and the engine, a trip costs more than what is asked on it.
#[test]
fn all_lanes_are_claimed_from_in_three_trips_and_an_answer_takes_one() {
    block_on(async {
        let (store, _, _) = asked(&["a"; 40], TERMS).await;
        store.engine.revive();
        let claimed = claim(&store, "a", 1).await;
        assert_eq!((claimed.len(), store.engine.counts().trips), (40, 3));
        store.engine.revive();
        complete(&store, &claimed[0]).await.unwrap();
        assert_eq!(store.engine.counts().trips, 1);
        store.engine.revive();
        reap(&store, "nothing").await;
        let trips = store.engine.counts().trips;
        assert!(trips <= 2 + 16 * 2, "a look at all lanes, then each of them: {trips}");
    });
}

#[test]
fn a_claim_says_when_the_next_attempt_is_due() {
    block_on(async {
        let (store, _, _) = asked(&["a"; 3], TERMS).await;
        let claimed = claim(&store, "a", 1).await;
        let mut dues = Vec::new();
        for claimed in &claimed {
            store.clock.advance(Duration::from_millis(10));
            match fail(&store, claimed, Repeat::Backoff).await {
                Failed::Retrying { not_before_ns } => dues.push(not_before_ns),
                other => panic!("{other:?}"),
            }
        }
        let request = |now_ns| ClaimEffects {
            universe: store.universe,
            kind: "a".into(),
            worker: WorkerId::new(9).unwrap(),
            token: [9; 16],
            items_max: 100,
            ttl_ns: TTL_NS,
            now_ns,
            first: Shard::new(3).unwrap(),
            cap: KindCap::default(),
        };
        let early = store.run(&request(store.clock.now_ns())).await.unwrap().output;
        assert_eq!((early.effects.len(), early.next_retry_ns), (0, dues.iter().min().copied()));
        let due = store.run(&request(dues[0])).await.unwrap().output;
        let rest = dues.iter().filter(|at_ns| **at_ns > dues[0]).min().copied();
        assert_eq!(due.next_retry_ns, rest);
        assert!(!due.effects.is_empty());
    });
}

/// Two workers that look at the same moment take different items.
#[test]
fn claims_at_the_same_time_never_share_an_item() {
    block_on(async {
        let (store, _, _) = asked(&["a"; 40], TERMS).await;
        let (a, b) = futures_util::join!(claim(&store, "a", 1), claim(&store, "a", 2));
        let mut intents: Vec<_> = a.iter().chain(&b).map(|claimed| claimed.item.intent).collect();
        intents.sort();
        intents.dedup();
        assert_eq!((a.len() + b.len(), intents.len()), (40, 40));
    });
}

/// Two answers at the same moment, of one holder that is confused: one receipt.
#[test]
fn answers_at_the_same_time_give_one_receipt() {
    block_on(async {
        let (store, fence, _) = asked(&["a"], TERMS).await;
        let claimed = claim(&store, "a", 1).await.remove(0);
        let (one, two) = futures_util::join!(complete(&store, &claimed), complete(&store, &claimed));
        let mut both = [one.unwrap(), two.unwrap()];
        both.sort_by_key(|completed| *completed as u8);
        assert_eq!(both, [Completed::Delivered, Completed::Before]);
        assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
    });
}

/// Two workers, forty worlds, and a kind of which the universe may have three at a time.
#[test]
fn a_kind_that_is_limited_in_the_universe_is_limited_whoever_claims_it() {
    block_on(async {
        let (store, first, _) = asked(&["a"; 5], TERMS).await;
        let second = store.live(2).await.unwrap();
        ask(&store, second, &["a"; 5], TERMS).await.unwrap();
        let cap = KindCap { calls_max: Some(3), rate: None };
        let claim = async |token: u8| {
            let now_ns = store.clock.now_ns();
            let claim = ClaimEffects {
                universe: store.universe,
                kind: "a".into(),
                worker: WorkerId::new(u64::from(token)).unwrap(),
                token: [token; 16],
                items_max: 2,
                ttl_ns: 30_000,
                now_ns,
                first: Shard::of(&[token]),
                cap,
            };
            store.run(&claim).await.unwrap().output
        };
        let held = [claim(1).await, claim(2).await, claim(3).await];
        let counts = held.each_ref().map(|claims| (claims.effects.len(), claims.capped));
        assert_eq!(counts, [(2, false), (1, true), (0, true)]);
        complete(&store, &held[0].effects[0]).await.unwrap();
        assert_eq!(claim(4).await.effects.len(), 1, "an answer makes room");
        assert!(first.world != second.world);
    });
}

#[test]
fn a_rate_of_a_kind_spreads_the_effects_of_all_worlds() {
    block_on(async {
        let (store, _, _) = asked(&["a"; 2], TERMS).await;
        let second = store.live(2).await.unwrap();
        ask(&store, second, &["a"; 2], TERMS).await.unwrap();
        let cap = KindCap { calls_max: None, rate: Some(RateTerms { per_second: 2, burst: 1 }) };
        let mut at = Vec::new();
        for token in 0..80u8 {
            let claim = ClaimEffects {
                universe: store.universe,
                kind: "a".into(),
                worker: WorkerId::new(1).unwrap(),
                token: [token; 16],
                items_max: 10,
                ttl_ns: u64::MAX / 2,
                now_ns: store.clock.now_ns(),
                first: Shard::of(&[token]),
                cap,
            };
            let claims = store.run(&claim).await.unwrap().output;
            at.extend(claims.effects.iter().map(|_| u64::from(token) / 5));
            store.clock.advance(Duration::from_millis(100));
        }
        assert_eq!(at.len(), 4);
        assert!(at.windows(2).all(|pair| pair[0] < pair[1]), "half a second apart: {at:?}");
    });
}
