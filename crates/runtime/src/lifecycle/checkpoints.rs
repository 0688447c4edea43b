//! Checkpoints: a world as it was at heights that a replay passed recently, in memory.
//!
//! Stored snapshots are up to ten thousand records apart, and a question about the past begins at the one below its height. Its
//! replay leaves a checkpoint every few hundred records, and the next question begins at the nearest one. Checkpoints are derived:
//! forgetting one costs time and nothing else. They are bounded by bytes; the world that was asked about least recently goes first.

use super::past::{self, Past};
use crate::{
    Plane, RuntimeError,
    objects::{AtHand, SharedObjects},
};
use mundi_kernel::{replay::Replay, snapshot::TakenSnapshot};
use mundi_model::{
    Code, Coded, Hash, Height, UniverseId, WorldId,
    limits::{CHECKPOINT_RECORDS, CHECKPOINTS_BYTES_MAX},
    record::SnapshotNote,
};
use mundi_store::keyspace::world_meta::WorldMeta;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// The bytes of the index for each object and checkpoint, beside their own.
const OVERHEAD_BYTES: usize = 128;

/// The checkpoints of a universe in this process. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints {
    kept: Arc<Mutex<Kept>>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    worlds: BTreeMap<WorldId, OfWorld>,
    bytes: usize,
    /// Counts questions: a larger number is a later one.
    uses: u64,
}

#[derive(Debug)]
struct OfWorld {
    born: Born,
    notes: BTreeMap<Height, SnapshotNote>,
    /// Checkpoints of one world share most of their objects.
    objects: SharedObjects,
    bytes: usize,
    used: u64,
}

/// Tells a world from another one that has its id later.
type Born = (u64, Hash);

impl Default for Checkpoints {
    fn default() -> Self {
        Self { kept: Arc::default(), bytes_max: CHECKPOINTS_BYTES_MAX }
    }
}

impl Checkpoints {
    /// The world before the record at a height, or as it is. Needs no lease.
    pub(crate) async fn past<P: Plane>(
        &self,
        plane: &P,
        place: (UniverseId, WorldId),
        until: Option<Height>,
    ) -> Result<Past, RuntimeError> {
        let height = until.unwrap_or(Height::new(u64::MAX));
        let (WorldMeta { created_at_ns, first_record, .. }, stored) = past::world_below(plane, place, height).await?;
        let (mut checkpointing, nearest) = self.begin(place.1, (created_at_ns, first_record), height);
        if let Some(nearest) = nearest.filter(|nearest| nearest.height > stored.height) {
            let at_hand = checkpointing.at_hand(&nearest);
            match past::replay_with(plane, place, (&nearest, at_hand), until, &mut checkpointing).await {
                Err(error) if error.code() != Code::HeightOutOfRange => {
                    // The stored snapshot decides: what is only in memory must not make a world unreadable.
                    tracing::debug!(world = %place.1, %error, "a checkpoint was of no use");
                    self.forget(place.1);
                    checkpointing = Checkpointing::none();
                }
                answered => return answered,
            }
        }
        let mut at_hand = past::stored(plane, place, &stored).await?;
        checkpointing.share(&mut at_hand);
        checkpointing.last = stored.height;
        past::replay_with(plane, place, (&stored, at_hand), until, &mut checkpointing).await
    }

    /// Begins a question: where its replay leaves checkpoints, and the nearest one at or below its height.
    fn begin(&self, world: WorldId, born: Born, height: Height) -> (Checkpointing, Option<SnapshotNote>) {
        let kept = &mut *self.kept.lock();
        kept.uses += 1;
        if kept.worlds.get(&world).is_some_and(|known| known.born != born) {
            kept.remove(world);
        }
        let (mut objects, mut nearest) = (None, None);
        if let Some(known) = kept.worlds.get_mut(&world) {
            known.used = kept.uses;
            objects = Some(known.objects.clone());
            nearest = known.notes.range(..=height).next_back().map(|(_, note)| note.clone());
        }
        let last = nearest.as_ref().map_or(Height::GENESIS, |note| note.height);
        let (is_new, objects, checkpoints) = (objects.is_none(), objects.unwrap_or_default(), self.clone());
        (Checkpointing { target: Some(Target { world, born, objects, is_new, checkpoints }), last }, nearest)
    }

    fn forget(&self, world: WorldId) {
        self.kept.lock().remove(world);
    }
}

impl Kept {
    fn remove(&mut self, world: WorldId) {
        if let Some(gone) = self.worlds.remove(&world) {
            self.bytes -= gone.bytes;
        }
    }

    /// Forgets worlds, the least recently asked first, until there is room for more bytes.
    fn make_room(&mut self, bytes: usize, bytes_max: usize) {
        while self.bytes + bytes > bytes_max {
            let oldest = self.worlds.iter().min_by_key(|(_, known)| known.used);
            let Some(world) = oldest.map(|(world, _)| *world) else { return };
            self.remove(world);
        }
    }
}

