//! Restore: what it gives equals a full replay byte for byte, and what is damaged is refused, never guessed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_engine::{Engine, Memory, RangeRead, Transaction};
use mundi_model::{
    Code, Coded, Hash, Height,
    record::{Body, EffectPolicy, ForkGenesis, ManifestChange, Record},
};
use mundi_store::{
    Fence, StoreError,
    blob::Blobs,
    blobs::{Cas, CasConfig},
    journal::{Batch, History, NoSegments, StoredRecord},
    keyspace::journal_entry,
    objects::{self, Objects},
    protocol::{CreateWorld, ExportPolicy, Inherited, create_world},
    restore,
    segments::{Exported, SegmentStore, export_segment},
    snapshot::SnapshotFacts,
    testing::{AppendBatch, CountingEntropy, Fixture, HeapBlobs, ManualClock, PlainSnapshots, note_body, world_id},
};
use pollster::block_on;
use std::{sync::Arc, time::Duration};

type Store<B = HeapBlobs> = Fixture<Memory, B>;

async fn restored<B: Blobs>(store: &Store<B>, fence: Fence) -> Result<(Bytes, Vec<StoredRecord>), StoreError> {
    let (universe, world) = (store.universe, fence.world);
    let restored = restore(&store.engine, &store.blobs, NoSegments, &PlainSnapshots, universe, world).await?;
    Ok((restored.snapshot, restored.tail.collect().await?))
}

fn code<T>(result: Result<T, StoreError>) -> Code {
    result.err().expect("refused").code()
}

#[test]
fn baseline_segments_and_tail_equal_a_full_replay() {
    block_on(async {
        let (store, objects, segments) = with_segments().await;
        let fence = store.live(1).await.unwrap();
        for round in 1..=4u64 {
            store.append(fence, 300).await.unwrap();
            let full = history(&store, &segments, fence).await;
            let height = Height::new(round * 250);
            store.snapshot(fence, &store.facts(height), true).await.unwrap();
            let policy = ExportPolicy { margin: 30, records_min: 1, ..ExportPolicy::DEFAULT };
            let exported =
                export_segment(&store.engine, &objects, &store.clock, fence, policy, Duration::ZERO).await.unwrap();
            assert!(matches!(exported, Exported::Segment(_)));

            let after = history(&store, &segments, fence).await;
            assert_eq!(after[..full.len()], full, "an export changes nothing that can be read");
            let (universe, world) = (store.universe, fence.world);
            let restored =
                restore(&store.engine, &store.blobs, segments.clone(), &PlainSnapshots, universe, world).await.unwrap();
            assert_eq!(restored.note.height, height);
            assert_eq!(restored.snapshot, PlainSnapshots::encode(&store.facts(height)));
            let skipped = usize::try_from(height.get()).unwrap();
            assert_eq!(restored.tail.collect().await.unwrap(), after[skipped..]);
        }
    });
}

/// A store over real content and segments.
async fn with_segments() -> (Store<Cas<Memory>>, Objects, Arc<SegmentStore<Memory>>) {
    let (engine, objects) = (Memory::new(), objects::open("memory:///").unwrap());
    let (clock, entropy) = (Arc::new(ManualClock::at_ns(1)), Arc::new(CountingEntropy::default()));
    let cas = Cas::new(engine.clone(), objects.clone(), clock, entropy, CasConfig::default());
    let segments = Arc::new(SegmentStore::new(engine.clone(), objects.clone()));
    (Fixture::with_blobs(engine, cas, 1).await.unwrap(), objects, segments)
}

async fn history<B: Blobs>(store: &Store<B>, segments: &Arc<SegmentStore<Memory>>, fence: Fence) -> Vec<StoredRecord> {
    let (universe, world) = (store.universe, fence.world);
    let open = History::open(&store.engine, segments.clone(), universe, world, Height::GENESIS).await;
    open.unwrap().pages_of(64).collect().await.unwrap()
}

