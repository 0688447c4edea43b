//! A world as it was: from the nearest snapshot below a height, and the records between.
//!
//! It is only read: no fence is needed, and a world that runs keeps running.

use super::checkpoints::Checkpointing;
use crate::{
    KernelSnapshots, Plane, RuntimeError,
    objects::{AtHand, with_objects},
    yielding::ReplayPace,
};
use mundi_engine::Engine;
use mundi_kernel::{World, replay::Replay};
use mundi_model::{Hash, Height, UniverseId, WorldId, record::SnapshotNote};
use mundi_store::{
    blob::Blobs,
    journal::{History, JournalError},
    keyspace::{snapshot, world_meta::WorldMeta},
    snapshot::{ReadSnapshot, SnapshotError},
};

/// The newest snapshot at or below a height of a world that is not archived or deleted.
pub(crate) async fn snapshot_below<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    height: Height,
) -> Result<SnapshotNote, RuntimeError> {
    Ok(world_below(plane, place, height).await?.1)
}

/// The same, with what is known of the world.
pub(crate) async fn world_below<P: Plane>(
    plane: &P,
    (universe, world): (UniverseId, WorldId),
    height: Height,
) -> Result<(WorldMeta, SnapshotNote), RuntimeError> {
    let mut tx = plane.engine().begin().await?;
    let meta = mundi_store::protocol::require_live(&mut tx, universe, world).await?;
    let note = snapshot::newest_at(&mut tx, universe, world, height).await?;
    Ok((meta, note.ok_or(SnapshotError::NotFound { world, height })?))
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

/// Replays a world from a stored snapshot up to a height, or to its head.
pub(crate) async fn replay_to<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    note: &SnapshotNote,
    until: Option<Height>,
) -> Result<Past, RuntimeError> {
    let at_hand = stored(plane, place, note).await?;
    replay_with(plane, place, (note, at_hand), until, &mut Checkpointing::none()).await
}

/// The start of a replay from a stored snapshot.
pub(super) async fn stored<P: Plane>(
    plane: &P,
    (universe, _): (UniverseId, WorldId),
    note: &SnapshotNote,
) -> Result<AtHand, RuntimeError> {
    let bytes = plane.blobs().get(universe, note.snapshot).await?;
    let mut at_hand = AtHand::default();
    at_hand.insert(note.snapshot, &bytes);
    at_hand.note_stored(roots(&bytes));
    Ok(at_hand)
}

/// Every object that a snapshot needs.
pub(super) fn roots(snapshot: &[u8]) -> Vec<Hash> {
    KernelSnapshots.facts(snapshot).map(|facts| facts.roots).unwrap_or_default()
}

/// Replays a world from a snapshot that is at hand, and leaves checkpoints on the way.
pub(super) async fn replay_with<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    (note, mut at_hand): (&SnapshotNote, AtHand),
    until: Option<Height>,
    checkpoints: &mut Checkpointing,
) -> Result<Past, RuntimeError> {
    let (universe, world) = place;
    let registry = plane.registry().clone();
    let restore = |objects: &AtHand| World::restore(objects, registry.clone(), note);
    let mut replay = Replay::from_world(with_objects(plane, place, &mut at_hand, restore).await?);
    let history = History::open(plane.engine(), plane.segments().clone(), universe, world, note.height).await?;
    let mut history = history.after(note.chain).until(until.unwrap_or(Height::new(u64::MAX)));
    let mut pace = ReplayPace::default();
    while let Some(page) = history.next_page().await? {
        for record in page {
            pace.step().await;
            let apply = |objects: &AtHand| replay.apply(objects, &record.bytes);
            with_objects(plane, place, &mut at_hand, apply).await?;
            if checkpoints.is_due(&replay) {
                let take = |objects: &AtHand| replay.snapshot(objects, |taken| checkpoints.keep(taken));
                with_objects(plane, place, &mut at_hand, take).await?;
            }
        }
    }
    if let Some(height) = until.filter(|height| *height != replay.head()) {
        let (first, head) = (first_height(plane, place).await?, replay.head());
        return Err(JournalError::OutOfRange { world, height, first, head }.into());
    }
    Ok(Past { replay, at_hand })
}
