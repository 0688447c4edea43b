//! Effects in a slot of their world's process, from the turn on that asks for them.

use super::{Store, TERMS, TTL_NS, cancel, claim, complete, fail, reap, status, store, turn, turn_with};
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Code, Coded, IntentHash, WorkerId, limits,
    record::{Body, Intent, Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence, StoreError,
    keyspace::{
        Family, Parts,
        effect_dedupe::{self, EffectStatus},
        effect_pending::EffectTerms,
        queue::Claim,
    },
    protocol::{
        AnsweredEffect, ClaimedEffect, Completed, ExtendClaims, InProcess, Repeat, delete_world, expire_dedupe,
    },
    testing::{ask_in_process, engine_contents, note_body, receipts},
};
use pollster::block_on;
use std::time::Duration;

/// A world that has put an effect into a slot of its own process.
async fn in_slot(terms: EffectTerms) -> (Store, Fence, ClaimedEffect) {
    let store = store().await;
    let fence = store.live(1).await.unwrap();
    let (worker, deadline_ns) = (WorkerId::new(1).unwrap(), store.clock.now_ns() + TTL_NS);
    let claim = Claim { token: [1; 16], worker, deadline_ns, attempt: 1 };
    let claimed = ask_in_process(&store, fence, &["a"], terms, claim).await.unwrap().remove(0);
    (store, fence, claimed)
}

/// The turn that takes the receipt from the slot.
async fn take(store: &Store, fence: Fence, claimed: &ClaimedEffect, bodies: Vec<Body>) -> Result<(), StoreError> {
    let answered = AnsweredEffect { claim: claimed.proof, status: ReceiptStatus::Ok };
    turn_with(store, fence, bodies, InProcess { answered: vec![answered], ..InProcess::default() }).await
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
        let (store, fence, claimed) = in_slot(TERMS).await;
        assert_eq!(effect_keys(&store).await, 1);
        take(&store, fence, &claimed, vec![Body::Cancel(claimed.proof.intent)]).await.unwrap();
        assert_eq!(effect_keys(&store).await, 0, "also if the same turn would have withdrawn it");
        let again = take(&store, fence, &claimed, vec![note_body(1)]).await.unwrap_err();
        assert_eq!(again.code(), Code::EffectClaimLost);
    });
}

/// The turn that took the receipt was applied, and its answer was lost: the adapter continues through the inbox.
#[test]
fn an_answer_that_a_turn_of_unknown_fate_took_is_recognized_and_not_called_a_lost_claim() {
    block_on(async {
        let (store, fence, claimed) = in_slot(TERMS).await;
        take(&store, fence, &claimed, vec![note_body(1)]).await.unwrap();
        let before = engine_contents(&store.engine).await.unwrap();
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Before);
        assert_eq!(engine_contents(&store.engine).await.unwrap(), before, "there is no second receipt");

        // While someone else holds the effect, a wrong token is a lost claim, whatever is known of the intent.
        let (store, _, claimed) = in_slot(TERMS).await;
        let mut forged = claimed.clone();
        forged.proof.token = [9; 16];
        assert_eq!(complete(&store, &forged).await.unwrap_err().code(), Code::EffectClaimLost);
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

        let (store, fence, claimed) = in_slot(TERMS).await;
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
            let (store, fence, claimed) = in_slot(TERMS).await;
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
            let (store, fence, claimed) = in_slot(TERMS).await;
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
        let (store, fence, claimed) = in_slot(TERMS).await;
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Delivered);
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Before);
        assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
    });
}

#[test]
fn an_effect_in_a_hand_goes_with_its_world() {
    block_on(async {
        for is_reaped in [false, true] {
            let (store, fence, claimed) = in_slot(TERMS).await;
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

#[test]
fn a_claim_that_runs_out_beside_a_damaged_state_is_buried_and_the_state_left_as_it_is() {
    block_on(async {
        let (store, fence, claimed) = in_slot(TERMS).await;
        let (state, damage) = (effect_dedupe::key(store.universe, fence.world, claimed.proof.intent), [0xff, 0x00]);
        let mut tx = store.engine.begin().await.unwrap();
        tx.put(state.as_bytes(), damage.to_vec()).unwrap();
        tx.commit().await.unwrap();
        store.clock.advance(Duration::from_nanos(TTL_NS + 1));
        assert_eq!(reap(&store, "a").await.buried, 1);
        let mut tx = store.engine.begin().await.unwrap();
        assert_eq!(tx.get(state.as_bytes()).await.unwrap().unwrap()[..], damage, "for who looks into it");
        assert_eq!(effect_keys(&store).await, 1, "the claim is gone");
    });
}
