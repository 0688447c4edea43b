//! Effects under a lease of a pool: one whose holder is not its world, under this very epoch, never begins.

use super::{Store, TERMS, claim, complete, fail, store};
use mundi_engine::{CommitError, Engine, Transaction};
use mundi_model::{
    Height, Value, WorkerId, cbor,
    pool::{AuthorityChange, HolderId, LeaseAuthority, LeaseId},
    record::{Body, Custom, Payload, Receipt, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence, Protocol,
    journal::Batch,
    keyspace::{Family, Parts, Shard, effect_pending::EffectLease},
    protocol::{ClaimEffects, CommitTurn, Completed, Failed, InProcess, KindCap, Repeat},
    testing::{Trouble, ask_leased, engine_contents, receipts},
};
use pollster::block_on;
use std::time::Duration;

const LEASE_EPOCH: u64 = 3;

fn lease_id() -> LeaseId {
    LeaseId::new(0, Height::new(7))
}

fn lease(pool: Fence, lease_epoch: u64) -> EffectLease {
    EffectLease { pool: "gpus".into(), world: pool.world, lease_id: lease_id(), lease_epoch }
}

/// A turn of the pool that says who has authority from now on.
async fn decide(store: &Store, pool: Fence, authority: Option<LeaseAuthority>) {
    let input = store.read_turn(pool).await.unwrap();
    let note = Body::Custom(Custom { kind: "test".into(), payload: Payload::Inline(Vec::new()) });
    let turn = CommitTurn {
        fence: pool,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, [note]).unwrap(),
        effects: Vec::new(),
        timers: Vec::new(),
        receipts: Vec::new(),
        expects_end: None,
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities: vec![AuthorityChange { lease: lease_id(), authority, reclaim_after_ms: None }],
        paused: None,
        ready: false,
        now_ns: store.clock.now_ns(),
    };
    store.run(&turn).await.unwrap();
}

fn held_by(world: Fence) -> Option<LeaseAuthority> {
    Some(LeaseAuthority { epoch: LEASE_EPOCH, holder: HolderId::from(world.world) })
}

/// A world, a pool, and another world.
async fn setting() -> (Store, Fence, Fence, Fence) {
    let store = store().await;
    let (agent, pool) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
    let other = store.live(3).await.unwrap();
    (store, agent, pool, other)
}

async fn is_gone(store: &Store) -> bool {
    let contents = engine_contents(&store.engine).await.unwrap();
    let families = [Family::EffectPending, Family::EffectRetry, Family::EffectInflight, Family::EffectAttempt];
    !contents.keys().any(|key| Parts::of(key).is_some_and(|parts| families.contains(&parts.family)))
}

