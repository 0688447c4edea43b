//! Commit a snapshot, and perhaps make it the baseline.
//!
//! Guarantees: index and journal agree: a `Snapshot` record says what the index holds, a `BaselineSnapshot` record
//! what the active baseline is. A snapshot at a height is immutable, and a baseline never goes back. Nothing is
//! indexed unless every root that the snapshot lists exists, its manifest is the one that the journal gives at its
//! height, and it can be read; nothing is promoted unless its receipt horizon reaches its height.
//! The snapshot's blob is stored before; if the rest fails, it is unreachable and is swept one day.
//! Unknown commit: run again; a snapshot that is indexed with the same note was committed by the first run, and
//! its promotion with it.

use crate::{
    Clock, Fence, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    journal::{Batch, JournalError, append},
    keyspace::{
        baseline, journal_entry,
        journal_head::{self, JournalHead, Position},
        manifest_at, snapshot,
    },
    protocol::explain_missing,
    run,
    snapshot::{ReadSnapshot, SnapshotError, SnapshotFacts, check_facts, check_horizon, note},
};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Hash, Height, cbor,
    mutants::{Mutant, planted},
    record::{Body, SnapshotNote},
};

/// A snapshot that the kernel took.
#[derive(Debug, Clone)]
pub struct CommitSnapshot {
    pub fence: Fence,
    pub bytes: Bytes,
    /// Also make it the active baseline.
    pub promote: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotCommitted {
    pub note: SnapshotNote,
    /// The head after the records that were appended.
    pub head: JournalHead,
}

/// Stores the snapshot, then indexes, journals and perhaps promotes it.
pub async fn commit_snapshot<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    reader: &dyn ReadSnapshot,
    request: &CommitSnapshot,
) -> Result<SnapshotCommitted, StoreError> {
    let facts = reader.facts(&request.bytes).map_err(SnapshotError::Unreadable)?;
    check_facts(&facts)?;
    if request.promote {
        check_horizon(&facts)?;
    }
    let snapshot = blobs.put(request.fence.universe, request.bytes.clone(), &facts.roots).await?;
    let protocol = Commit { fence: request.fence, promote: request.promote, facts, snapshot, blobs };
    Ok(run(engine, clock, &protocol).await?.output)
}

struct Commit<'a, B> {
    fence: Fence,
    promote: bool,
    facts: SnapshotFacts,
    snapshot: Hash,
    blobs: &'a B,
}

impl<B: Blobs> Protocol for Commit<'_, B> {
    type Output = SnapshotCommitted;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<SnapshotCommitted, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.fence.check(tx).await?;
        let position = append::position(tx, universe, world).await?;
        let head = position.head;
        let chain = self.chain_below(tx, head).await?;
        let note = note(self.snapshot, &self.facts, chain);
        let indexed = snapshot::read(tx, universe, world, note.height).await?;
        let active = match baseline::read(tx, universe, world).await? {
            Some(active) => active,
            None => return Err(explain_missing(tx, universe, world).await?),
        };
        let plan = plan(&note, indexed.as_ref(), &active, self.promote)?;
        if plan.bodies.is_empty() {
            return Ok(SnapshotCommitted { note, head });
        }
        self.check_complete(tx).await?;
        if plan.index {
            snapshot::write(tx, universe, world, &note)?;
        }
        if plan.promote {
            baseline::write(tx, universe, world, &note)?;
            if planted(Mutant::BaselineRegressed) && active.height > Height::GENESIS {
                let oldest = snapshot::newest_at(tx, universe, world, Height::GENESIS).await?;
                baseline::write(tx, universe, world, oldest.as_ref().unwrap_or(&note))?;
            }
        }
        let records = Batch::reserved(head, plan.bodies)?;
        records.write(tx, universe, world)?;
        if !planted(Mutant::HeadLeftBehind) {
            journal_head::write(tx, universe, world, Position { head: records.end(), ..position })?;
        }
        Ok(SnapshotCommitted { note, head: records.end() })
    }
}

