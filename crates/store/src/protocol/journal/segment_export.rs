//! Move a run of old records into a segment.
//!
//! Guarantees: only records below the active baseline, less a margin, leave the engine; a hot entry is deleted only after
//! the index record of the segment that holds it is committed, and that only after the object is written; a reader finds
//! every record at every moment, in the engine or in a segment; only the holder of the world's lease exports.
//!
//! The transactions are, in order: [`PlanExport`] (read only), [`BeginExport`] (fixes the range), then the object is
//! written, [`IndexSegment`], and [`DeleteExported`] until nothing is left. An export that was interrupted anywhere goes
//! on from the checkpoint: records are immutable, so the same range gives the same object under the same key.
//!
//! Unknown commit: run again; each transaction finds what it has already done by the checkpoint and the index record.
//!
//! May differ after a crash: nothing, once the retry is through.

use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        baseline, journal_entry,
        segment::{self, SegmentRecord},
        segment_checkpoint::{self, SegmentCheckpoint},
        world_meta,
    },
    protocol::{WorldError, require_live},
    segments::SegmentError,
};
use mundi_engine::Transaction;
use mundi_model::{
    Epoch, Height, UniverseId, WorldId, limits,
    mutants::{Mutant, planted},
};

/// When records leave the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportPolicy {
    /// So many records below the baseline stay hot, for readers that look back a little.
    pub margin: u64,
    /// Fewer are not worth an object.
    pub records_min: u64,
    /// One segment holds no more; at most [`limits::SEGMENT_RECORDS_MAX`].
    pub records_max: u64,
}

impl ExportPolicy {
    pub const DEFAULT: Self = Self { margin: 1_000, records_min: 1_000, records_max: limits::SEGMENT_RECORDS_MAX };
}

impl Default for ExportPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The next export of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextExport {
    Idle,
    /// Records from `start` on may leave, but none at or above `until`.
    Fresh {
        start: Height,
        until: Height,
    },
    /// An export was begun and not finished.
    Resume(SegmentCheckpoint),
}

pub struct PlanExport {
    pub fence: Fence,
    pub policy: ExportPolicy,
}

impl Protocol for PlanExport {
    type Output = NextExport;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<NextExport, StoreError> {
        self.fence.check(tx).await?;
        next_export(tx, &self.fence, self.policy).await
    }
}

async fn next_export<T: Transaction>(
    tx: &mut T,
    fence: &Fence,
    policy: ExportPolicy,
) -> Result<NextExport, StoreError> {
    if let Some(checkpoint) = segment_checkpoint::read(tx, fence.universe, fence.world).await? {
        return Ok(NextExport::Resume(checkpoint));
    }
    Ok(plan(cold_end(tx, fence).await?, hot_start(tx, fence).await?, policy))
}

/// How far the export of a world has come, for those who wait for it and do not hold the world.
#[derive(Debug, Clone, Copy)]
pub struct ReadExport {
    pub universe: UniverseId,
    pub world: WorldId,
    pub policy: ExportPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportState {
    pub next: NextExport,
    /// The first height that is in no segment.
    pub exported_to: Height,
}

impl Protocol for ReadExport {
    type Output = ExportState;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<ExportState, StoreError> {
        let Self { universe, world, policy } = *self;
        require_live(tx, universe, world).await?;
        let fence = Fence { universe, world, epoch: Epoch::INITIAL }; // names the world; nothing is written
        Ok(ExportState { next: next_export(tx, &fence, policy).await?, exported_to: hot_start(tx, &fence).await? })
    }
}

/// The segments of a world that end above a height, counted up to a page.
#[derive(Debug, Clone, Copy)]
pub struct CountSegments {
    pub universe: UniverseId,
    pub world: WorldId,
    pub above: Height,
}

impl Protocol for CountSegments {
    type Output = u64;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<u64, StoreError> {
        let Self { universe, world, above } = *self;
        let span = segment::span(universe, world).after(&segment::key(universe, world, above));
        Ok(tx.range(span.read(limits::RANGE_ITEMS_MAX).snapshot()).await?.items.len() as u64)
    }
}

fn plan(baseline: Height, start: Height, policy: ExportPolicy) -> NextExport {
    let until = Height::new(baseline.since(Height::new(policy.margin)));
    if until.since(start) < policy.records_min.max(1) {
        return NextExport::Idle;
    }
    let records_max = policy.records_max.clamp(1, limits::SEGMENT_RECORDS_MAX);
    NextExport::Fresh { start, until: until.min(start.plus(records_max)) }
}

/// No record at or above this height may leave.
async fn cold_end<T: Transaction>(tx: &mut T, fence: &Fence) -> Result<Height, StoreError> {
    let baseline = baseline::read(tx, fence.universe, fence.world).await?;
    let missing = || WorldError::NotFound { universe: fence.universe, world: fence.world };
    Ok(baseline.ok_or_else(missing)?.height)
}

/// The first height that is in no segment.
async fn hot_start<T: Transaction>(tx: &mut T, fence: &Fence) -> Result<Height, StoreError> {
    if let Some(newest) = segment::newest(tx, fence.universe, fence.world).await? {
        return Ok(newest.end);
    }
    let meta = world_meta::read(tx, fence.universe, fence.world).await?;
    let missing = || WorldError::NotFound { universe: fence.universe, world: fence.world };
    Ok(meta.ok_or_else(missing)?.first_height)
}

/// Fixes the range of an export, before its object is written.
pub struct BeginExport {
    pub fence: Fence,
    pub start: Height,
    pub end: Height,
}

impl Protocol for BeginExport {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        self.fence.check(tx).await?;
        let Fence { universe, world, .. } = self.fence;
        let checkpoint = SegmentCheckpoint { start: self.start, end: self.end, deleted_to: None };
        match segment_checkpoint::read(tx, universe, world).await? {
            Some(begun) if begun == checkpoint => return Ok(()),
            Some(_) => return Err(self.refused("another export is under way").into()),
            None => {}
        }
        if self.start >= self.end || self.end > cold_end(tx, &self.fence).await? {
            return Err(self.refused("it is not below the baseline").into());
        }
        if self.start != hot_start(tx, &self.fence).await? {
            return Err(self.refused("it does not follow the newest segment").into());
        }
        if planted(Mutant::SegmentUnindexed) {
            let span = journal_entry::ending(universe, world, self.start, self.end);
            tx.delete_range(span.start.as_bytes(), span.end.as_bytes())?;
        }
        segment_checkpoint::write(tx, universe, world, &checkpoint)
    }
}

