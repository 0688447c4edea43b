//! A crash at every operation of every protocol, then another try: the store must hold, byte for byte, what it holds
//! after a run that nothing disturbed, apart from what a protocol's header declares.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::needless_pass_by_value, reason = "closures are handed over where they are written")]

mod children;
mod effects;
mod inbox;
mod journal;
mod leases;
mod mail;
mod universes;
mod worlds;

use bytes::Bytes;
use mundi_engine::{Engine, Memory};
use mundi_model::{WorkerId, record::Operator};
use mundi_store::{
    Fence, StoreError,
    blob::Blobs,
    blobs::{Cas, CasConfig},
    keyspace::Family,
    objects,
    testing::{CountingEntropy, Fixture, HeapBlobs, ManualClock, Probe, Trouble, engine_contents, named_event},
};
use pollster::block_on;
use std::{collections::BTreeMap, sync::Arc};

type Store<B = HeapBlobs> = Fixture<Probe<Memory>, B>;
type Contents = BTreeMap<Bytes, Bytes>;

async fn on_the_heap() -> Store {
    Fixture::new(Probe::new(Memory::new()), 1).await.unwrap()
}

async fn with_content_store() -> Store<Cas<Probe<Memory>>> {
    let (engine, objects) = (Probe::new(Memory::new()), objects::open("memory:///").unwrap());
    let (clock, entropy) = (Arc::new(ManualClock::at_ns(1)), Arc::new(CountingEntropy::default()));
    let cas = Cas::new(engine.clone(), objects, clock, entropy, CasConfig::default());
    Fixture::with_blobs(engine, cas, 1).await.unwrap()
}

/// Runs `act` on what `setup` made: undisturbed, then with each kind of trouble at each operation, and once more after
/// every failure. `kept` says which keys must be the same.
fn survives<B: Blobs, C>(
    open: impl AsyncFn() -> Store<B>,
    setup: impl AsyncFn(&Store<B>) -> C,
    act: impl AsyncFn(&Store<B>, &C) -> Result<(), StoreError>,
    kept: impl Fn(&[u8]) -> bool,
) {
    let attempt = async |trouble: Option<(u64, Trouble)>| -> (Contents, u64) {
        let store = open().await;
        let context = setup(&store).await;
        store.engine.revive();
        if let Some((operation, trouble)) = trouble {
            store.engine.arm(operation, trouble);
        }
        let first = act(&store, &context).await;
        let operations = store.engine.operations();
        assert!(trouble.is_some() || first.is_ok(), "undisturbed: {first:?}");
        store.engine.revive();
        if first.is_err() {
            let second = act(&store, &context).await;
            assert!(second.is_ok(), "the second try after {trouble:?} ({first:?}): {second:?}");
        }
        let mut contents = engine_contents(&store.engine).await.unwrap();
        contents.retain(|key, _| kept(key));
        (contents, operations)
    };
    block_on(async {
        let (undisturbed, operations) = attempt(None).await;
        assert!(operations > 0);
        for operation in 0..operations {
            for trouble in Trouble::ALL {
                let (contents, _) = attempt(Some((operation, trouble))).await;
                assert_same(&undisturbed, &contents, operation, trouble);
            }
        }
    });
}

fn assert_same(expected: &Contents, found: &Contents, operation: u64, trouble: Trouble) {
    let differs = |(key, value): &(&Bytes, &Bytes), other: &Contents| other.get(*key) != Some(*value);
    let lacking: Vec<_> = expected.iter().filter(|entry| differs(entry, found)).collect();
    let added: Vec<_> = found.iter().filter(|entry| differs(entry, expected)).collect();
    assert!(
        lacking.is_empty() && added.is_empty(),
        "{trouble:?} at operation {operation}: expected {lacking:x?}, found {added:x?}"
    );
}

fn everything(_: &[u8]) -> bool {
    true
}

fn family_of(key: &[u8]) -> Option<u8> {
    match key.get(16) {
        Some(&family) if family == Family::World as u8 => key.get(33).copied(),
        family => family.copied(),
    }
}

async fn live<B: Blobs>(store: &Store<B>) -> Fence {
    store.live(1).await.unwrap()
}

async fn live_with_items<B: Blobs>(store: &Store<B>) -> Fence {
    let fence = live(store).await;
    let items = (0..5).map(|n| named_event(&n.to_string())).collect();
    store.send(fence.world, items).await.unwrap();
    fence
}

async fn live_with_records<B: Blobs>(store: &Store<B>) -> Fence {
    let fence = live(store).await;
    store.append(fence, 9).await.unwrap();
    fence
}

fn worker() -> WorkerId {
    WorkerId::new(3).unwrap()
}

fn operator() -> Operator {
    Operator { token: Some(7), name: "ops".into() }
}

/// The harness itself: a protocol that is not idempotent is found out.
#[test]
#[should_panic(expected = "DieAfter at operation 1")]
fn a_protocol_that_counts_twice_is_found_out() {
    struct Careless;
    impl mundi_store::Protocol for Careless {
        type Output = ();

        fn on_unknown(&self) -> mundi_store::OnUnknown {
            mundi_store::OnUnknown::RunAgain
        }

        async fn run<T: mundi_engine::Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
            Ok(tx.add(b"counter", 1)?)
        }
    }
    let act = async |store: &Store, _: &()| store.run(&Careless).await.map(drop);
    survives(on_the_heap, async |_| (), act, everything);
}

#[test]
fn a_dead_process_writes_nothing_more() {
    block_on(async {
        let engine = Probe::new(Memory::new());
        engine.arm(0, Trouble::DieBefore);
        assert!(engine.begin().await.is_err() && engine.begin().await.is_err());
        engine.revive();
        assert!(engine.begin().await.is_ok());
    });
}
