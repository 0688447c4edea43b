//! Proof of a bundle: replayed from genesis and from its baseline, with every snapshot whole.

use super::{Bundle, BundleError};
use mundi_kernel::{
    Objects, Registry, cells,
    snapshot::KernelSnapshot,
    verify::{Verified, Verifier, with_baseline},
};
use mundi_model::{Hash, Height, record::SnapshotNote};
use std::{
    collections::BTreeSet,
    io::{Read, Seek},
    sync::Arc,
};

/// The parts of a bundle that no record proves: labels and name change when a command is accepted, and children are counted beside the journal. They are
/// what the exporter says. An import takes them over.
const UNPROVEN: &[&str] = &["name", "labels", "children"];

/// The proof of a world.
#[derive(Debug, Clone)]
pub struct Proof {
    pub from_genesis: Verified,
    /// Where the second replay began.
    pub baseline: Height,
    /// Objects that its snapshots need, each seen.
    pub snapshot_objects: u64,
    /// Parts of the bundle that are not proven.
    pub unproven: &'static [&'static str],
}

/// The hashes that were found. Nodes are kept apart: a value may have the bytes of one.
#[derive(Default)]
struct Whole {
    nodes: BTreeSet<Hash>,
    others: BTreeSet<Hash>,
}

impl<R: Read + Seek> Bundle<R> {
    /// Proves chain, digests, receipts, snapshots and roots, and says what is not proven. Needs the programs of all heights, and nothing else.
    pub fn verify(&self, registry: &Arc<Registry>) -> Result<Proof, BundleError> {
        let mut whole = Whole::default();
        let baseline = &self.header().baseline;
        let notes = with_baseline(self.snapshots(), baseline)?;
        for note in &notes {
            self.check_whole(note, &mut whole)?;
        }
        let mut genesis: Option<Verifier> = None;
        let mut tail: Option<Verifier> = None;
        self.for_each_record::<BundleError>(|height, bytes| {
            match &mut genesis {
                Some(verifier) => verifier.apply(self, &bytes)?,
                None => {
                    genesis = Some(Verifier::from_genesis(self, registry.clone(), &bytes, notes.iter().cloned())?);
                }
            }
            if height == baseline.height {
                tail = Some(Verifier::from_snapshot(self, registry.clone(), baseline)?);
            }
            match &mut tail {
                Some(verifier) => Ok(verifier.apply(self, &bytes)?),
                None => Ok(()),
            }
        })?;
        let empty = || BundleError::Record { height: Height::GENESIS, what: "there are no records".to_owned() };
        let from_genesis = genesis.ok_or_else(empty)?.finish(self)?;
        let tail = match tail {
            Some(verifier) => verifier,
            // A baseline at the head: nothing follows it.
            None => Verifier::from_snapshot(self, registry.clone(), baseline)?,
        };
        let from_baseline = tail.finish(self)?;
        if from_baseline.state.note.snapshot != from_genesis.state.note.snapshot {
            return Err(BundleError::BaselineDiverged { baseline: baseline.height });
        }
        // Last, because a record that was changed often leaves one behind, and the record has a height.
        if let Some(hash) = self.unreferred() {
            return Err(BundleError::Unreferred { hash });
        }
        let snapshot_objects = (whole.nodes.len() + whole.others.len()) as u64;
        Ok(Proof { from_genesis, baseline: baseline.height, snapshot_objects, unproven: UNPROVEN })
    }

    /// Every object that a snapshot needs is here, its roots and the whole tree of its cells, and each says what it refers to: what
    /// nobody is said to need would be swept one day from where the bundle was brought in.
    fn check_whole(&self, note: &SnapshotNote, seen: &mut Whole) -> Result<(), BundleError> {
        let height = note.height;
        let missing = |hash: Hash| BundleError::Incomplete { height, hash };
        if !self.contains(&note.snapshot)? {
            return Err(missing(note.snapshot));
        }
        let snapshot = KernelSnapshot::from_bytes(&self.load(&note.snapshot)?)?;
        seen.others.insert(note.snapshot);
        self.check_refs(height, note.snapshot, snapshot.roots())?;
        for root in snapshot.roots() {
            if !self.contains(root)? {
                return Err(missing(*root));
            }
            if snapshot.cells() != Some(*root) {
                seen.others.insert(*root);
            }
        }
        let mut nodes: Vec<Hash> = snapshot.cells().into_iter().collect();
        while let Some(hash) = nodes.pop() {
            if !seen.nodes.insert(hash) {
                continue;
            }
            if !self.contains(&hash)? {
                return Err(missing(hash));
            }
            let parts = cells::parts(&hash, &self.load(&hash)?)?;
            self.check_refs(height, hash, parts.nodes.iter().chain(&parts.values))?;
            for value in parts.values {
                if !self.contains(&value)? {
                    return Err(missing(value));
                }
                seen.others.insert(value);
            }
            nodes.extend(parts.nodes);
        }
        Ok(())
    }

    /// Whether an object says that it refers to what it needs.
    fn check_refs<'a>(
        &self,
        height: Height,
        hash: Hash,
        needed: impl IntoIterator<Item = &'a Hash>,
    ) -> Result<(), BundleError> {
        let refs = self.refs(&hash)?;
        match needed.into_iter().find(|needed| !refs.contains(needed)) {
            Some(needed) => Err(BundleError::RefMissing { height, hash, needed: *needed }),
            None => Ok(()),
        }
    }
}
