//! One export from beginning to end: the transactions of `segment_export`, with the object between them.

use super::{BuiltSegment, SegmentBuilder, SegmentError, object_path};
use crate::{
    Clock, Fence, StoreError,
    journal::JournalError,
    keyspace::{
        journal_entry,
        segment::{self, SegmentRecord},
        segment_checkpoint::SegmentCheckpoint,
    },
    objects::Objects,
    protocol::{BeginExport, DeleteExported, ExportPolicy, IndexSegment, NextExport, PlanExport},
    run,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Height, limits};
use std::time::Duration;

/// Entries that one transaction reads: short enough not to hold back the engine's history.
const READ_ENTRIES: usize = 1_000;

/// The result of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exported {
    /// There was not enough to export.
    Idle,
    Segment(SegmentRecord),
}

/// Exports the next segment of a world, or finishes one that was interrupted.
///
/// Between two transactions that delete it pauses for `pause`, so that the foreground is never far behind.
pub async fn export_segment<E: Engine>(
    engine: &E,
    objects: &Objects,
    clock: &dyn Clock,
    fence: Fence,
    policy: ExportPolicy,
    pause: Duration,
) -> Result<Exported, StoreError> {
    let export = Export { engine, objects, clock, fence };
    let record = match run(engine, clock, &PlanExport { fence, policy }).await?.output {
        NextExport::Idle => return Ok(Exported::Idle),
        NextExport::Fresh { start, until } => {
            let built = export.build(start, until, SegmentBuilder::is_full).await?;
            let (start, end) = (built.record.start, built.record.end);
            run(engine, clock, &BeginExport { fence, start, end }).await?;
            export.write(built).await?
        }
        NextExport::Resume(SegmentCheckpoint { start, end, deleted_to: None }) => {
            let built = export.build(start, end, |_| false).await?;
            export.write(built).await?
        }
        NextExport::Resume(SegmentCheckpoint { start, end, .. }) => export.indexed(start, end).await?,
    };
    let delete = DeleteExported { fence, chunk: limits::SEGMENT_DELETE_CHUNK };
    while run(engine, clock, &delete).await?.output {
        clock.sleep(pause).await;
    }
    Ok(Exported::Segment(record))
}

struct Export<'a, E> {
    engine: &'a E,
    objects: &'a Objects,
    clock: &'a dyn Clock,
    fence: Fence,
}

impl<E: Engine> Export<'_, E> {
    /// Builds a segment of the records from `start` to `until`, or to where `enough` says so.
    async fn build(
        &self,
        start: Height,
        until: Height,
        enough: impl Fn(&SegmentBuilder) -> bool,
    ) -> Result<BuiltSegment, StoreError> {
        let mut builder = SegmentBuilder::new(self.fence.universe, self.fence.world, start);
        while builder.next() < until && !enough(&builder) {
            for record in self.hot(builder.next(), until).await? {
                if enough(&builder) {
                    break;
                }
                builder.push(&record)?;
            }
        }
        Ok(builder.finish()?)
    }

    /// Some records from `from` on; a gap among them is damage.
    async fn hot(&self, from: Height, until: Height) -> Result<Vec<Bytes>, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let mut tx = self.engine.begin().await?;
        let records = journal_entry::read_some(&mut tx, universe, world, from, until, READ_ENTRIES).await?;
        let heights = (from.get()..).map(Height::new);
        let whole = records.iter().zip(heights).take_while(|(record, expected)| record.height == *expected).count();
        if whole != records.len() || whole == 0 {
            let height = from.plus(whole as u64);
            return Err(JournalError::Gap { world, height, head: until }.into());
        }
        Ok(records.into_iter().map(|record| record.bytes).collect())
    }

    /// Writes the object and makes it part of the journal.
    async fn write(&self, built: BuiltSegment) -> Result<SegmentRecord, StoreError> {
        let BuiltSegment { record, object } = built;
        let path = object_path(self.fence.universe, self.fence.world, record.start, record.end);
        self.objects.put(&path, object).await.map_err(SegmentError::from)?;
        run(self.engine, self.clock, &IndexSegment { fence: self.fence, record: &record }).await?;
        Ok(record)
    }

    async fn indexed(&self, start: Height, end: Height) -> Result<SegmentRecord, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let mut tx = self.engine.begin().await?;
        let record = segment::read(&mut tx, universe, world, end).await?;
        let missing = SegmentError::Unsafe { start, end, why: "its index record is missing" };
        record.ok_or_else(|| missing.into())
    }
}
