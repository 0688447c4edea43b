//! Effects and timers.

use crate::{Store, everything, live, on_the_heap, operator, survives};
use mundi_model::{
    Code, Coded, Epoch, IntentHash, WorkerId,
    record::{Body, Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence, StoreError,
    journal::Batch,
    keyspace::{
        QueueShard, Shard,
        effect_pending::{EffectTerms, RateTerms},
        effect_place::{EffectPlace, EffectStage},
        queue::Claim,
    },
    protocol::{
        Answer, AnswerEffect, CancelEffect, ClaimEffects, ClaimedEffect, CommitTurn, ExtendClaims, FailEffect, Failure,
        FireTimers, InProcess, KindCap, ListEffects, QueuedEffect, ReapEffects, Repeat, RetryEffect, WokenBy,
        complete_effect, delete_world,
    },
    testing::{ask, ask_in_process, set_timers},
};

pub(crate) const TERMS: EffectTerms = EffectTerms {
    timeout_ms: 1,
    attempts_max: 2,
    backoff_ms: 1,
    backoff_ms_max: 1,
    rate: None,
    children_active_max: None,
};

pub(crate) fn claim_of(store: &Store, token: u8) -> ClaimEffects {
    ClaimEffects {
        universe: store.universe,
        kind: "a".into(),
        worker: WorkerId::new(1).unwrap(),
        token: [token; 16],
        items_max: 10,
        ttl_ns: 1_000,
        now_ns: store.clock.now_ns(),
        first: Shard::new(0).unwrap(),
        cap: KindCap::default(),
    }
}

pub(crate) async fn asked(store: &Store) -> ClaimEffects {
    let fence = live(store).await;
    let rate = Some(RateTerms { per_second: 1, burst: 2 });
    ask(store, fence, &["a"; 3], EffectTerms { rate, ..TERMS }).await.unwrap();
    claim_of(store, 1)
}

async fn claimed(store: &Store) -> ClaimedEffect {
    let fence = live(store).await;
    ask(store, fence, &["a"], TERMS).await.unwrap();
    store.run(&claim_of(store, 1)).await.unwrap().output.effects.remove(0)
}

/// A rate limit puts one of three aside. A lost answer leaves the claims with the same worker.
#[test]
fn claim_effects() {
    let act = async |store: &Store, claim: &ClaimEffects| {
        mundi_store::protocol::claim_effects(&store.engine, &store.clock, claim).await.map(drop)
    };
    survives(on_the_heap, asked, act, everything);
}

async fn complete(store: &Store, claimed: &ClaimedEffect) -> Result<(), StoreError> {
    let (status, payload) = (ReceiptStatus::Ok, Payload::Inline(vec![0xf6]));
    let answer = Answer::new(status, payload, "test");
    complete_effect(&store.engine, &store.clock, &store.blobs, claimed, answer, WokenBy::ReadyQueue).await.map(drop)
}

/// A turn that withdraws an intent.
async fn cancel(store: &Store, fence: Fence, intent: IntentHash) -> CommitTurn {
    let input = store.read_turn(fence).await.unwrap();
    CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, [Body::Cancel(intent)]).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        expects_end: None,
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities: Vec::new(),
        paused: None,
        ready: false,
        now_ns: store.clock.now_ns(),
    }
}

#[test]
fn complete_an_effect() {
    let act = async |store: &Store, claimed: &ClaimedEffect| complete(store, claimed).await;
    survives(on_the_heap, claimed, act, everything);
}

/// The world withdrew the effect, or is gone: the answer is dropped, also by a run whose own answer was lost.
#[test]
fn complete_an_effect_that_nobody_waits_for() {
    for is_deleted in [false, true] {
        let setup = async |store: &Store| {
            let claimed = claimed(store).await;
            let fence = Fence { universe: store.universe, world: claimed.item.world, epoch: Epoch::INITIAL };
            match is_deleted {
                true => delete_world(&store.engine, &store.clock, fence).await.unwrap(),
                false => store.run(&cancel(store, fence, claimed.proof.intent).await).await.map(drop).unwrap(),
            }
            claimed
        };
        let act = async |store: &Store, claimed: &ClaimedEffect| complete(store, claimed).await;
        survives(on_the_heap, setup, act, everything);
    }
}

#[test]
fn fail_an_effect_for_now_and_for_good() {
    for repeat in [Repeat::Backoff, Repeat::Never] {
        let act = async |store: &Store, claimed: &ClaimedEffect| {
            let failure = Failure { code: Code::EffectFailed, reason: "down".into(), repeat };
            let (claim, adapter) = (claimed.proof, "test".to_owned());
            store
                .run(&FailEffect {
                    claim,
                    failure,
                    adapter,
                    signature: None,
                    params: None,
                    now_ns: 9,
                    dedupe_window_ns: 1,
                })
                .await
                .map(drop)
        };
        survives(on_the_heap, claimed, act, everything);
    }
}

