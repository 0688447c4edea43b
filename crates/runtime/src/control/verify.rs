//! Verification of a world on the server: its whole history replayed from genesis and from its baseline, against
//! everything that was recorded about it. It is only read: no fence is needed, and a world that runs keeps running.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    objects::{AtHand, with_objects},
    yielding::ReplayPace,
};
use mundi_kernel::{
    Registry, cells,
    snapshot::KernelSnapshot,
    verify::{Verified, Verifier, VerifyError, with_baseline},
};
use mundi_model::{Code, Coded, Hash, Height, UniverseId, WorldId, limits, record::SnapshotNote};
use mundi_store::{
    blob::Blobs,
    journal::History,
    protocol::{DescribeWorld, ListSnapshots, ReadLineage, WorldError},
};
use std::{collections::BTreeSet, sync::Arc};

/// The proof of a world.
#[derive(Debug, Clone)]
pub struct WorldProof {
    pub from_genesis: Verified,
    /// Where the second replay began.
    pub baseline: Height,
    /// Objects that its snapshots need, each read and hashed.
    pub snapshot_objects: u64,
}

impl<P: Plane> Ops<P> {
    /// Proves chain, digests, receipts, snapshots and roots of a world up to the head that it has now.
    pub async fn verify_world(&self, world: WorldId) -> Result<WorldProof, RuntimeError> {
        let (plane, universe) = (&self.plane, self.universe);
        let missing = || WorldError::NotFound { universe, world };
        // The baseline first: it moves up, and the head that is read after it is never below.
        let baseline = plane.run(&DescribeWorld { universe, world }).await?.output.baseline.ok_or_else(missing)?;
        let history = History::open(plane.engine(), plane.segments().clone(), universe, world, Height::GENESIS).await?;
        let head = history.head();
        let notes = snapshots_of(plane, universe, world, head, limits::BUNDLE_SNAPSHOTS_MAX).await?;
        let mut whole = BTreeSet::new();
        for note in notes.iter().chain([&baseline]) {
            self.check_whole(world, note, &mut whole).await?;
        }
        let notes = with_baseline(&notes, &baseline)?;
        let from_genesis = self.prove(world, history, Beginning::Genesis(notes)).await?;
        let tail = History::open(plane.engine(), plane.segments().clone(), universe, world, baseline.height).await?;
        let tail = tail.after(baseline.chain).until(head);
        let from_baseline = self.prove(world, tail, Beginning::Snapshot(&baseline)).await?;
        if from_baseline.state.note.snapshot != from_genesis.state.note.snapshot {
            return Err(RuntimeError::BaselineDiverged { world, baseline: baseline.height });
        }
        Ok(WorldProof { from_genesis, baseline: baseline.height, snapshot_objects: whole.len() as u64 })
    }

    async fn prove(
        &self,
        world: WorldId,
        mut history: History<P::Engine, P::Segments>,
        beginning: Beginning<'_>,
    ) -> Result<Verified, RuntimeError> {
        let (place, mut at_hand) = ((self.universe, world), AtHand::default());
        let registry = self.plane.registry();
        let mut verifier = match &beginning {
            Beginning::Genesis(_) => None,
            Beginning::Snapshot(note) => {
                let begin = |objects: &AtHand| Verifier::from_snapshot(objects, registry.clone(), note);
                at_hand.note_stored(self.roots(note).await?);
                Some(with_objects(&self.plane, place, &mut at_hand, begin).await?)
            }
        };
        let mut pace = ReplayPace::default();
        while let Some(page) = history.next_page().await? {
            for record in page {
                pace.step().await;
                match &mut verifier {
                    Some(verifier) => {
                        let apply = |objects: &AtHand| verifier.apply(objects, &record.bytes);
                        with_objects(&self.plane, place, &mut at_hand, apply).await?;
                    }
                    None => {
                        let begin = |objects: &AtHand| begin(objects, registry, &record.bytes, &beginning);
                        verifier = Some(with_objects(&self.plane, place, &mut at_hand, begin).await?);
                    }
                }
                at_hand.trim();
            }
        }
        let mut verifier = verifier.ok_or(WorldError::NotFound { universe: self.universe, world })?;
        with_objects(&self.plane, place, &mut at_hand, |objects: &AtHand| verifier.end(objects)).await
    }

