//! Case 5: the snapshot at a height stays what it is, a baseline only advances, and neither is taken on trust.

use super::refused;
use crate::{
    Fence, StoreError,
    blob::Blobs,
    journal::NoSegments,
    keyspace::{baseline, snapshot},
    restore,
    snapshot::SnapshotFacts,
    testing::{Fixture, PlainSnapshots},
};
use mundi_engine::Engine;
use mundi_model::{
    Code, Hash, Height,
    record::{Body, SnapshotNote},
};

/// Commits, promotes, refuses, restores.
pub async fn snapshots_are_immutable_and_baselines_never_go_back<E: Engine, B: Blobs>(engine: &E, blobs: B) {
    run(engine, blobs).await.expect("snapshots are committed");
}

async fn run<E: Engine, B: Blobs>(engine: &E, blobs: B) -> Result<(), StoreError> {
    let fixture = Fixture::with_blobs(engine.clone(), blobs, 0xa5).await?;
    let fence = fixture.live(1).await?;
    let first = active(&fixture, fence).await?.expect("a baseline from creation");
    assert_eq!(first.height, Height::GENESIS);

    let head = fixture.append(fence, 10).await?;
    let facts = fixture.facts(Height::new(6));
    let committed = fixture.snapshot(fence, &facts, false).await?;
    assert_eq!(committed.head.height, head.height.next(), "one record notes it");
    assert_eq!(fixture.snapshot(fence, &facts, false).await?.head, committed.head, "a second commit changes nothing");
    assert_eq!(active(&fixture, fence).await?, Some(first), "it was not promoted");
    let other = SnapshotFacts { logical_time_ns: 8, ..facts.clone() };
    assert_eq!(refused(fixture.snapshot(fence, &other, false).await), Some(Code::SnapshotExists));

    let promoted = fixture.snapshot(fence, &facts, true).await?;
    assert_eq!(active(&fixture, fence).await?, Some(promoted.note.clone()));
    let earlier = fixture.snapshot(fence, &fixture.facts(Height::new(4)), true).await;
    assert_eq!(refused(earlier), Some(Code::BaselineRegressed));
    refusals(&fixture, fence).await?;

    assert_eq!(active(&fixture, fence).await?, Some(promoted.note.clone()), "what was refused changed nothing");
    let mut tx = engine.begin().await?;
    let indexed = snapshot::newest_at(&mut tx, fixture.universe, fence.world, Height::new(1_000)).await?;
    assert_eq!(indexed, Some(promoted.note.clone()));
    drop(tx);
    notes(&fixture, fence, &promoted.note).await?;
    restored(&fixture, fence).await
}

async fn active<E: Engine, B: Blobs>(
    fixture: &Fixture<E, B>,
    fence: Fence,
) -> Result<Option<SnapshotNote>, StoreError> {
    baseline::read(&mut fixture.engine.begin().await?, fixture.universe, fence.world).await
}

async fn refusals<E: Engine, B: Blobs>(fixture: &Fixture<E, B>, fence: Fence) -> Result<(), StoreError> {
    let good = fixture.facts(Height::new(9));
    let ghost = Hash::of(b"never stored");
    let cases = [
        (fixture.facts(Height::new(1_000)), Code::SnapshotBeyondHead),
        (SnapshotFacts { receipt_horizon: Some(Height::new(8)), ..good.clone() }, Code::ReceiptHorizonUnmet),
        (SnapshotFacts { roots: vec![], ..good.clone() }, Code::SnapshotIncomplete),
    ];
    for (facts, code) in cases {
        assert_eq!(refused(fixture.snapshot(fence, &facts, true).await), Some(code));
    }
    // A real content store already refuses the snapshot whose references do not exist.
    let rootless = SnapshotFacts { roots: vec![good.manifest, ghost], ..good.clone() };
    let code = refused(fixture.snapshot(fence, &rootless, true).await);
    assert!(matches!(code, Some(Code::SnapshotIncomplete | Code::BlobRefMissing)), "{code:?}");
    let other = fixture.blobs.put(fixture.universe, bytes::Bytes::from_static(b"other manifest"), &[]).await?;
    let foreign = SnapshotFacts { manifest: other, roots: vec![other], ..good.clone() };
    assert_eq!(refused(fixture.snapshot(fence, &foreign, true).await), Some(Code::SnapshotManifest));
    let stale = Fence { epoch: fence.epoch.next(), ..fence };
    assert_eq!(refused(fixture.snapshot(stale, &good, true).await), Some(Code::LeaseFenced));
    Ok(())
}

/// The journal says what index and baseline hold.
async fn notes<E: Engine, B: Blobs>(
    fixture: &Fixture<E, B>,
    fence: Fence,
    note: &SnapshotNote,
) -> Result<(), StoreError> {
    let history = fixture.history(fence.world, Height::new(11)).await?;
    let bodies: Vec<Body> = history.iter().map(|stored| stored.decode().expect("a record").body).collect();
    assert_eq!(bodies, [Body::Snapshot(note.clone()), Body::BaselineSnapshot(note.clone())]);
    Ok(())
}

/// Restore gives the promoted snapshot, and exactly the records that a full replay has from its height on.
async fn restored<E: Engine, B: Blobs>(fixture: &Fixture<E, B>, fence: Fence) -> Result<(), StoreError> {
    let Fixture { engine, blobs, universe, .. } = fixture;
    let restored = restore(engine, blobs, NoSegments, &PlainSnapshots, *universe, fence.world).await?;
    assert_eq!(restored.snapshot, PlainSnapshots::encode(&fixture.facts(Height::new(6))));
    let full = fixture.history(fence.world, Height::GENESIS).await?;
    assert_eq!(restored.tail.collect().await?, full[6..]);
    Ok(())
}
