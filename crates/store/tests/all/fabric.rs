//! Messages between worlds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_model::{
    Code, Coded, Hash, Height, WorkerId, WorldId, limits,
    record::{Input, Payload, ReceiptStatus, Sender},
};
use mundi_store::{
    Clock, Fence, StoreError,
    keyspace::{Shard, effect_pending::EffectTerms, queue::Claim},
    protocol::{
        Answer, ClaimEffects, ClaimedEffect, EffectClaim, FabricMessage, KindCap, MessageId, ReapEffects, Sent,
        WokenBy, complete_effect, expire_dedupe, fabric_send,
    },
    testing::{Fixture, Probe, ask, ask_in_process, engine_contents, receipts, world_id},
};
use pollster::block_on;
use std::time::Duration;

type Store = Fixture<Probe<Memory>>;

async fn two_worlds() -> (Store, Fence, Fence) {
    let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
    let (from, to) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
    (store, from, to)
}

/// An effect of the sender, in hand.
async fn claimed(store: &Store, from: Fence) -> EffectClaim {
    claimed_ask(store, from).await.proof
}

async fn claimed_ask(store: &Store, from: Fence) -> ClaimedEffect {
    let deadline_ns = store.clock.now_ns() + 1;
    let held = Claim { token: [7; 16], worker: WorkerId::new(7).unwrap(), deadline_ns, attempt: 1 };
    ask_in_process(store, from, &["fabric.send"], EffectTerms::default(), held).await.unwrap().remove(0)
}

async fn send(store: &Store, claim: EffectClaim, to: WorldId) -> Result<Sent, StoreError> {
    send_as(store, MessageId::Intent(claim.intent), claim, to).await
}

async fn send_as(store: &Store, id: MessageId, claim: EffectClaim, to: WorldId) -> Result<Sent, StoreError> {
    let message = FabricMessage {
        id,
        claim,
        from: Sender { world: claim.world, height: Height::new(7) },
        to,
        input: Input::Message {
            inbox: "mail".into(),
            payload: Payload::Inline(claim.intent.as_bytes().to_vec()),
            headers: [("h".to_owned(), "v".to_owned())].into(),
        },
        correlation_id: Some("c".into()),
        trace: None,
        headers: [].into(),
        dedupe_window_ns: 1,
    };
    fabric_send(&store.engine, &store.clock, &store.blobs, store.universe, message, WokenBy::ReadyQueue).await
}

#[test]
fn a_message_that_is_sent_again_is_enqueued_once() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let claim = claimed(&store, from).await;
        let first = send(&store, claim, to.world).await.unwrap();
        assert!(!first.already_enqueued);
        let again = send(&store, claim, to.world).await.unwrap();
        assert_eq!(again, Sent { seq: first.seq, already_enqueued: true });
        let claim = claimed(&store, from).await;
        let (a, b) = futures_util::join!(send(&store, claim, to.world), send(&store, claim, to.world));
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
        for _ in 0..20 {
            seqs.push(send(&store, claimed(&store, from).await, to.world).await.unwrap().seq);
        }
        let items = store.read_turn(to).await.unwrap().items;
        assert_eq!(items.iter().map(|item| item.seq).collect::<Vec<_>>(), seqs);
        let origin = &items[0].item.origin;
        assert_eq!(origin.sender, Some(Sender { world: from.world, height: Height::new(7) }));
        assert_eq!(origin.correlation_id.as_deref(), Some("c"));
    });
}