impl BeginExport {
    fn refused(&self, why: &'static str) -> SegmentError {
        SegmentError::Unsafe { start: self.start, end: self.end, why }
    }
}

/// Makes a written segment part of the journal. Nothing is deleted yet.
pub struct IndexSegment<'a> {
    pub fence: Fence,
    pub record: &'a SegmentRecord,
}

impl Protocol for IndexSegment<'_> {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        self.fence.check(tx).await?;
        let Fence { universe, world, .. } = self.fence;
        let SegmentRecord { start, end, .. } = *self.record;
        let begun = segment_checkpoint::read(tx, universe, world).await?;
        match begun.filter(|begun| (begun.start, begun.end) == (start, end)) {
            None => Err(SegmentError::Unsafe { start, end, why: "its export was not begun" }.into()),
            Some(indexed) if indexed.deleted_to.is_some() => Ok(()),
            Some(begun) => {
                segment::write(tx, universe, world, self.record)?;
                segment_checkpoint::write(tx, universe, world, &SegmentCheckpoint { deleted_to: Some(start), ..begun })
            }
        }
    }
}

/// Deletes hot entries that a segment holds, a chunk at a time.
pub struct DeleteExported {
    pub fence: Fence,
    pub chunk: u64,
}

impl Protocol for DeleteExported {
    /// Whether entries are left to delete.
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        self.fence.check(tx).await?;
        let Fence { universe, world, .. } = self.fence;
        let Some(checkpoint) = segment_checkpoint::read(tx, universe, world).await? else { return Ok(false) };
        let SegmentCheckpoint { start, end, deleted_to } = checkpoint;
        let indexed = segment::read(tx, universe, world, end).await?.is_some_and(|segment| segment.start == start);
        let Some(from) = deleted_to.filter(|_| indexed) else {
            return Err(SegmentError::Unsafe { start, end, why: "no segment holds it yet" }.into());
        };
        let to = from.plus(self.chunk.max(1)).min(end);
        let span = journal_entry::ending(universe, world, from, to);
        tx.delete_range(span.start.as_bytes(), span.end.as_bytes())?;
        if to == end {
            tx.delete(segment_checkpoint::key(universe, world).as_bytes())?;
            return Ok(false);
        }
        segment_checkpoint::write(tx, universe, world, &SegmentCheckpoint { deleted_to: Some(to), ..checkpoint })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(start: u64, until: u64) -> NextExport {
        NextExport::Fresh { start: Height::new(start), until: Height::new(until) }
    }

    fn planned(baseline: u64, start: u64, margin: u64, records_min: u64) -> NextExport {
        plan(Height::new(baseline), Height::new(start), ExportPolicy { margin, records_min, ..ExportPolicy::DEFAULT })
    }

    #[test]
    fn only_what_lies_below_the_baseline_less_the_margin_leaves() {
        assert_eq!(planned(100, 0, 10, 1), fresh(0, 90));
        assert_eq!(planned(100, 90, 10, 1), NextExport::Idle);
        assert_eq!(planned(5, 0, 10, 1), NextExport::Idle);
        assert_eq!(planned(0, 0, 0, 0), NextExport::Idle);
    }

    #[test]
    fn few_records_wait_and_many_are_cut() {
        assert_eq!(planned(100, 0, 10, 91), NextExport::Idle);
        assert_eq!(planned(10_000_000, 5, 0, 1), fresh(5, 5 + limits::SEGMENT_RECORDS_MAX));
        let of_seven = ExportPolicy { margin: 0, records_min: 1, records_max: 7 };
        assert_eq!(plan(Height::new(100), Height::new(5), of_seven), fresh(5, 12));
    }
}