#[test]
fn every_world_can_be_restored_from_its_first_moment() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let fence = store.live(1).await.unwrap();
        let (snapshot, tail) = restored(&store, fence).await.unwrap();
        assert_eq!(snapshot, PlainSnapshots::encode(&store.facts(Height::GENESIS)));
        assert!(matches!(tail[0].decode().unwrap().body, Body::Genesis(_)));
        assert_eq!(tail.len(), 1);
    });
}

#[test]
fn a_missing_record_is_a_gap_and_a_changed_one_breaks_the_chain() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let fence = store.live(1).await.unwrap();
        for together in [1, 4, 1, 4] {
            store.append(fence, together).await.unwrap();
        }
        let good = store.history(fence.world, Height::GENESIS).await.unwrap();
        let all = RangeRead::new(
            journal_entry::key(store.universe, fence.world, Height::GENESIS).as_bytes().to_vec(),
            journal_entry::key(store.universe, fence.world, Height::new(100)).as_bytes().to_vec(),
            100,
        );
        let entries = store.engine.begin().await.unwrap().range(all).await.unwrap().items;
        assert_eq!((entries.len(), good.len()), (5, 11), "what was appended together stands together");

        let write = async |key: &Bytes, value: Option<Bytes>| {
            let mut tx = store.engine.begin().await.unwrap();
            match value {
                Some(value) => tx.put(key, value).unwrap(),
                None => tx.delete(key).unwrap(),
            }
            tx.commit().await.unwrap();
        };
        for (key, original) in &entries {
            write(key, None).await;
            let refused = store.history(fence.world, Height::GENESIS).await;
            assert_eq!(code(refused), Code::JournalGap, "{key:?} is missing");
            for at in 0..original.len() {
                let mut flipped = original.to_vec();
                flipped[at] ^= 1;
                write(key, Some(flipped.into())).await;
                let refused = store.history(fence.world, Height::GENESIS).await;
                assert_eq!(code(refused), Code::JournalCorrupt, "byte {at} of {key:?}");
            }
            write(key, Some(original.clone())).await;
        }
        assert_eq!(store.history(fence.world, Height::GENESIS).await.unwrap(), good);
    });
}

#[test]
fn a_damaged_baseline_is_refused() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let fence = store.live(1).await.unwrap();
        store.append(fence, 5).await.unwrap();
        let note = store.snapshot(fence, &store.facts(Height::new(4)), true).await.unwrap().note;
        let bytes = PlainSnapshots::encode(&store.facts(Height::new(4)));
        restored(&store, fence).await.unwrap();

        store.blobs.corrupt(store.universe, note.snapshot, Bytes::from_static(b"other bytes"));
        assert_eq!(code(restored(&store, fence).await), Code::BaselineDamaged);
        store.blobs.lose(store.universe, note.snapshot);
        assert_eq!(code(restored(&store, fence).await), Code::BaselineDamaged);
        store.blobs.put(store.universe, bytes, &[]).await.unwrap();
        restored(&store, fence).await.unwrap();
        store.blobs.lose(store.universe, store.manifest_hash());
        assert_eq!(code(restored(&store, fence).await), Code::BaselineDamaged, "a root is missing");
    });
}

/// Once a snapshot was taken under another manifest than the journal gave at its height.
#[test]
fn a_snapshot_is_held_to_the_manifest_of_its_own_height() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let fence = store.live(1).await.unwrap();
        let head = store.append(fence, 3).await.unwrap();
        let next = store.blobs.put(store.universe, Bytes::from_static(b"next manifest"), &[]).await.unwrap();
        let change = ManifestChange { from: store.manifest_hash(), to: next, forced: false };
        let batch = Batch::from_bodies(head, [Body::ManifestChange(change), note_body(1)]).unwrap();
        store.run(&AppendBatch { fence, batch }).await.unwrap();

        let under = |manifest: Hash, height: u64| SnapshotFacts {
            manifest,
            roots: vec![manifest],
            ..store.facts(Height::new(height))
        };
        // The change stands at height 4 and holds from height 5 on.
        for (manifest, height) in [(next, 4), (store.manifest_hash(), 5), (store.manifest_hash(), 6)] {
            let refused = store.snapshot(fence, &under(manifest, height), true).await;
            assert_eq!(code(refused), Code::SnapshotManifest);
        }
        store.snapshot(fence, &under(store.manifest_hash(), 4), true).await.unwrap();
        store.snapshot(fence, &under(next, 5), true).await.unwrap();
        restored(&store, fence).await.unwrap();
    });
}

