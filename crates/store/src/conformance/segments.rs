//! Case 6: a journal reads the same before an export, after it, and at every moment between; and so does a restore.

use super::content_store;
use crate::{
    StoreError,
    journal::{History, NoSegments, StoredRecord},
    objects::Objects,
    protocol::ExportPolicy,
    restore,
    segments::{Exported, SegmentStore, export_segment},
    testing::{Fixture, PlainSnapshots},
};
use mundi_engine::Engine;
use mundi_model::Height;
use std::time::Duration;

/// Exports a journal in several segments, and compares it with itself, byte for byte.
pub async fn segment_export_and_restore<E: Engine>(engine: &E, objects: &Objects) {
    run(engine, objects).await.expect("the export runs");
}

async fn run<E: Engine>(engine: &E, objects: &Objects) -> Result<(), StoreError> {
    let fixture = Fixture::with_blobs(engine.clone(), content_store(engine, objects), 0xa6).await?;
    let fence = fixture.live(6).await?;
    let segments = SegmentStore::new(engine.clone(), objects.clone());
    let policy = ExportPolicy { margin: 100, records_min: 1, ..ExportPolicy::DEFAULT };
    for (round, baseline) in [(1u64, 500), (2, 1_700), (3, 2_900)] {
        for _ in 0..10 {
            fixture.append(fence, 100).await?;
        }
        // A few records more than appended: each snapshot and each promotion has one of its own.
        let baseline = Height::new(baseline.min(round * 1_000));
        fixture.snapshot(fence, &fixture.facts(baseline), true).await?;
        let hot: Vec<StoredRecord> =
            History::open(engine, segments.clone(), fence.universe, fence.world, Height::GENESIS)
                .await?
                .collect()
                .await?;
        let exported = export_segment(engine, objects, &fixture.clock, fence, policy, Duration::ZERO).await?;
        let Exported::Segment(segment) = exported else { panic!("nothing was exported in round {round}") };
        assert_eq!(segment.end, Height::new(baseline.get() - 100), "all but the margin has left");
        let again = export_segment(engine, objects, &fixture.clock, fence, policy, Duration::ZERO).await?;
        assert_eq!(again, Exported::Idle);

        let cold = History::open(engine, segments.clone(), fence.universe, fence.world, Height::GENESIS).await?;
        assert_eq!(cold.collect().await?, hot, "segments and tail give the journal, byte for byte");
        let restored = restore(
            engine,
            &fixture.blobs,
            NoSegments, // what lies above the baseline never leaves
            &PlainSnapshots,
            fence.universe,
            fence.world,
        )
        .await?;
        let from = usize::try_from(baseline.get()).unwrap_or(usize::MAX);
        assert_eq!(restored.note.height, baseline);
        assert_eq!(restored.tail.collect().await?, hot[from..], "the restored tail is the end of a full replay");
    }
    Ok(())
}