/// Names expired an hour after the message, whatever became of the effect: an attempt after that delivered it again.
#[test]
fn the_name_of_a_message_stays_for_as_long_as_its_effect_is_open() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let hours_later = async || {
            store.clock.advance(Duration::from_secs(3 * 3_600));
            expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        };
        let claim = claimed(&store, from).await;
        let first = send(&store, claim, to.world).await.unwrap();
        hours_later().await;
        assert!(send(&store, claim, to.world).await.unwrap().already_enqueued, "the effect is in hand");
        let (universe, queue_shard, now_ns) = (store.universe, claim.queue_shard, store.clock.now_ns());
        store
            .run(&ReapEffects { universe, queue_shard, touched: true, items_max: 9, now_ns, gone: None })
            .await
            .unwrap();
        hours_later().await;
        let second = store.run(&claim_sends(&store, 2)).await.unwrap().output.effects.remove(0);
        let again = send(&store, second.proof, to.world).await.unwrap();
        assert_eq!(again, Sent { seq: first.seq, already_enqueued: true }, "it waited for its second attempt");
        hours_later().await;
        let (status, payload) = (ReceiptStatus::Ok, Payload::Inline(vec![0xf6]));
        let answer = Answer::new(status, payload, "fabric");
        complete_effect(&store.engine, &store.clock, &store.blobs, &second, answer, WokenBy::ReadyQueue).await.unwrap();
        assert!(knows(&store, to, claim).await, "it is looked at with the next bucket");
        hours_later().await;
        assert!(!knows(&store, to, claim).await, "nobody can send it any more");
        assert_eq!(store.read_turn(to).await.unwrap().items.len(), 1);
    });
}

/// The name was kept for the first sender only: once that one had its receipt, a late attempt of another one sent again.
#[test]
fn a_chosen_name_stays_for_as_long_as_one_of_the_effects_that_send_under_it_is_open() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let id = MessageId::Chosen(Hash::of(b"invoice 7"));
        let hours_later = async || {
            store.clock.advance(Duration::from_secs(3 * 3_600));
            expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        };
        // Both are published as claimed; the first one is answered, the other one's process is gone.
        let (first, second) = (claimed_ask(&store, from).await, claimed_ask(&store, from).await);
        let sent = send_as(&store, id, first.proof, to.world).await.unwrap();
        let known = Sent { seq: sent.seq, already_enqueued: true };
        assert_eq!(send_as(&store, id, second.proof, to.world).await.unwrap(), known);
        finish(&store, &first).await;
        for _ in 0..3 {
            hours_later().await;
            assert_eq!(send_as(&store, id, second.proof, to.world).await.unwrap(), known, "its attempt is late");
        }
        finish(&store, &second).await;
        hours_later().await;
        hours_later().await;
        let third = claimed_ask(&store, from).await;
        assert!(!send_as(&store, id, third.proof, to.world).await.unwrap().already_enqueued, "all were closed");
        assert_eq!(store.read_turn(to).await.unwrap().items.len(), 2);
    });
}

#[test]
fn only_so_many_open_effects_send_under_one_chosen_name() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let id = MessageId::Chosen(Hash::of(b"invoice 7"));
        let mut senders = Vec::new();
        for _ in 0..limits::MESSAGE_SENDERS_MAX {
            let sender = claimed_ask(&store, from).await;
            send_as(&store, id, sender.proof, to.world).await.unwrap();
            senders.push(sender);
        }
        let late = claimed_ask(&store, from).await;
        let refused = send_as(&store, id, late.proof, to.world).await.unwrap_err();
        assert_eq!(refused.code(), Code::MessageSendersFull);
        finish(&store, &senders[3]).await;
        assert!(send_as(&store, id, late.proof, to.world).await.unwrap().already_enqueued, "one of them is over");
        assert_eq!(store.read_turn(to).await.unwrap().items.len(), 1);
    });
}

async fn finish(store: &Store, effect: &ClaimedEffect) {
    let answer = Answer::new(ReceiptStatus::Ok, Payload::Inline(vec![0xf6]), "fabric");
    complete_effect(&store.engine, &store.clock, &store.blobs, effect, answer, WokenBy::ReadyQueue).await.unwrap();
}