fn code(receipt: &Receipt) -> String {
    let Payload::Inline(bytes) = &receipt.payload else { panic!("a small one") };
    match cbor::decode(bytes) {
        Ok(Value::Map(fields)) => match &fields["code"] {
            Value::Text(code) => code.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_effect_begins_while_its_world_holds_the_lease() {
    block_on(async {
        let (store, agent, pool, _) = setting().await;
        decide(&store, pool, held_by(agent)).await;
        ask_leased(&store, agent, &["a"], TERMS, &lease(pool, LEASE_EPOCH)).await.unwrap();
        let claimed = claim(&store, "a", 1).await.remove(0);
        assert_eq!(claimed.item.lease.as_ref().map(|lease| lease.lease_epoch), Some(LEASE_EPOCH));
        decide(&store, pool, None).await;
        assert_eq!(complete(&store, &claimed).await.unwrap(), Completed::Delivered, "it had begun before the revoke");
    });
}

#[test]
fn an_effect_under_a_stale_epoch_of_another_holder_or_of_no_lease_never_begins() {
    block_on(async {
        let (store, agent, pool, other) = setting().await;
        for (authority, epoch) in [
            (None, LEASE_EPOCH),
            (held_by(other), LEASE_EPOCH),
            (held_by(agent), LEASE_EPOCH - 1),
            (held_by(agent), LEASE_EPOCH + 1),
        ] {
            decide(&store, pool, authority).await;
            let before = receipts(&store, agent).await.unwrap().len();
            ask_leased(&store, agent, &["a", "a"], TERMS, &lease(pool, epoch)).await.unwrap();
            assert!(claim(&store, "a", 1).await.is_empty(), "{authority:?} {epoch}");
            let all = receipts(&store, agent).await.unwrap();
            assert_eq!(all.len(), before + 2, "both hear of it at once");
            for receipt in &all[before..] {
                assert_eq!((receipt.status, code(receipt).as_str()), (ReceiptStatus::Error, "STALE_EPOCH"));
            }
            assert!(is_gone(&store).await);
        }
    });
}

#[test]
fn a_copy_of_a_pool_is_no_authority() {
    block_on(async {
        let (store, agent, pool, copy) = setting().await;
        decide(&store, pool, held_by(agent)).await;
        ask_leased(&store, agent, &["a"], TERMS, &lease(copy, LEASE_EPOCH)).await.unwrap();
        assert!(claim(&store, "a", 1).await.is_empty());
        assert_eq!(code(&receipts(&store, agent).await.unwrap()[0]), "STALE_EPOCH");
    });
}

#[test]
fn each_attempt_is_compared_anew() {
    block_on(async {
        let (store, agent, pool, _) = setting().await;
        decide(&store, pool, held_by(agent)).await;
        ask_leased(&store, agent, &["a"], TERMS, &lease(pool, LEASE_EPOCH)).await.unwrap();
        let first = claim(&store, "a", 1).await.remove(0);
        assert!(matches!(fail(&store, &first, Repeat::Backoff).await, Failed::Retrying { .. }));
        decide(&store, pool, None).await;
        store.clock.advance(Duration::from_secs(60));
        assert!(claim(&store, "a", 2).await.is_empty());
        assert_eq!(code(&receipts(&store, agent).await.unwrap()[0]), "STALE_EPOCH");
        assert!(is_gone(&store).await);
    });
}

/// There is no moment between the look at the lease and the start.
#[test]
fn a_revoke_that_commits_before_the_claim_makes_the_claim_conflict() {
    block_on(async {
        let (store, agent, pool, _) = setting().await;
        decide(&store, pool, held_by(agent)).await;
        ask_leased(&store, agent, &["a"], TERMS, &lease(pool, LEASE_EPOCH)).await.unwrap();
        let request = ClaimEffects {
            universe: store.universe,
            kind: "a".into(),
            worker: WorkerId::new(1).unwrap(),
            token: [1; 16],
            items_max: 9,
            ttl_ns: 1_000,
            now_ns: store.clock.now_ns(),
            first: Shard::FIRST,
            cap: KindCap::default(),
        };
        let mut tx = store.engine.begin().await.unwrap();
        assert_eq!(request.run(&mut tx).await.unwrap().effects.len(), 1, "held when it looked");
        decide(&store, pool, None).await;
        assert!(matches!(tx.commit().await, Err(CommitError::Conflict)));
        assert!(claim(&store, "a", 2).await.is_empty());
    });
}

/// Whatever dies while a stale one is refused, it never begins and its world hears of it once.
#[test]
fn a_refusal_that_crashes_at_any_operation_is_made_once() {
    async fn attempt(trouble: Option<(u64, Trouble)>) -> u64 {
        let (store, agent, pool, _) = setting().await;
        ask_leased(&store, agent, &["a"], TERMS, &lease(pool, LEASE_EPOCH)).await.unwrap();
        store.engine.revive();
        if let Some((operation, trouble)) = trouble {
            store.engine.arm(operation, trouble);
        }
        let request = |token: u8| ClaimEffects {
            universe: store.universe,
            kind: "a".into(),
            worker: WorkerId::new(1).unwrap(),
            token: [token; 16],
            items_max: 9,
            ttl_ns: 1_000,
            now_ns: store.clock.now_ns(),
            first: Shard::FIRST,
            cap: KindCap::default(),
        };
        let first = store.run(&request(1)).await;
        let operations = store.engine.operations();
        store.engine.revive();
        assert!(first.is_err() || first.unwrap().output.effects.is_empty());
        assert!(store.run(&request(2)).await.unwrap().output.effects.is_empty(), "{trouble:?}");
        assert_eq!(receipts(&store, agent).await.unwrap().len(), 1, "{trouble:?}");
        assert!(is_gone(&store).await, "{trouble:?}");
        operations
    }
    block_on(async {
        let operations = attempt(None).await;
        for operation in 0..operations {
            for trouble in Trouble::ALL {
                attempt(Some((operation, trouble))).await;
            }
        }
    });
}
