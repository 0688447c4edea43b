//! Attempts, their pauses, and rates.

use super::{TERMS, TTL_NS, asked, claim, complete, fail, reap, store};
use mundi_model::{
    Code, WorkerId,
    record::{Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence,
    keyspace::{
        Shard,
        effect_pending::{EffectTerms, RateTerms},
    },
    protocol::{ClaimEffects, ClaimedEffect, FailEffect, Failed, Failure, KindCap, Reaped, Repeat},
    testing::{ask, receipts},
};
use pollster::block_on;
use std::time::Duration;

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
        let queue_shard = |claimed: &ClaimedEffect| claimed.proof.queue_shard;
        let twins = claimed.iter().find_map(|one| {
            let two =
                claimed.iter().find(|two| queue_shard(one) == queue_shard(two) && one.proof.seq != two.proof.seq)?;
            Some((one, two))
        });
        let (one, two) = twins.expect("seventeen items in sixteen queue_shards");
        store.clock.advance(Duration::from_secs(10));
        fail(&store, one, Repeat::Backoff).await;
        store.clock.advance(Duration::from_secs(10));
        assert_eq!(claim(&store, "a", 2).await.len(), 1, "the mark is beyond ten seconds now");
        let failure = Failure { code: Code::EffectFailed, reason: String::new(), repeat: Repeat::Backoff };
        let adapter = String::new();
        let late = FailEffect {
            claim: two.proof,
            failure,
            adapter,
            signature: None,
            params: None,
            now_ns: 5,
            dedupe_window_ns: 1,
        };
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
