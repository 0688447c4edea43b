//! A world as it was: from the nearest snapshot below a height, and the records between.
//!
//! It is only read: no fence is needed, and a world that runs keeps running.

use crate::{
    KernelSnapshots, Plane, RuntimeError,
    objects::{AtHand, with_objects},
};
use mundi_engine::Engine;
use mundi_kernel::{World, replay::Replay};
use mundi_model::{Height, UniverseId, WorldId, record::SnapshotNote};
use mundi_store::{
    blob::Blobs,
    journal::{History, JournalError},
    keyspace::snapshot,
    snapshot::{ReadSnapshot, SnapshotError},
};

/// The newest snapshot at or below a height of a world that is not archived or deleted.
pub(crate) async fn snapshot_below<P: Plane>(
    plane: &P,
    (universe, world): (UniverseId, WorldId),
    height: Height,
) -> Result<SnapshotNote, RuntimeError> {
    let mut tx = plane.engine().begin().await?;
    mundi_store::protocol::require_live(&mut tx, universe, world).await?;
    let note = snapshot::newest_at(&mut tx, universe, world, height).await?;
    Ok(note.ok_or(SnapshotError::NotFound { world, height })?)
}

/// The height below which a world has nothing of its own.
async fn first_height<P: Plane>(plane: &P, (universe, world): (UniverseId, WorldId)) -> Result<Height, RuntimeError> {
    let mut tx = plane.engine().begin().await?;
    Ok(mundi_store::protocol::require_live(&mut tx, universe, world).await?.first_height)
}

/// A world that was replayed up to a height.
pub(crate) struct Past {
    pub(crate) replay: Replay,
    pub(crate) at_hand: AtHand,
}

impl Past {
    /// The world at that height, unless it lies in the middle of what follows from a step.
    pub(crate) fn world(self, world: WorldId) -> Result<(World, AtHand), RuntimeError> {
        if let Some((below, above)) = self.replay.step_around() {
            return Err(RuntimeError::MidStep { world, height: self.replay.head(), below, above });
        }
        Ok((self.replay.finish()?, self.at_hand))
    }
}

/// Replays a world from a snapshot up to a height, or to its head.
pub(crate) async fn replay_to<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    note: &SnapshotNote,
    until: Option<Height>,
) -> Result<Past, RuntimeError> {
    let (universe, world) = place;
    let bytes = plane.blobs().get(universe, note.snapshot).await?;
    let mut at_hand = AtHand::default();
    at_hand.insert(note.snapshot, &bytes);
    at_hand.note_stored(KernelSnapshots.facts(&bytes).map(|facts| facts.roots).unwrap_or_default());
    let registry = plane.registry().clone();
    let restore = |objects: &AtHand| World::restore(objects, registry.clone(), note);
    let mut replay = Replay::from_world(with_objects(plane, place, &mut at_hand, restore).await?);
    let history = History::open(plane.engine(), plane.segments().clone(), universe, world, note.height).await?;
    let mut history = history.after(note.chain).until(until.unwrap_or(Height::new(u64::MAX)));
    while let Some(page) = history.next_page().await? {
        for record in page {
            let apply = |objects: &AtHand| replay.apply(objects, &record.bytes);
            with_objects(plane, place, &mut at_hand, apply).await?;
        }
    }
    if let Some(height) = until.filter(|height| *height != replay.head()) {
        let (first, head) = (first_height(plane, place).await?, replay.head());
        return Err(JournalError::OutOfRange { world, height, first, head }.into());
    }
    Ok(Past { replay, at_hand })
}
