//! Rehearsal of an upgrade over the recorded history of a world.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    lifecycle::{
        self,
        past::{self, Past},
    },
    objects::{AtHand, with_objects},
    yielding::ReplayPace,
};
use mundi_kernel::{
    rehearse::{Compare, Divergence, Rehearsal, Rehearser},
    snapshot::KernelSnapshot,
};
use mundi_model::{Hash, Height, UniverseId, WorldId, record::SnapshotNote};
use mundi_store::journal::History;

/// The parameters of a rehearsal.
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
    /// What an upgrade finds out before it is sent: whether worlds may run the manifest, whether it can be run, and whether it
    /// would treat what is open differently.
    pub async fn rehearse_upgrade(&self, world: WorldId, candidate: Hash) -> Result<Rehearsed, RuntimeError> {
        lifecycle::require_registered(&self.plane, self.universe, candidate).await?;
        self.check_manifest(candidate).await?;
        self.rehearse_open_work(world, candidate).await
    }

    /// Whether another manifest would treat what is open differently: the history since the oldest intent or timer that
    /// is still open, compared by what it asked of the outside. Cells may take another form.
    pub async fn rehearse_open_work(&self, world: WorldId, candidate: Hash) -> Result<Rehearsed, RuntimeError> {
        let (plane, place) = (&self.plane, (self.universe, world));
        let own = self.describe_world(world).await?.meta.first_height;
        let newest = past::snapshot_below(plane, place, Height::new(u64::MAX)).await?;
        let now = past::replay_to(plane, place, &newest, None).await?.replay.finish()?;
        let open = now.open_intents().chain(now.timers()).map(|open| open.place.height);
        let since = open.min().unwrap_or(now.head()).max(own);
        let before = past::snapshot_below(plane, place, since).await?;
        let Past { replay, mut at_hand } = past::replay_to(plane, place, &before, Some(since)).await?;
        let mut before = replay.finish()?;
        let taken = with_objects(plane, place, &mut at_hand, |objects| before.snapshot(objects)).await?;
        // Only for the rehearsal: a snapshot that nobody else will ever see.
        at_hand.pin(taken.note.snapshot, taken.bytes.clone());
        // What is not new in it is what the world refers to, and so it is in the store.
        at_hand.note_stored(KernelSnapshot::from_bytes(&taken.bytes)?.roots().iter().copied());
        taken.objects.iter().for_each(|(hash, object)| at_hand.pin(*hash, object.clone()));
        let history = History::open(plane.engine(), plane.segments().clone(), self.universe, world, since).await?;
        let to = history.head();
        let history = history.after(taken.note.chain).until(to);
        let (records, divergence) =
            rehearse(plane, place, (&mut at_hand, history), (&taken.note, candidate, Compare::Outputs)).await?;
        Ok(Rehearsed { from: since, to, records, divergence })
    }

    /// Runs the recorded history under another manifest, and names the first record from which something else follows.
    pub async fn rehearse_world(&self, request: RehearseRequest) -> Result<Rehearsed, RuntimeError> {
        let (plane, universe, world) = (&self.plane, self.universe, request.world);
        lifecycle::require_registered(plane, universe, request.candidate).await?;
        let place = (universe, world);
        let own = self.describe_world(world).await?.meta.first_height;
        let note = past::snapshot_below(plane, place, request.from.unwrap_or(own).max(own)).await?;
        let history = History::open(plane.engine(), plane.segments().clone(), universe, world, note.height).await?;
        let until = request.to.unwrap_or(history.head()).min(history.head());
        let history = history.after(note.chain).until(until);
        let mut at_hand = AtHand::default();
        at_hand.note_stored(self.roots(&note).await?);
        let (records, divergence) =
            rehearse(plane, place, (&mut at_hand, history), (&note, request.candidate, request.compare)).await?;
        Ok(Rehearsed { from: note.height, to: until, records, divergence })
    }
}

/// Runs a history twice, from a snapshot on; says how many records were compared.
async fn rehearse<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    (at_hand, mut history): (&mut AtHand, History<P::Engine, P::Segments>),
    (note, candidate, compare): (&SnapshotNote, Hash, Compare),
) -> Result<(u64, Option<Divergence>), RuntimeError> {
    let registry = plane.registry();
    let begin = |objects: &AtHand| Rehearser::begin(objects, registry, note, candidate, compare);
    let mut rehearser = with_objects(plane, place, at_hand, begin).await?;
    let mut pace = ReplayPace::default();
    'history: while let Some(page) = history.next_page().await? {
        for record in page {
            pace.step().await;
            let apply = |objects: &AtHand| rehearser.apply(objects, &record.bytes);
            if !with_objects(plane, place, at_hand, apply).await? {
                break 'history;
            }
            at_hand.trim();
        }
    }
    let Rehearsal { records, divergence } = rehearser.finish();
    Ok((records, divergence))
}