    /// The objects that restore needs and the store has looked for.
    pub(super) async fn roots(&self, note: &SnapshotNote) -> Result<Vec<Hash>, RuntimeError> {
        let bytes = self.plane.blobs().get(self.universe, note.snapshot).await?;
        Ok(KernelSnapshot::from_bytes(&bytes)?.roots().to_vec())
    }

    /// Every object that a snapshot needs exists and is what its name says: its roots, and the whole tree of its cells.
    async fn check_whole(
        &self,
        world: WorldId,
        note: &SnapshotNote,
        seen: &mut BTreeSet<Hash>,
    ) -> Result<(), RuntimeError> {
        let snapshot = KernelSnapshot::from_bytes(&self.object(world, note.snapshot).await?)?;
        seen.insert(note.snapshot);
        for root in snapshot.roots() {
            if Some(*root) != snapshot.cells() && seen.insert(*root) {
                self.object(world, *root).await?;
            }
        }
        let mut nodes: Vec<Hash> = snapshot.cells().into_iter().collect();
        while let Some(hash) = nodes.pop() {
            if !seen.insert(hash) {
                continue;
            }
            let parts = cells::parts(&hash, &self.object(world, hash).await?)?;
            for value in parts.values {
                self.object(world, value).await?;
            }
            nodes.extend(parts.nodes);
        }
        Ok(())
    }

    async fn object(&self, world: WorldId, hash: Hash) -> Result<bytes::Bytes, RuntimeError> {
        match self.plane.blobs().get(self.universe, hash).await {
            Err(error) if error.code() == Code::BlobNotFound => Err(RuntimeError::ObjectLost { world, hash }),
            found => Ok(found?),
        }
    }
}

enum Beginning<'a> {
    Genesis(Vec<SnapshotNote>),
    Snapshot(&'a SnapshotNote),
}

fn begin(
    objects: &AtHand,
    registry: &Arc<Registry>,
    first: &[u8],
    beginning: &Beginning<'_>,
) -> Result<Verifier, VerifyError> {
    let notes = match beginning {
        Beginning::Genesis(notes) => notes.clone(),
        Beginning::Snapshot(_) => Vec::new(),
    };
    Verifier::from_genesis(objects, registry.clone(), first, notes)
}

/// The snapshots of a history up to a height, those of its ancestors included, the lowest first: the newest `max`, and
/// among them always the first of all.
pub(crate) async fn snapshots_of<P: Plane>(
    plane: &P,
    universe: UniverseId,
    world: WorldId,
    head: Height,
    max: usize,
) -> Result<Vec<SnapshotNote>, RuntimeError> {
    let lineage = plane.run(&ReadLineage { universe, world, forks_max: 1 }).await?.output;
    let mut found: Vec<SnapshotNote> = Vec::new();
    let (mut of, mut until) = (world, head.next());
    let mut ancestors = lineage.ancestors.into_iter();
    loop {
        let parent = ancestors.next();
        let from = parent.as_ref().map_or(Height::GENESIS, |parent| parent.forked_at);
        let mut below = Some(until);
        while let Some(height) = below {
            let list = ListSnapshots { universe, world: of, below: Some(height), items_max: limits::LIST_ITEMS_MAX };
            let page = plane.run(&list).await?.output;
            below = page.next.filter(|next| *next > from);
            found.extend(page.items.into_iter().filter(|note| note.height >= from));
        }
        let Some(parent) = parent else { break };
        (of, until) = (parent.parent, parent.forked_at);
    }
    if found.len() > max {
        let first = found.pop();
        found.truncate(max - 1);
        found.extend(first);
    }
    found.reverse();
    Ok(found)
}