/// The checkpoints that one replay leaves.
pub(crate) struct Checkpointing {
    target: Option<Target>,
    last: Height,
}

struct Target {
    world: WorldId,
    born: Born,
    objects: SharedObjects,
    /// The world had no checkpoint when the replay began, and got none from it yet.
    is_new: bool,
    checkpoints: Checkpoints,
}

impl Checkpointing {
    pub(super) fn none() -> Self {
        Self { target: None, last: Height::GENESIS }
    }

    /// Whether the replay has come far enough since the last one, and stands between two steps.
    pub(super) fn is_due(&self, replay: &Replay) -> bool {
        let passed = replay.head().get().saturating_sub(self.last.get());
        self.target.is_some() && passed >= CHECKPOINT_RECORDS && !replay.is_mid_step()
    }

    /// Keeps what was taken, if there is room; otherwise the replay takes no more. Says whether the objects are kept.
    pub(super) fn keep(&mut self, taken: &TakenSnapshot) -> bool {
        let Some(target) = &mut self.target else { return false };
        let is_kept = target.keep(taken);
        if is_kept {
            self.last = taken.note.height;
        } else {
            self.target = None;
        }
        is_kept
    }

    /// The start of a replay from a checkpoint.
    fn at_hand(&self, note: &SnapshotNote) -> AtHand {
        let mut at_hand = AtHand::default();
        if let Some(target) = &self.target {
            let snapshot = target.objects.read().get(&note.snapshot).cloned();
            at_hand.note_stored(snapshot.map(|bytes| past::roots(&bytes)).unwrap_or_default());
        }
        self.share(&mut at_hand);
        at_hand
    }

    fn share(&self, at_hand: &mut AtHand) {
        if let Some(target) = &self.target {
            at_hand.share(target.objects.clone());
        }
    }
}

impl Target {
    fn keep(&mut self, taken: &TakenSnapshot) -> bool {
        let bytes = OVERHEAD_BYTES + taken.objects.iter().map(|(_, it)| it.len() + OVERHEAD_BYTES).sum::<usize>();
        if bytes > self.checkpoints.bytes_max {
            return false;
        }
        let kept = &mut *self.checkpoints.kept.lock();
        kept.make_room(bytes, self.checkpoints.bytes_max);
        if std::mem::take(&mut self.is_new) {
            let (objects, used) = (self.objects.clone(), kept.uses);
            let new = OfWorld { born: self.born, notes: BTreeMap::new(), objects, bytes: 0, used };
            kept.worlds.entry(self.world).or_insert(new);
        }
        // The world may have been forgotten meanwhile, or another replay came first: then what is taken now would lack objects.
        let known = kept.worlds.get_mut(&self.world).filter(|known| Arc::ptr_eq(&known.objects, &self.objects));
        let Some(known) = known else { return false };
        if known.notes.insert(taken.note.height, taken.note.clone()).is_none() {
            known.bytes += bytes;
            kept.bytes += bytes;
        }
        self.objects.write().extend(taken.objects.iter().cloned());
        true
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::testing::Rig;
    use mundi_model::WorkerId;
    use mundi_store::testing::world_id;

    /// Asks about the newest state of three worlds in turn, with room for one of them.
    #[test]
    fn checkpoints_stay_within_their_bytes() {
        Rig::run(|rig| async move {
            let worlds = [1, 2, 3].map(world_id);
            for world in worlds {
                rig.create(world).await.unwrap();
                let mut host = rig.host(world, WorkerId::new(1).unwrap()).await.unwrap();
                for n in 0..250 {
                    rig.tell(&mut host, &[&format!("fill c{} 900", n % 20)]).await.unwrap();
                }
            }
            let unbounded = Checkpoints::default();
            for world in worlds {
                unbounded.past(&rig.plane, (rig.universe, world), None).await.unwrap();
            }
            let bytes_max = unbounded.kept.lock().bytes / 2;
            assert!(bytes_max > 0, "checkpoints are kept");
            let checkpoints = Checkpoints { bytes_max, ..Checkpoints::default() };
            for world in worlds.into_iter().chain(worlds) {
                checkpoints.past(&rig.plane, (rig.universe, world), None).await.unwrap();
                let kept = checkpoints.kept.lock();
                assert!(kept.worlds.contains_key(&world), "the newest is kept");
                assert!(kept.bytes <= bytes_max, "{} bytes", kept.bytes);
                assert_eq!(kept.bytes, kept.worlds.values().map(|known| known.bytes).sum::<usize>());
            }
            assert!(checkpoints.kept.lock().worlds.len() < worlds.len(), "there is no room for all");
        });
    }
}
