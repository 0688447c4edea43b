//! Claims of effects: one worker at a time has an effect, and it is answered once.

use super::{TERMS, TTL_NS, asked, cancel, claim, complete, fail, reap, status, store};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Code, Coded, IntentHash, record::ReceiptStatus};
use mundi_store::{
    Clock, Protocol,
    keyspace::{
        QueueShard,
        effect_dedupe::EffectStatus,
        effect_pending::{self, EffectTerms},
        queue::Queue,
    },
    protocol::{
        ClaimedEffect, Completed, DropDeadLetter, ExtendClaims, Failed, ListDeadLetters, ReadDeadLetter, ReapEffects,
        Reaped, Repeat, ReplayDeadLetter, delete_world, expire_dedupe,
    },
    testing::{ask, engine_contents, event, receipts},
};
use pollster::block_on;
use std::time::Duration;

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

/// An acknowledgement needs its attempt token, and the owner is checked before the item is removed.
#[test]
fn a_slow_worker_whose_claim_was_reaped_cannot_acknowledge() {
    block_on(async {
        let (store, fence, _) = asked(&["a"], TERMS).await;
        let slow = claim(&store, "a", 1).await.remove(0);
        store.clock.advance(Duration::from_nanos(TTL_NS));
        assert_eq!(reap(&store, "a").await.retrying, 1);
        let before = engine_contents(&store.engine).await.unwrap();
        assert_eq!(complete(&store, &slow).await.unwrap_err().code(), Code::EffectClaimLost);
        assert_eq!(fail(&store, &slow, Repeat::Never).await, Failed::Lost);
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

/// A claim of a retry enters below the reaper's mark and lowers it. A reaper that raises the mark at the same time must not undo that:
/// it looks at nothing below, and if the holder died the world would wait for ever.
#[test]
fn a_retry_that_is_claimed_while_the_reaper_moves_on_is_reaped_after_its_time() {
    block_on(async {
        let (store, fence, _) = asked(&["a"], TERMS).await;
        let first = claim(&store, "a", 1).await.remove(0);
        let (universe, queue_shard) = (store.universe, first.proof.queue_shard);
        let reaper = |now_ns| ReapEffects { universe, queue_shard, touched: true, items_max: 100, now_ns, gone: None };
        fail(&store, &first, Repeat::Backoff).await;
        store.run(&reaper(store.clock.now_ns())).await.unwrap(); // its mark is above the effect now
        store.clock.advance(Duration::from_secs(1));
        ask(&store, fence, &["b"], TERMS).await.unwrap(); // so that there is something to move on to
        let mut reaping = store.engine.begin().await.unwrap();
        reaper(store.clock.now_ns()).run(&mut reaping).await.unwrap();
        assert_eq!(claim(&store, "a", 2).await.len(), 1, "tried again");
        assert!(reaping.commit().await.is_err(), "the mark is not what the reaper saw");
        store.clock.advance(Duration::from_nanos(TTL_NS + 1));
        assert_eq!(reap(&store, "a").await.retrying, 1);
    });
}

/// The shard of an intent depends on nothing but its kind and its hash, in every release.
#[test]
fn an_item_lies_where_any_release_looks_for_it() {
    let queue_shard = QueueShard::of("http.request", IntentHash::from_bytes([7; 32]));
    let key = effect_pending::key(
        mundi_model::UniverseId::from_bytes([0; 16]),
        queue_shard,
        mundi_store::keyspace::queue::QueueSeq::from_bytes([0; 12]),
    );
    assert_eq!(format!("{key:?}")[34..52], *"353f6f287a2a49f60e");
}

/// The dedupe name of an effect covers the world.
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
        let before = engine_contents(&store.engine).await.unwrap();
        assert_eq!(complete(&store, &mixed).await.unwrap(), Completed::Before, "that world waits for no such intent");
        assert_eq!(engine_contents(&store.engine).await.unwrap(), before, "nothing was changed");
        assert_eq!(complete(&store, &claimed[1]).await.unwrap(), Completed::Delivered);
        for fence in [one, two] {
            assert_eq!(receipts(&store, fence).await.unwrap().len(), 1);
        }
    });
}

/// Sequence numbers do not restart when a queue runs empty.
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

/// Intents are published in the transaction of their records.
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
fn an_item_that_cannot_be_read_becomes_a_dead_letter_and_blocks_nobody() {
    block_on(async {
        let (store, _, intents) = asked(&["a"], TERMS).await;
        let queue_shard = QueueShard::of("a", intents[0]);
        let bad = mundi_store::keyspace::queue::QueueSeq::from_bytes([0; 12]);
        let mut tx = store.engine.begin().await.unwrap();
        tx.put(effect_pending::key(store.universe, queue_shard, bad).as_bytes(), vec![0xff, 0x00]).unwrap();
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
fn all_queue_shards_are_claimed_from_in_three_trips_and_an_answer_takes_one() {
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
        assert!(trips <= 2 + 16 * 2, "a look at all queue_shards, then each of them: {trips}");
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
