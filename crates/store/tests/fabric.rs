//! Messages between worlds.

use mundi_engine::Memory;
use mundi_model::{
    Code, Coded, Height, IntentHash, WorldId,
    record::{Input, Payload, Sender},
};
use mundi_store::{
    Fence, StoreError,
    protocol::{FabricMessage, Sent, fabric_send},
    testing::{Fixture, Probe, world_id},
};
use pollster::block_on;

type Store = Fixture<Probe<Memory>>;

async fn two_worlds() -> (Store, Fence, Fence) {
    let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
    let (from, to) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
    (store, from, to)
}

async fn send(store: &Store, from: Fence, to: WorldId, name: &str) -> Result<Sent, StoreError> {
    let message = FabricMessage {
        id: IntentHash::of(name.as_bytes()),
        from: Sender { world: from.world, height: Height::new(7) },
        to,
        input: Input::Message {
            inbox: "mail".into(),
            payload: Payload::Inline(name.as_bytes().to_vec()),
            headers: [("h".to_owned(), "v".to_owned())].into(),
        },
        correlation_id: Some("c".into()),
        trace: None,
    };
    fabric_send(&store.engine, &store.clock, &store.blobs, store.universe, message).await
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

#[test]
fn a_message_to_nobody_is_refused() {
    block_on(async {
        let (store, from, _) = two_worlds().await;
        let error = send(&store, from, world_id(99), "m").await.unwrap_err();
        assert_eq!(error.code(), Code::WorldNotFound);
    });
}
