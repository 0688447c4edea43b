//! Effects from the turn that asks for them to the one receipt that answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod budgets;
mod claims;
mod leases;
mod slots;

use mundi_engine::{Engine, Memory};
use mundi_model::{
    Code, IntentHash, WorkerId,
    record::{Body, Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence, StoreError,
    journal::Batch,
    keyspace::{
        QueueShard, Shard,
        effect_dedupe::{self, EffectStatus},
        effect_pending::EffectTerms,
    },
    protocol::{
        Answer, ClaimEffects, ClaimedEffect, CommitTurn, Completed, FailEffect, Failed, Failure, InProcess, KindCap,
        ReapEffects, Reaped, Repeat, ShardsToReap, WokenBy, complete_effect,
    },
    testing::{Fixture, Probe, ask},
};

type Store = Fixture<Probe<Memory>>;

const TTL_NS: u64 = 30_000_000_000;

const TERMS: EffectTerms = EffectTerms {
    timeout_ms: 1_000,
    attempts_max: 3,
    backoff_ms: 1_000,
    backoff_ms_max: 60_000,
    rate: None,
    children_active_max: None,
};

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
    Answer::new(ReceiptStatus::Ok, Payload::Inline(vec![0xf5]), "test")
}

async fn complete(store: &Store, claimed: &ClaimedEffect) -> Result<Completed, StoreError> {
    complete_effect(&store.engine, &store.clock, &store.blobs, claimed, ok(), WokenBy::ReadyQueue).await
}

async fn fail(store: &Store, claimed: &ClaimedEffect, repeat: Repeat) -> Failed {
    let failure = Failure { code: Code::EffectFailed, reason: "down".into(), repeat };
    let (now_ns, adapter) = (store.clock.now_ns(), "test".to_owned());
    let fail = FailEffect {
        claim: claimed.proof,
        failure,
        adapter,
        signature: None,
        params: None,
        now_ns,
        dedupe_window_ns: 1,
    };
    store.run(&fail).await.unwrap().output
}

/// Reaps all queue shards, and sees that those which need not be looked into have nothing.
async fn reap(store: &Store, kind: &str) -> Reaped {
    let mut all = Reaped::default();
    let (universe, items_max, now_ns) = (store.universe, 100, store.clock.now_ns());
    let look = ShardsToReap { universe, kinds: vec!["other".into(), kind.into()], items_max, now_ns, gone: None };
    let wanting = store.run(&look).await.unwrap().output;
    for queue_shard in QueueShard::all(kind, Shard::new(0).unwrap()) {
        let reaped = store
            .run(&ReapEffects { universe, queue_shard, touched: false, items_max, now_ns, gone: None })
            .await
            .unwrap();
        assert!(wanting.contains(&queue_shard) || reaped.stamp.is_none(), "{queue_shard:?} was changed: {reaped:?}");
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
    turn_with(store, fence, bodies, InProcess::default()).await.unwrap();
}

async fn turn_with(store: &Store, fence: Fence, bodies: Vec<Body>, in_process: InProcess) -> Result<(), StoreError> {
    let input = store.read_turn(fence).await.unwrap();
    let turn = CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, bodies).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        expects_end: None,
        in_process,
        logs: Vec::new(),
        authorities: Vec::new(),
        paused: None,
        ready: false,
        now_ns: store.clock.now_ns(),
    };
    store.run(&turn).await.map(drop)
}

async fn asked(kinds: &[&str], terms: EffectTerms) -> (Store, Fence, Vec<IntentHash>) {
    let store = store().await;
    let fence = store.live(1).await.unwrap();
    let intents = ask(&store, fence, kinds, terms).await.unwrap();
    (store, fence, intents)
}
