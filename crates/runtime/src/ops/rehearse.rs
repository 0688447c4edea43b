//! Rehearsal of an upgrade over the recorded history of a world, where it lives.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    lifecycle::past,
    objects::{AtHand, with_objects},
};
use mundi_kernel::rehearse::{Compare, Divergence, Rehearsal, Rehearser};
use mundi_model::{Hash, Height, WorldId};
use mundi_store::journal::History;

/// What is rehearsed.
#[derive(Debug, Clone, Copy)]
pub struct RehearseRequest {
    pub world: WorldId,
    /// The manifest that would have held.
    pub candidate: Hash,
    /// From the newest snapshot at or below this height on; from where its own journal begins if nothing is said.
    pub from: Option<Height>,
    /// Up to this height; to the head if nothing is said.
    pub to: Option<Height>,
    pub compare: Compare,
}

/// How a rehearsal went.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    pub from: Height,
    pub to: Height,
    /// Records that were compared.
    pub records: u64,
    pub divergence: Option<Divergence>,
}

impl<P: Plane> Ops<P> {
    /// Runs the recorded history under another manifest, and names the first record from which something else follows.
    pub async fn rehearse_world(&self, request: RehearseRequest) -> Result<Rehearsed, RuntimeError> {
        let (plane, universe, world) = (&self.plane, self.universe, request.world);
        let place = (universe, world);
        let own = self.describe_world(world).await?.meta.first_height;
        let note = past::snapshot_below(plane, place, request.from.unwrap_or(own).max(own)).await?;
        let history = History::open(plane.engine(), plane.segments().clone(), universe, world, note.height).await?;
        let until = request.to.unwrap_or(history.head()).min(history.head());
        let mut history = history.after(note.chain).until(until);
        let mut at_hand = AtHand::default();
        at_hand.note_stored(self.roots(&note).await?);
        let (registry, RehearseRequest { candidate, compare, .. }) = (plane.registry(), request);
        let begin = |objects: &AtHand| Rehearser::begin(objects, registry, &note, candidate, compare);
        let mut rehearser = with_objects(plane, place, &mut at_hand, begin).await?;
        'history: while let Some(page) = history.next_page().await? {
            for record in page {
                let apply = |objects: &AtHand| rehearser.apply(objects, &record.bytes);
                if !with_objects(plane, place, &mut at_hand, apply).await? {
                    break 'history;
                }
                at_hand.trim();
            }
        }
        let Rehearsal { records, divergence } = rehearser.finish();
        Ok(Rehearsed { from: note.height, to: until, records, divergence })
    }
}
