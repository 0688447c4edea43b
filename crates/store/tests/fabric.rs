//! Messages between worlds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_model::{
    Code, Coded, Height, IntentHash, WorkerId, WorldId,
    record::{Input, Payload, ReceiptStatus, Sender},
};
use mundi_store::{
    Clock, Fence, StoreError,
    keyspace::{Shard, effect_pending::EffectTerms},
    protocol::{
        Answer, ClaimEffects, FabricMessage, KindCap, MessageId, ReapEffects, Sent, complete_effect, fabric_send,
    },
    testing::{Fixture, Probe, ask, receipts, world_id},
};
use pollster::block_on;
use std::time::Duration;

type Store = Fixture<Probe<Memory>>;

async fn two_worlds() -> (Store, Fence, Fence) {
    let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
    let (from, to) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
    (store, from, to)
}

async fn send(store: &Store, from: Fence, to: WorldId, name: &str) -> Result<Sent, StoreError> {
    let message = FabricMessage {
        id: MessageId::Intent(IntentHash::of(name.as_bytes())),
        from: Sender { world: from.world, height: Height::new(7) },
        to,
        input: Input::Message {
            inbox: "mail".into(),
            payload: Payload::Inline(name.as_bytes().to_vec()),
            headers: [("h".to_owned(), "v".to_owned())].into(),
        },
        correlation_id: Some("c".into()),
        trace: None,
        headers: [].into(),
    };
    fabric_send(&store.engine, &store.clock, &store.blobs, store.universe, message, false).await
}

#[test]
fn a_message_that_is_sent_again_is_enqueued_once() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let first = send(&store, from, to.world, "m").await.unwrap();
        assert!(!first.already_enqueued);
        let again = send(&store, from, to.world, "m").await.unwrap();
        assert_eq!(again, Sent { seq: first.seq, already_enqueued: true });
        let (a, b) = futures_util::join!(send(&store, from, to.world, "n"), send(&store, from, to.world, "n"));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a.seq == b.seq && a.already_enqueued != b.already_enqueued);
        assert_eq!(store.read_turn(to).await.unwrap().items.len(), 2);
    });
}

#[test]
fn messages_stand_in_the_order_in_which_they_were_enqueued_and_name_their_cause() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let mut seqs = Vec::new();
        for n in 0..20 {
            seqs.push(send(&store, from, to.world, &n.to_string()).await.unwrap().seq);
        }
        let items = store.read_turn(to).await.unwrap().items;
        assert_eq!(items.iter().map(|item| item.seq).collect::<Vec<_>>(), seqs);
        let origin = &items[0].item.origin;
        assert_eq!(origin.sender, Some(Sender { world: from.world, height: Height::new(7) }));
        assert_eq!(origin.correlation_id.as_deref(), Some("c"));
    });
}

/// The worker dies between the two transactions, after the message and before the receipt.
#[test]
fn a_crash_between_message_and_receipt_sends_once_and_answers_once() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        ask(&store, from, &["fabric.send"], EffectTerms::default()).await.unwrap();
        let claim = |token: u8| ClaimEffects {
            universe: store.universe,
            kind: "fabric.send".into(),
            worker: WorkerId::new(u64::from(token)).unwrap(),
            token: [token; 16],
            items_max: 1,
            ttl_ns: 1,
            now_ns: store.clock.now_ns(),
            first: Shard::FIRST,
            cap: KindCap::default(),
        };
        let first = store.run(&claim(1)).await.unwrap().output.effects.remove(0);
        assert!(!send(&store, from, to.world, "m").await.unwrap().already_enqueued);
        store.clock.advance(Duration::from_secs(1));
        let (universe, lane, now_ns) = (store.universe, first.proof.lane, store.clock.now_ns());
        assert_eq!(
            store
                .run(&ReapEffects { universe, lane, touched: false, items_max: 9, now_ns })
                .await
                .unwrap()
                .output
                .retrying,
            1
        );
        store.clock.advance(Duration::from_secs(1));
        let second = store.run(&claim(2)).await.unwrap().output.effects.remove(0);
        assert!(send(&store, from, to.world, "m").await.unwrap().already_enqueued);
        let (status, payload) = (ReceiptStatus::Ok, Payload::Inline(vec![0xf6]));
        let answer = Answer::new(status, payload, "fabric");
        complete_effect(&store.engine, &store.clock, &store.blobs, &second, answer, false).await.unwrap();
        assert_eq!(store.read_turn(to).await.unwrap().items.len(), 1);
        assert_eq!(receipts(&store, from).await.unwrap().len(), 1);
    });
}

#[test]
fn a_message_to_nobody_is_refused() {
    block_on(async {
        let (store, from, _) = two_worlds().await;
        let error = send(&store, from, world_id(99), "m").await.unwrap_err();
        assert_eq!(error.code(), Code::WorldNotFound);
    });
}
