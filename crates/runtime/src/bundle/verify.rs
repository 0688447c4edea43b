//! Proof of a bundle: replayed from genesis and from its baseline, with every snapshot whole.

use super::{Bundle, BundleError};
use mundi_kernel::{
    Objects, Registry, cells,
    snapshot::KernelSnapshot,
    verify::{Verified, Verifier},
};
use mundi_model::{Hash, Height, record::SnapshotNote};
use std::{
    collections::BTreeSet,
    io::{Read, Seek},
    sync::Arc,
};

/// What was proven of a world.
#[derive(Debug, Clone)]
pub struct Proof {
    pub from_genesis: Verified,
    /// Where the second replay began.
    pub baseline: Height,
    /// Objects that its snapshots need, each seen.
    pub snapshot_objects: u64,
}

/// What was seen to be there. Nodes are kept apart: a value may have the bytes of one.
#[derive(Default)]
struct Whole {
    nodes: BTreeSet<Hash>,
    others: BTreeSet<Hash>,
}

impl<R: Read + Seek> Bundle<R> {
    /// Proves chain, digests, receipts, snapshots and roots. Needs the programs of all heights, and nothing else.
    pub fn verify(&self, registry: &Arc<Registry>) -> Result<Proof, BundleError> {
        let mut whole = Whole::default();
        let baseline = &self.header().baseline;
        for note in self.snapshots().iter().chain([baseline]) {
            self.check_whole(note, &mut whole)?;
        }
        let mut genesis: Option<Verifier> = None;
        let mut tail: Option<Verifier> = None;
        self.for_each_record(|height, bytes| {
            match &mut genesis {
                Some(verifier) => verifier.apply(self, &bytes)?,
                None => {
                    let notes = self.snapshots().iter().cloned();
                    genesis = Some(Verifier::from_genesis(self, registry.clone(), &bytes, notes)?);
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
        let snapshot_objects = (whole.nodes.len() + whole.others.len()) as u64;
        Ok(Proof { from_genesis, baseline: baseline.height, snapshot_objects })
    }

    /// Every object that a snapshot needs is here: its roots, and the whole tree of its cells.
    fn check_whole(&self, note: &SnapshotNote, seen: &mut Whole) -> Result<(), BundleError> {
        let height = note.height;
        let missing = |hash: Hash| BundleError::Incomplete { height, hash };
        if !self.contains(&note.snapshot)? {
            return Err(missing(note.snapshot));
        }
        let snapshot = KernelSnapshot::from_bytes(&self.load(&note.snapshot)?)?;
        seen.others.insert(note.snapshot);
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
}
