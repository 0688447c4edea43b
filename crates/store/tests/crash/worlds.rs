//! Worlds: created, held, archived, closed, deleted, imported.

use crate::{Store, everything, journal::turn, live, live_with_items, on_the_heap, survives, with_content_store};
use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{
    Code, Coded, Hash, Height, IntentHash, LabelChange, Labels, WorldId, WorldName,
    child::{ChildEnd, ChildEvent, ChildId, ChildOutcome, DispatchToken, EventKind, Lane, Phase, Spend},
    record::{Body, EffectPolicy, ForkGenesis, Payload, Receipt, ReceiptStatus, Record},
};
use mundi_store::{
    Fence, StoreError,
    blobs::Cas,
    keyspace::{Family, segment::SegmentRecord},
    protocol::{
        ArchiveWorld, CarriedChild, CarriedChildren, CloseWorld, DescribeWorld, HoldWorld, ImportWorld, IndexWorlds,
        Inherited, LabelWorld, NameWorld, ReleaseHold, WorldCreated, delete_world, import_world,
    },
    testing::{HandmadeWorld, PlainSnapshots, Probe, world_id},
};
use pollster::block_on;

#[test]
fn create_world() {
    let act = async |store: &Store, world: &WorldId| store.create(*world, None).await.map(drop);
    survives(on_the_heap, async |_| world_id(1), act, everything);
}

#[test]
fn create_world_in_the_content_store() {
    let act = async |store: &Store<_>, world: &WorldId| store.create(*world, None).await.map(drop);
    survives(with_content_store, async |_| world_id(1), act, everything);
}

#[test]
fn delete_world_in_chunks() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        store.run(&turn(store, fence).await.unwrap().unwrap()).await.unwrap();
        fence
    };
    let act = async |store: &Store, fence: &Fence| delete_world(&store.engine, &store.clock, *fence).await;
    survives(on_the_heap, setup, act, everything);
}

/// With something in its inbox, so that it is ready when it comes back.
#[test]
fn archive_a_world_and_bring_it_back() {
    for archived in [true, false] {
        let setup = async |store: &Store| {
            let fence = live_with_items(store).await;
            let (universe, world) = (fence.universe, fence.world);
            if !archived {
                store.run(&ArchiveWorld { universe, world, archived: true, now_ns: 5 }).await.unwrap();
            }
            ArchiveWorld { universe, world, archived, now_ns: 6 }
        };
        let act = async |store: &Store, archive: &ArchiveWorld| store.run(archive).await.map(drop);
        survives(on_the_heap, setup, act, everything);
    }
}

/// A worker that put a world on hold and got no answer finds the lease gone, and the world on hold.
#[test]
fn put_a_world_on_hold_and_release_it() {
    for released in [false, true] {
        let hold = async |store: &Store, fence: Fence| {
            let (code, reason) = (Code::StepAbandoned.to_string(), "why".to_owned());
            store.run(&HoldWorld { fence, code, reason, failures: 5, failed: None, seen: None, now_ns: 5 }).await
        };
        let setup = async |store: &Store| {
            let fence = live_with_items(store).await;
            if released {
                hold(store, fence).await.unwrap();
            }
            fence
        };
        let act = async |store: &Store, fence: &Fence| {
            let Fence { universe, world, .. } = *fence;
            if released {
                return store.run(&ReleaseHold { universe, world, now_ns: 6 }).await.map(drop);
            }
            let Err(error) = hold(store, *fence).await else { return Ok(()) };
            let is_done = error.code() == Code::LeaseFenced
                && store.run(&DescribeWorld { universe, world }).await?.output.meta.hold.is_some();
            if is_done { Ok(()) } else { Err(error) }
        };
        survives(on_the_heap, setup, act, everything);
    }
}

#[test]
fn close_a_world_that_somebody_holds() {
    let act = async |store: &Store, fence: &Fence| {
        store.run(&CloseWorld { universe: fence.universe, world: fence.world }).await.map(drop)
    };
    survives(on_the_heap, live_with_items, act, everything);
}

