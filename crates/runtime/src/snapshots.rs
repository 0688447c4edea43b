//! The kernel's snapshots as the store sees them, and the order in which their objects are stored.

use crate::{Plane, RuntimeError};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_kernel::{cells, objects::Object, snapshot::KernelSnapshot};
use mundi_model::{Code, Coded, Hash, UniverseId};
use mundi_store::{
    blob::Blobs,
    snapshot::{ReadSnapshot, SnapshotFacts},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Reads the facts out of the kernel's snapshots.
#[derive(Debug, Clone, Copy)]
pub struct KernelSnapshots;

impl ReadSnapshot for KernelSnapshots {
    fn facts(&self, bytes: &[u8]) -> Result<SnapshotFacts, String> {
        let snapshot = KernelSnapshot::from_bytes(bytes).map_err(|error| error.to_string())?;
        let note = snapshot.note(Hash::of(bytes));
        Ok(SnapshotFacts {
            height: note.height,
            logical_time_ns: note.logical_time_ns,
            manifest: note.manifest,
            roots: snapshot.roots().to_vec(),
            receipt_horizon: note.receipt_horizon,
            open_intents: snapshot.open_intents().iter().map(|open| (open.hash, open.place.height)).collect(),
            paused: snapshot.is_paused(),
        })
    }
}

/// Stores objects of a cell tree, each after those that it refers to.
pub(crate) async fn store_cells<P: Plane>(
    plane: &P,
    universe: UniverseId,
    objects: Vec<Object>,
) -> Result<(), RuntimeError> {
    for (hash, bytes, refs) in referred_first(objects) {
        let bytes = Bytes::from_owner(bytes);
        match plane.blobs().put(universe, bytes.clone(), &refs).await {
            Err(error) if error.code() == Code::BlobRefMissing => {
                // A cell's value that merely looks like a node: only what exists is a reference.
                let mut tx = plane.engine().begin().await?;
                let missing = plane.blobs().missing(&mut tx, universe, &refs).await?;
                let refs: Vec<_> = refs.into_iter().filter(|hash| !missing.contains(hash)).collect();
                plane.blobs().put(universe, bytes, &refs).await?;
            }
            stored => debug_assert_eq!(stored?, hash),
        }
    }
    Ok(())
}

type Referring = (Hash, Arc<[u8]>, Vec<Hash>);

/// Objects with what they refer to, so ordered that a reference never comes before what it names.
fn referred_first(objects: Vec<Object>) -> Vec<Referring> {
    let mut left: BTreeMap<Hash, (Arc<[u8]>, Vec<Hash>)> = objects
        .into_iter()
        .map(|(hash, bytes)| {
            let refs = cells::references(&hash, &bytes).unwrap_or_default();
            (hash, (bytes, refs))
        })
        .collect();
    let (mut ordered, mut entered) = (Vec::with_capacity(left.len()), BTreeSet::new());
    while let Some(&hash) = left.keys().next() {
        let mut path = vec![hash];
        while let Some(&hash) = path.last() {
            let Some((_, refs)) = left.get(&hash) else {
                path.pop();
                continue;
            };
            let next = refs.iter().find(|hash| left.contains_key(*hash) && !entered.contains(*hash)).copied();
            entered.insert(hash);
            if let Some(next) = next {
                path.push(next);
            } else if let Some((bytes, refs)) = left.remove(&hash) {
                ordered.push((hash, bytes, refs));
                path.pop();
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_kernel::{MemoryObjects, cells::Cells};

    #[test]
    fn an_object_comes_after_what_it_refers_to() {
        let (mut cells, none) = (Cells::open(None), MemoryObjects::new());
        for n in 0..2_000 {
            cells.put(&format!("a/{n:05}"), vec![7; n % 1_500]);
        }
        cells.flush(&none).unwrap();
        let objects: Vec<Object> = cells.unsaved().collect();
        let all: BTreeSet<Hash> = objects.iter().map(|(hash, _)| *hash).collect();
        let mut seen = BTreeSet::new();
        for (hash, _, refs) in referred_first(objects) {
            assert!(refs.iter().all(|hash| seen.contains(hash)));
            seen.insert(hash);
        }
        assert!(all.len() > 100 && seen == all);
    }
}
