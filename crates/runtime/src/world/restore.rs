//! Restore: from the baseline and the records after it to a world in memory.

use super::{Tail, WorldHost};
use crate::{
    Plane, RuntimeError,
    effects::slots::RegisteredSlots,
    lifecycle::inherit_rest,
    objects::{AtHand, with_objects},
    snapshots::KernelSnapshots,
    yielding::ReplayPace,
};
use mundi_kernel::{World, replay::Replay};
use mundi_model::{WorldId, record::Body};
use mundi_store::{
    Fence, Restored,
    journal::{JournalError, StoredRecord},
};
use std::collections::VecDeque;

impl<P: Plane> WorldHost<P> {
    /// Restores the world that the fence is for. Every record is replayed against what it recorded.
    pub async fn restore(plane: P, fence: Fence) -> Result<Self, RuntimeError> {
        let Fence { universe, world, .. } = fence;
        let segments = plane.segments().clone();
        let restored =
            mundi_store::restore(plane.engine(), plane.blobs(), segments, &KernelSnapshots, universe, world).await?;
        let Restored { note, facts, snapshot, inherits_from, name, tail: mut history } = restored;
        if let Some(from) = inherits_from {
            Box::pin(inherit_rest(&plane, fence, &snapshot, from)).await?;
        }
        let mut at_hand = AtHand::default();
        at_hand.insert(note.snapshot, &snapshot);
        at_hand.note_stored(facts.roots);
        let registry = plane.registry().clone();
        let place = (universe, world);
        let restore = |objects: &AtHand| World::restore(objects, registry.clone(), &note);
        let restored = with_objects(&plane, place, &mut at_hand, restore).await?;
        let (mut replay, mut tail) = (Replay::from_world(restored), Tail::default());
        let mut pace = ReplayPace::default();
        while let Some(page) = history.next_page().await? {
            for record in page {
                pace.step().await;
                let apply = |objects: &AtHand| replay.apply(objects, &record.bytes);
                with_objects(&plane, place, &mut at_hand, apply).await?;
                if let Some(written_ns) = counted(fence.world, &record)? {
                    tail.grow(1, record.bytes.len() as u64, written_ns.unwrap_or(plane.now_ns()));
                }
            }
        }
        let world = replay.finish()?;
        at_hand.trim();
        Ok(Self {
            plane,
            fence,
            name: name.map(Into::into),
            world,
            at_hand,
            recording: None,
            tail,
            local: VecDeque::new(),
            drained: None,
            slots: RegisteredSlots::default(),
            metrics: None,
            due_on_record: None,
            failed: None,
            log_page: None,
            idle_at: None,
            callers: Vec::new(),
        })
    }
}

/// Whether a record is a reason for a snapshot: the notes about snapshots are none.
pub(crate) fn counts_for_tail(world: WorldId, record: &StoredRecord) -> Result<bool, RuntimeError> {
    Ok(counted(world, record)?.is_some())
}

/// When a record that counts was written, as far as it says: a turn begins with an ingress, which does.
fn counted(world: WorldId, record: &StoredRecord) -> Result<Option<Option<u64>>, RuntimeError> {
    let height = record.height;
    let decoded = record.decode();
    let decoded = decoded.map_err(|error| JournalError::RecordDamaged { world, height, cause: error.to_string() })?;
    Ok(match decoded.body {
        Body::Snapshot(_) | Body::BaselineSnapshot(_) | Body::ForkGenesis(_) | Body::Genesis(_) => None,
        Body::Ingress(ingress) => Some(Some(ingress.stamps.now_ns)),
        _ => Some(None),
    })
}
