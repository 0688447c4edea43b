//! One step of a world's past: what a record changed, and what was open after it.

use super::{At, CellDifference, Ops};
use crate::{
    Plane, RuntimeError,
    lifecycle::past,
    objects::{AtHand, with_objects},
};
use bytes::Bytes;
use mundi_kernel::{
    LoadError,
    cells::Entry,
    intents::OpenIntent,
    snapshot::{KernelSnapshot, TakenSnapshot},
};
use mundi_model::{Hash, Height, WorldId};
use mundi_store::journal::{JournalError, StoredRecord};

/// A record, and the world after it. All that a step does to cells is done with the record that caused it; the records that
/// follow from it change none.
#[derive(Debug, Clone)]
pub struct PastStep {
    pub record: StoredRecord,
    /// The first cells that it changed, in key order: as they were (`left`) and as they became (`right`).
    pub changes: Vec<CellDifference>,
    /// The cells after it that were asked for.
    pub cells: Vec<Entry>,
    pub open_intents: Vec<OpenIntent>,
    pub timers: Vec<OpenIntent>,
    pub manifest: Hash,
    pub logical_now_ns: u64,
    pub is_paused: bool,
}

/// The parts of a step that are asked for, beside what was open.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepQuestion<'q> {
    pub changes_max: usize,
    /// Cells under this prefix, in key order; none if `cells_max` is 0.
    pub prefix: &'q str,
    pub cells_max: usize,
}

impl<P: Plane> Ops<P> {
    /// The changes of the record at a height, and the effects and timers open after it. One replay from the nearest snapshot, without a lease.
    pub async fn world_step(
        &self,
        world: WorldId,
        height: Height,
        StepQuestion { changes_max, prefix, cells_max }: StepQuestion<'_>,
    ) -> Result<PastStep, RuntimeError> {
        let place = (self.universe, world);
        let past::Past { mut replay, mut at_hand } = self.past(At { world, height: Some(height) }).await?;
        let found = self.records_between(world, height, height.next()).await?;
        let Some(record) = found.into_iter().next() else {
            let (first, head) = (Height::GENESIS, replay.head());
            return Err(JournalError::OutOfRange { world, height, first, head }.into());
        };
        let take = |objects: &AtHand| -> Result<_, LoadError> { replay.snapshot(objects, |_| false) };
        let before = with_objects(&self.plane, place, &mut at_hand, take).await?;
        let before = keep(&before, &mut at_hand)?;
        let apply = |objects: &AtHand| replay.apply(objects, &record.bytes);
        with_objects(&self.plane, place, &mut at_hand, apply).await?;
        let take = |objects: &AtHand| -> Result<_, LoadError> { replay.snapshot(objects, |_| false) };
        let after = with_objects(&self.plane, place, &mut at_hand, take).await?;
        let after = keep(&after, &mut at_hand)?;
        let changes = self.differences(world, (before, after), (None, changes_max), &mut at_hand).await?;
        let cells = match cells_max {
            0 => Vec::new(),
            _ => {
                let replay = &mut replay; // a replay may be sent to another thread, and not shared with one
                let scan = move |objects: &AtHand| replay.world().cells().scan(objects, prefix, None, cells_max);
                with_objects(&self.plane, place, &mut at_hand, scan).await?
            }
        };
        let world = replay.world();
        Ok(PastStep {
            changes,
            cells,
            open_intents: world.open_intents().cloned().collect(),
            timers: world.timers().cloned().collect(),
            manifest: world.manifest().hash,
            logical_now_ns: world.logical_now_ns(),
            is_paused: world.is_paused(),
            record,
        })
    }
}

/// The root of the cells in a snapshot that is not stored: what it is made of is at hand from now on.
fn keep(taken: &TakenSnapshot, at_hand: &mut AtHand) -> Result<Option<Hash>, RuntimeError> {
    for (hash, bytes) in &taken.objects {
        at_hand.insert(*hash, &Bytes::from_owner(bytes.clone()));
    }
    Ok(KernelSnapshot::from_bytes(&taken.bytes)?.cells())
}