#[test]
fn a_fork_shares_the_history_of_its_parent_and_keeps_it_alive() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let parent = store.live(1).await.unwrap();
        store.append(parent, 8).await.unwrap();
        let source = store.snapshot(parent, &store.facts(Height::new(6)), false).await.unwrap().note;
        store.append(parent, 8).await.unwrap();

        let request = fork(&store, parent, source.chain);
        create_world(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, request.clone()).await.unwrap();
        let forged = fork(&store, parent, Hash::of(b"another history"));
        let forged = CreateWorld { world: world_id(3), ..forged };
        assert!(create_world(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, forged).await.is_err());
        let child = store.acquire(world_id(2), 1).await.unwrap();
        store.append(child, 4).await.unwrap();

        let theirs = store.history(parent.world, Height::GENESIS).await.unwrap();
        let ours = store.history(child.world, Height::GENESIS).await.unwrap();
        assert_eq!(ours[..6], theirs[..6], "below the fork it is the parent's history");
        assert!(matches!(ours[6].decode().unwrap().body, Body::ForkGenesis(_)));
        assert_eq!(ours.len(), 6 + 1 + 4);
        assert_ne!(ours[7].bytes, theirs[7].bytes);
        let (snapshot, tail) = restored(&store, child).await.unwrap();
        assert_eq!((Hash::of(&snapshot), tail), (source.snapshot, ours[6..].to_vec()));

        let delete = |fence| mundi_store::protocol::delete_world(&store.engine, &store.clock, fence);
        assert_eq!(code(delete(parent).await), Code::WorldHasForks);
        delete(child).await.unwrap();
        delete(parent).await.unwrap();
    });
}

#[test]
fn a_fork_reads_its_parents_history_also_from_segments() {
    block_on(async {
        let (store, objects, segments) = with_segments().await;
        let parent = store.live(1).await.unwrap();
        store.append(parent, 8).await.unwrap();
        let source = store.snapshot(parent, &store.facts(Height::new(6)), false).await.unwrap().note;
        let request = fork(&store, parent, source.chain);
        create_world(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, request).await.unwrap();
        let child = store.acquire(world_id(2), 1).await.unwrap();
        store.append(child, 4).await.unwrap();
        let before = history(&store, &segments, child).await;

        store.append(parent, 40).await.unwrap();
        store.snapshot(parent, &store.facts(Height::new(30)), true).await.unwrap();
        let policy = ExportPolicy { margin: 0, records_min: 1, ..ExportPolicy::DEFAULT };
        let exported = export_segment(&store.engine, &objects, &store.clock, parent, policy, Duration::ZERO).await;
        assert!(matches!(exported.unwrap(), Exported::Segment(_)), "what the child shares has left the engine");
        assert_eq!(history(&store, &segments, child).await, before);
    });
}

fn fork<B: Blobs>(store: &Store<B>, parent: Fence, chain: Hash) -> CreateWorld {
    let (forked_at, world) = (Height::new(6), world_id(2));
    let snapshot = PlainSnapshots::encode(&store.facts(forked_at));
    let genesis = ForkGenesis {
        universe: store.universe,
        world,
        parent: parent.world,
        forked_at,
        parent_snapshot: Hash::of(&snapshot),
        snapshot: Hash::of(&snapshot),
        policy: EffectPolicy::Suppress,
        now_ns: 1,
        manifest: None,
        answers: None,
        told: None,
    };
    let first = Record { height: forked_at, prev: chain, body: Body::ForkGenesis(genesis) };
    CreateWorld {
        universe: store.universe,
        world,
        first,
        snapshot,
        inbox: None,
        inherited: Inherited::default(),
        commands: Vec::new(),
        name: None,
        labels: None,
        now_ns: 1,
    }
}