#[test]
fn extend_a_claim() {
    let act = async |store: &Store, claimed: &ClaimedEffect| {
        store.run(&ExtendClaims { claims: vec![claimed.proof], deadline_ns: 77_000 }).await.map(drop)
    };
    survives(on_the_heap, claimed, act, everything);
}

/// Once with a budget that is left, once with one that is spent.
#[test]
fn reap_effects() {
    for attempts_max in [2, 1] {
        let setup = async |store: &Store| {
            let fence = live(store).await;
            ask(store, fence, &["a"; 4], EffectTerms { attempts_max, ..TERMS }).await.unwrap();
            store.run(&claim_of(store, 1)).await.unwrap();
        };
        let act = async |store: &Store, _: &()| {
            for queue_shard in QueueShard::all("a", Shard::new(0).unwrap()) {
                store
                    .run(&ReapEffects {
                        universe: store.universe,
                        queue_shard,
                        touched: false,
                        items_max: 10,
                        now_ns: 1_000_000,
                        gone: None,
                    })
                    .await?;
            }
            Ok(())
        };
        survives(on_the_heap, setup, act, everything);
    }
}

/// An operator ends one effect and brings another one forward.
#[test]
fn intervene_in_effects() {
    let setup = async |store: &Store| {
        let fence = live(store).await;
        ask(store, fence, &["a"; 2], EffectTerms { rate: Some(RateTerms { per_second: 1, burst: 1 }), ..TERMS })
            .await
            .unwrap();
        store.run(&claim_of(store, 1)).await.unwrap();
        let (universe, world) = (store.universe, None);
        let list = ListEffects { universe, world, kind: None, stage: None, after: None, items_max: 10 };
        store.run(&list).await.unwrap().output.items.into_iter().map(|effect| effect.place).collect::<Vec<_>>()
    };
    let act = async |store: &Store, places: &Vec<EffectPlace>| {
        for &place in places {
            let (universe, now_ns) = (store.universe, 9);
            let done = match place.stage {
                EffectStage::Waiting => store.run(&RetryEffect { universe, place, now_ns }).await.map(drop),
                _ => {
                    let (reason, operator) = ("why".into(), operator());
                    store.run(&CancelEffect { universe, place, reason, operator, now_ns }).await.map(drop)
                }
            };
            match done {
                Err(error) if error.code() == Code::EffectNotFound => {}
                done => done?,
            }
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

/// An operator answers a pending effect, a claimed one, one in a slot of its world's process, and one that is in no queue.
/// After a lost commit the same answer, given again, finds the state that the commit left.
#[test]
fn answer_effects_by_hand() {
    let setup = async |store: &Store| {
        let fence = live(store).await;
        ask(store, fence, &["a"], TERMS).await.unwrap();
        store.run(&claim_of(store, 1)).await.unwrap();
        let claim = Claim { token: [3; 16], worker: WorkerId::new(1).unwrap(), deadline_ns: 900, attempt: 1 };
        ask_in_process(store, fence, &["b"], TERMS, claim).await.unwrap();
        ask(store, fence, &["a"], TERMS).await.unwrap();
        let list =
            ListEffects { universe: store.universe, world: None, kind: None, stage: None, after: None, items_max: 10 };
        let mut asked: Vec<_> = store.run(&list).await.unwrap().output.items;
        asked.sort_by_key(|effect| effect.item.height);
        assert_eq!(asked.len(), 3);
        asked.into_iter().enumerate().map(|(n, effect)| by_hand(store, &effect, n > 0)).collect::<Vec<_>>()
    };
    let act = async |store: &Store, answers: &Vec<AnswerEffect>| {
        for by_hand in answers {
            match store.run(by_hand).await {
                // It is gone from its place: the first try was applied, or an operator looks for it again.
                Err(error) if error.code() == Code::EffectNotFound => panic!("{error}"),
                answered => answered.map(drop)?,
            }
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

fn by_hand(store: &Store, effect: &QueuedEffect, at_its_place: bool) -> AnswerEffect {
    let QueuedEffect { place, item, .. } = effect;
    AnswerEffect {
        universe: store.universe,
        world: item.world,
        intent: item.intent,
        kind: item.kind.clone(),
        place: at_its_place.then_some(*place),
        status: ReceiptStatus::Timeout,
        payload: Payload::Inline(vec![0xf6]),
        operator: operator(),
        now_ns: 9,
        woken_by: WokenBy::ReadyQueue,
    }
}

/// Timers of two worlds, one of which is cancelled by then.
#[test]
fn fire_timers() {
    let setup = async |store: &Store| {
        for world in [1, 2] {
            let fence = store.live(world).await.unwrap();
            set_timers(store, fence, &[5, 2_000_000_000, 7_000_000_000_000]).await.unwrap();
        }
    };
    let act = async |store: &Store, _: &()| {
        for shard in Shard::all() {
            let (universe, now_ns) = (store.universe, 3_000_000_000);
            store.run(&FireTimers { universe, shard, items_max: 10, now_ns, dedupe_window_ns: 1 }).await?;
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}