impl<B: Blobs> Commit<'_, B> {
    /// The hash of the record below the snapshot: from the head, or from the record that follows.
    async fn chain_below<T: Transaction>(&self, tx: &mut T, head: JournalHead) -> Result<Hash, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let height = self.facts.height;
        if height > head.height {
            return Err(SnapshotError::BeyondHead { height, head: head.height }.into());
        }
        if height == head.height {
            return Ok(head.chain);
        }
        let record = journal_entry::read(tx, universe, world, height).await?;
        let record = record.ok_or(SnapshotError::Exported { height })?;
        let damaged = |cause: cbor::CborError| JournalError::RecordDamaged { world, height, cause: cause.to_string() };
        Ok(record.decode().map_err(damaged)?.prev)
    }

    async fn check_complete<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let SnapshotFacts { height, manifest, roots, .. } = &self.facts;
        let journal = manifest_at::read(tx, universe, world, *height).await?;
        if journal != Some(*manifest) {
            return Err(SnapshotError::ManifestMismatch { height: *height, snapshot: *manifest, journal }.into());
        }
        let missing = self.blobs.missing(tx, universe, roots).await?;
        if missing.is_empty() { Ok(()) } else { Err(SnapshotError::RootsMissing { missing }.into()) }
    }
}

/// The remaining work.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    index: bool,
    promote: bool,
    /// The records that say so.
    bodies: Vec<Body>,
}

fn plan(
    note: &SnapshotNote,
    indexed: Option<&SnapshotNote>,
    active: &SnapshotNote,
    promote: bool,
) -> Result<Plan, SnapshotError> {
    if let Some(existing) = indexed.filter(|existing| *existing != note) {
        return Err(SnapshotError::Exists { height: note.height, existing: existing.snapshot });
    }
    let promote = promote && active != note;
    if promote && active.height >= note.height {
        return Err(SnapshotError::BaselineRegressed { active: active.height, requested: note.height });
    }
    let index = indexed.is_none();
    let mut bodies = Vec::new();
    if index {
        bodies.push(Body::Snapshot(note.clone()));
    }
    if promote {
        bodies.push(Body::BaselineSnapshot(note.clone()));
    }
    Ok(Plan { index, promote, bodies })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Height;

    fn note(height: u64, content: &[u8]) -> SnapshotNote {
        SnapshotNote {
            snapshot: Hash::of(content),
            height: Height::new(height),
            logical_time_ns: 1,
            receipt_horizon: Some(Height::new(height)),
            manifest: Hash::of(b"m"),
            chain: Hash::of(b"c"),
        }
    }

    #[test]
    fn a_new_snapshot_is_indexed_and_journaled_and_promoted_on_request() {
        let (new, active) = (note(9, b"new"), note(4, b"old"));
        let plain = plan(&new, None, &active, false).unwrap();
        assert_eq!(plain, Plan { index: true, promote: false, bodies: vec![Body::Snapshot(new.clone())] });
        let promoted = plan(&new, None, &active, true).unwrap();
        assert_eq!(promoted.bodies, [Body::Snapshot(new.clone()), Body::BaselineSnapshot(new)]);
    }

    #[test]
    fn what_was_done_is_not_done_again() {
        let (new, active) = (note(9, b"new"), note(4, b"old"));
        assert!(plan(&new, Some(&new), &active, false).unwrap().bodies.is_empty());
        assert!(plan(&new, Some(&new), &new, true).unwrap().bodies.is_empty());
        let later = plan(&new, Some(&new), &active, true).unwrap();
        assert_eq!(later, Plan { index: false, promote: true, bodies: vec![Body::BaselineSnapshot(new)] });
    }

    #[test]
    fn another_snapshot_at_the_height_is_refused() {
        let refused = plan(&note(9, b"new"), Some(&note(9, b"other")), &note(4, b"old"), false);
        assert!(matches!(refused, Err(SnapshotError::Exists { .. })));
    }

    #[test]
    fn a_baseline_never_goes_back() {
        for active in [note(9, b"other"), note(10, b"newer")] {
            let refused = plan(&note(9, b"new"), None, &active, true);
            assert!(matches!(refused, Err(SnapshotError::BaselineRegressed { .. })));
        }
    }
}
