//! The inbox, and messages and calls between worlds.

use crate::{
    Store,
    effects::{TERMS, claim_of},
    everything,
    journal::turn,
    live, live_with_items, on_the_heap, survives, with_content_store, worker,
};
use mundi_model::{
    Height,
    record::{Input, Payload, Sender},
};
use mundi_store::{
    Clock, Fence, StoreError,
    keyspace::queue::Claim,
    protocol::{
        ClaimEffects, ClaimedEffect, CommitCursor, FabricMessage, ListEffects, MessageId, RetryEffect, WokenBy,
        WorldCall, call_world, compact_inbox, expire_dedupe, fabric_send,
    },
    testing::{ask_in_process, named_event},
};
use std::time::Duration;

#[test]
fn enqueue_of_named_items() {
    let act = async |store: &Store, fence: &Fence| {
        let items = ["a", "b", "c"].map(named_event).into();
        store.send(fence.world, items).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn enqueue_of_a_large_payload() {
    let act = async |store: &Store<_>, fence: &Fence| {
        let large = named_event(&"x".repeat(50_000));
        store.send(fence.world, vec![large]).await.map(drop)
    };
    survives(with_content_store, live, act, everything);
}

#[test]
fn drain_inbox() {
    let act = async |store: &Store, fence: &Fence| {
        for _ in 0..10 {
            store.drain(*fence, 2).await?;
        }
        Ok(())
    };
    survives(on_the_heap, live_with_items, act, everything);
}

#[test]
fn commit_cursor() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        let items = store.read_turn(fence).await.unwrap().items;
        CommitCursor { fence, old: None, new: items[3].seq }
    };
    let act = async |store: &Store, commit: &CommitCursor| store.run(commit).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn compact_inbox_after_the_grace() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        while let Some(turn) = turn(store, fence).await.unwrap() {
            store.run(&turn).await.unwrap();
        }
        compact_inbox(&store.engine, &store.clock, fence, 10).await.unwrap();
        store.clock.advance(Duration::from_nanos(10));
        fence
    };
    let act =
        async |store: &Store, fence: &Fence| compact_inbox(&store.engine, &store.clock, *fence, 10).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn expire_dedupe_records() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        store.clock.advance(Duration::from_secs(3_600 + 300));
        fence
    };
    let act =
        async |store: &Store, fence: &Fence| expire_dedupe(&store.engine, &store.clock, fence.universe).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn send_to_another_world() {
    let setup = async |store: &Store| {
        let (from, to) = (live(store).await, store.live(2).await.unwrap());
        let held = Claim { token: [1; 16], worker: worker(), deadline_ns: u64::MAX, attempt: 1 };
        (ask_in_process(store, from, &["fabric.send"], TERMS, held).await.unwrap().remove(0), to)
    };
    let act = async |store: &Store, (from, to): &(ClaimedEffect, Fence)| {
        let message = FabricMessage {
            id: MessageId::Intent(from.proof.intent),
            claim: from.proof,
            from: Sender { world: from.proof.world, height: Height::new(1) },
            to: to.world,
            input: Input::Event { schema: "e".into(), value: Payload::Inline(vec![0xf6]), key: None },
            correlation_id: None,
            trace: None,
            headers: [].into(),
            dedupe_window_ns: 1,
        };
        fabric_send(&store.engine, &store.clock, &store.blobs, store.universe, message, WokenBy::ReadyQueue)
            .await
            .map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

/// Once in a slot of its process, and once brought forward by an operator.
#[test]
fn call_another_world() {
    for again in [false, true] {
        let setup = async |store: &Store| {
            let (from, to) = (live(store).await, store.live(2).await.unwrap());
            let held = Claim { token: [1; 16], worker: worker(), deadline_ns: u64::MAX, attempt: 1 };
            let mut effect = ask_in_process(store, from, &["world.call"], TERMS, held).await.unwrap().remove(0);
            if again {
                make_call(store, &effect, to).await.unwrap();
                let (universe, now_ns) = (store.universe, store.clock.now_ns());
                let list = ListEffects { universe, world: None, kind: None, stage: None, after: None, items_max: 1 };
                let place = store.run(&list).await.unwrap().output.items.remove(0).place;
                store.run(&RetryEffect { universe, place, now_ns }).await.unwrap();
                let claim = ClaimEffects { kind: "world.call".into(), ..claim_of(store, 3) };
                effect = store.run(&claim).await.unwrap().output.effects.remove(0);
            }
            (effect, to)
        };
        let act = async |store: &Store, (effect, to): &(ClaimedEffect, Fence)| make_call(store, effect, *to).await;
        survives(on_the_heap, setup, act, everything);
    }
}

async fn make_call(store: &Store, effect: &ClaimedEffect, to: Fence) -> Result<(), StoreError> {
    let message = FabricMessage {
        id: MessageId::Intent(effect.proof.intent),
        claim: effect.proof,
        from: Sender { world: effect.proof.world, height: Height::new(1) },
        to: to.world,
        input: Input::Event { schema: "e".into(), value: Payload::Inline(vec![0xf6]), key: None },
        correlation_id: None,
        trace: None,
        headers: [].into(),
        dedupe_window_ns: 1,
    };
    let call = WorldCall { message, deadline_ns: 1 << 60 };
    call_world(&store.engine, &store.clock, &store.blobs, store.universe, call, WokenBy::ReadyQueue).await.map(drop)
}