/// Whether the name of a message is stored.
async fn knows(store: &Store, to: Fence, claim: EffectClaim) -> bool {
    let name = mundi_model::Hash::of_parts([&b"message:"[..], claim.intent.as_bytes()]);
    let contents = engine_contents(&store.engine).await.unwrap();
    contents.iter().any(|(key, _)| {
        let has = |part: &[u8]| key.windows(part.len()).any(|window| window == part);
        has(to.world.as_bytes()) && has(name.as_bytes())
    })
}

fn claim_sends(store: &Store, token: u8) -> ClaimEffects {
    ClaimEffects {
        universe: store.universe,
        kind: "fabric.send".into(),
        worker: WorkerId::new(u64::from(token)).unwrap(),
        token: [token; 16],
        items_max: 1,
        ttl_ns: 1,
        now_ns: store.clock.now_ns(),
        first: Shard::FIRST,
        cap: KindCap::default(),
    }
}

/// A worker that was suspended for hours comes back after its effect was answered and the name was forgotten.
#[test]
fn an_attempt_whose_claim_is_lost_sends_nothing() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let slow = claimed(&store, from).await;
        store.clock.advance(Duration::from_secs(60));
        let (universe, queue_shard, now_ns) = (store.universe, slow.queue_shard, store.clock.now_ns());
        store
            .run(&ReapEffects { universe, queue_shard, touched: true, items_max: 9, now_ns, gone: None })
            .await
            .unwrap();
        store.clock.advance(Duration::from_secs(60));
        let quick = store.run(&claim_sends(&store, 2)).await.unwrap().output.effects.remove(0);
        assert_eq!(send(&store, slow, to.world).await.unwrap_err().code(), Code::EffectClaimLost);
        send(&store, quick.proof, to.world).await.unwrap();
        let answer = Answer::new(ReceiptStatus::Ok, Payload::Inline(vec![0xf6]), "fabric");
        complete_effect(&store.engine, &store.clock, &store.blobs, &quick, answer, WokenBy::ReadyQueue).await.unwrap();
        store.clock.advance(Duration::from_secs(3 * 3_600));
        expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        assert_eq!(send(&store, slow, to.world).await.unwrap_err().code(), Code::EffectClaimLost);
        assert_eq!(store.read_turn(to).await.unwrap().items.len(), 1);
    });
}

/// The worker crashes between the two transactions, after the message and before the receipt.
#[test]
fn a_crash_between_message_and_receipt_sends_once_and_answers_once() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        ask(&store, from, &["fabric.send"], EffectTerms::default()).await.unwrap();
        let first = store.run(&claim_sends(&store, 1)).await.unwrap().output.effects.remove(0);
        assert!(!send(&store, first.proof, to.world).await.unwrap().already_enqueued);
        store.clock.advance(Duration::from_secs(1));
        let (universe, queue_shard, now_ns) = (store.universe, first.proof.queue_shard, store.clock.now_ns());
        assert_eq!(
            store
                .run(&ReapEffects { universe, queue_shard, touched: false, items_max: 9, now_ns, gone: None })
                .await
                .unwrap()
                .output
                .retrying,
            1
        );
        store.clock.advance(Duration::from_secs(1));
        let second = store.run(&claim_sends(&store, 2)).await.unwrap().output.effects.remove(0);
        assert!(send(&store, second.proof, to.world).await.unwrap().already_enqueued);
        let (status, payload) = (ReceiptStatus::Ok, Payload::Inline(vec![0xf6]));
        let answer = Answer::new(status, payload, "fabric");
        complete_effect(&store.engine, &store.clock, &store.blobs, &second, answer, WokenBy::ReadyQueue).await.unwrap();
        assert_eq!(store.read_turn(to).await.unwrap().items.len(), 1);
        assert_eq!(receipts(&store, from).await.unwrap().len(), 1);
    });
}

#[test]
fn a_message_to_nobody_is_refused() {
    block_on(async {
        let (store, from, _) = two_worlds().await;
        let error = send(&store, claimed(&store, from).await, world_id(99)).await.unwrap_err();
        assert_eq!(error.code(), Code::WorldNotFound);
    });
}