#[test]
fn name_a_world() {
    let setup = async |store: &Store| {
        let name: WorldName = "alice".parse().unwrap();
        HandmadeWorld::create(&store.engine, store.universe, name.world(store.universe)).await.unwrap();
        name
    };
    let act = async |store: &Store, name: &WorldName| {
        store.run(&NameWorld { universe: store.universe, name: name.clone() }).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

/// The labels, the index and the command in the inbox change together.
#[test]
fn label_a_world() {
    let label = async |store: &Store, world: WorldId, set: &[(&str, &str)], remove: &[&str]| {
        let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let remove = remove.iter().map(|key| (*key).to_owned()).collect();
        let change = LabelChange { set: Labels::new(set).unwrap(), remove, operator: None };
        store.run(&LabelWorld { universe: store.universe, world, change, now_ns: 5 }).await.map(drop)
    };
    let setup = async |store: &Store| {
        let world = live(store).await.world;
        label(store, world, &[("customer", "17"), ("tier", "a")], &[]).await.unwrap();
        world
    };
    let act = async |store: &Store, world: &WorldId| label(store, *world, &[("tier", "b")], &["customer"]).await;
    survives(on_the_heap, setup, act, everything);
}

/// Worlds that were written before there was an index.
#[test]
fn index_worlds_of_an_earlier_version() {
    let setup = async |store: &Store| {
        for number in 0..3 {
            store.create(world_id(number), None).await.unwrap();
        }
        let mut tx = store.engine.begin().await.unwrap();
        let index = Family::WorldIndex as u8;
        let (mut start, mut end) = (store.universe.as_bytes().to_vec(), store.universe.as_bytes().to_vec());
        start.push(index);
        end.push(index + 1);
        tx.delete_range(&start, &end).unwrap();
        tx.commit().await.unwrap();
    };
    let act = async |store: &Store, (): &()| {
        store.run(&IndexWorlds { universe: store.universe, after: None }).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

type InContentStore = Store<Cas<Probe<Memory>>>;

/// A world of ten records that comes from elsewhere, and is told that what it waited for is not carried out here.
fn arrival(store: &InContentStore, world: WorldId) -> ImportWorld {
    let (universe, height) = (store.universe, Height::new(10));
    let snapshot = PlainSnapshots::encode(&store.facts(height));
    let arrival = ForkGenesis {
        universe,
        world,
        parent: world,
        forked_at: height,
        parent_snapshot: Hash::of(b"parent"),
        snapshot: Hash::of(&snapshot),
        policy: EffectPolicy::Suppress,
        now_ns: 5,
        manifest: None,
        answers: None,
        told: None,
    };
    let receipt = |n: u8| Receipt {
        intent: IntentHash::of(&[n]),
        kind: "http".into(),
        status: ReceiptStatus::Error,
        payload: Payload::Inline(vec![0; 60_000]),
        adapter: "fork".into(),
        signature: None,
        operator: None,
    };
    let (start, end) = (Height::GENESIS, height);
    let segment = SegmentRecord { start, end, size_bytes: 1, footer_bytes: 1, checksum: Hash::of(b"footer") };
    ImportWorld {
        universe,
        world,
        segments: vec![segment],
        manifests: vec![(Height::GENESIS, store.manifest_hash())],
        snapshots: Vec::new(),
        arrival: Record { height, prev: Hash::of(b"last"), body: Body::ForkGenesis(arrival) },
        snapshot,
        own_from: height,
        // More than fits one transaction.
        inherited: Inherited { receipts: (0..20).map(receipt).collect(), ..Inherited::default() },
        children: Some(carried(world)),
        policy: EffectPolicy::Suppress,
        name: None,
        labels: None,
        now_ns: 5,
    }
}

/// One child that was cancelled before it was dispatched.
fn carried(world: WorldId) -> CarriedChildren {
    let intent = IntentHash::of(&[99]);
    let token = DispatchToken {
        child: ChildId::of_intent(&intent),
        parent: world,
        parent_seq: Height::new(4),
        intent,
        label: "it".into(),
        kind: "external".into(),
        params: Payload::Inline(Vec::new()),
        budget: Spend::default(),
        queue_seq: 3,
        dispatch_seq: None,
        run: None,
        phase: Phase::Terminal,
        events: 1,
        cancel_request_id: Some("stop".into()),
        withdrawn: false,
        spent: Spend::default(),
        spawned_at_ns: 1,
        started_at_ns: None,
        end: Some(ChildEnd {
            outcome: ChildOutcome::Cancelled,
            at_ns: 2,
            code: Some("URM_CHILD_CANCELLED".into()),
            reason: Some("cancelled".into()),
            finished_by: None,
        }),
        manifest: None,
        trace: None,
        correlation_id: None,
        call: None,
    };
    let event = ChildEvent {
        kind: EventKind::Cancel,
        seq: 0,
        at_ns: 2,
        phase: Phase::Terminal,
        parent_seq: token.parent_seq,
        dispatch_seq: None,
        run: None,
        code: Some("URM_CHILD_CANCELLED".into()),
        reason: Some("cancelled".into()),
        cancel_request_id: token.cancel_request_id.clone(),
    };
    let ended = vec![CarriedChild { token, events: vec![event] }];
    let budgets = vec![Default::default(); Lane::ALL.len()];
    let carried = CarriedChildren { next_queue_seq: 4, next_dispatch_seq: 3, budgets, ended };
    carried.check(world).unwrap();
    let mut forged = carried.clone();
    forged.ended.extend(carried.ended.clone());
    assert!(forged.check(world).is_err(), "a child twice");
    forged = CarriedChildren { next_queue_seq: 3, ..carried.clone() };
    assert!(forged.check(world).is_err(), "its number was never drawn");
    forged = carried.clone();
    forged.ended[0].token.phase = Phase::Started;
    assert!(forged.check(world).is_err(), "it has not ended");
    forged = carried.clone();
    forged.ended[0].events.clear();
    assert!(forged.check(world).is_err(), "a phase without its event");
    carried
}

async fn import(store: &InContentStore, world: WorldId) -> Result<WorldCreated, StoreError> {
    let import = arrival(store, world);
    import_world(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, &import).await
}

#[test]
fn import_a_world() {
    let act = async |store: &InContentStore, world: &WorldId| import(store, *world).await.map(drop);
    survives(with_content_store, async |_| world_id(7), act, everything);
}

/// An import whose answer was lost must not, when it is repeated, take a world for its own that was deleted since.
#[test]
fn an_import_that_is_run_again_after_its_world_was_deleted_says_so() {
    block_on(async {
        let (store, world) = (with_content_store().await, world_id(7));
        assert_eq!(import(&store, world).await.unwrap(), WorldCreated::Now);
        assert_eq!(import(&store, world).await.unwrap(), WorldCreated::Before);
        let fence = store.acquire(world, 1).await.unwrap();
        delete_world(&store.engine, &store.clock, fence).await.unwrap();
        assert_eq!(import(&store, world).await.unwrap_err().code(), Code::WorldDeleted);
    });
}
