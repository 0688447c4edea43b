//! Restore a world: its baseline, and everything after it.
//!
//! Fails closed: a snapshot that is missing, is not what was promoted, lacks a root, or was taken under another
//! manifest than the journal gives is an error, never a guess. What it costs does not depend on the history behind
//! the baseline.

use crate::{
    StoreError,
    blob::Blobs,
    journal::{History, Segments},
    keyspace::{baseline, manifest_at, world_meta::WorldMeta},
    protocol::{explain_missing, require_live},
    snapshot::{ReadSnapshot, SnapshotError, SnapshotFacts, check_facts, check_horizon, note},
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Code, Coded, Hash, UniverseId, WorldId, record::SnapshotNote};

/// A world as it can be hydrated: a snapshot, and the records from its height on.
pub struct Restored<E, S> {
    pub note: SnapshotNote,
    pub facts: SnapshotFacts,
    pub snapshot: Bytes,
    /// Where the rest of what it inherited begins, if not all was published.
    pub inherits_from: Option<u64>,
    /// The name of the world.
    pub name: Option<String>,
    /// The records at `note.height` and above, chained to the snapshot.
    pub tail: History<E, S>,
}

/// Loads the active baseline, checks it, and opens the tail.
pub async fn restore<E: Engine, B: Blobs, S: Segments>(
    engine: &E,
    blobs: &B,
    segments: S,
    reader: &dyn ReadSnapshot,
    universe: UniverseId,
    world: WorldId,
) -> Result<Restored<E, S>, StoreError> {
    let mut tx = engine.begin().await?;
    let WorldMeta { inherits_from, name, .. } = require_live(&mut tx, universe, world).await?;
    let note = match baseline::read(&mut tx, universe, world).await? {
        Some(note) => note,
        None => return Err(explain_missing(&mut tx, universe, world).await?),
    };
    let manifest = manifest_at::read(&mut tx, universe, world, note.height).await?;
    drop(tx); // the blob may take longer than a transaction lives
    let damaged = |cause: String| StoreError::from(SnapshotError::BaselineDamaged { world, cause });
    let snapshot = match blobs.get(universe, note.snapshot).await {
        Err(error) if error.code() == Code::BlobNotFound => return Err(damaged(error.to_string())),
        snapshot => snapshot?,
    };
    let facts = check(&note, manifest, &snapshot, reader).map_err(damaged)?;
    let missing = blobs.missing(&mut engine.begin().await?, universe, &facts.roots).await?;
    if let Some(root) = missing.first() {
        return Err(damaged(format!("{} of its roots do not exist, first {root}", missing.len())));
    }
    let tail = History::open(engine, segments, universe, world, note.height).await?.after(note.chain);
    Ok(Restored { note, facts, snapshot, inherits_from, name, tail })
}

/// Rules that held when the snapshot was promoted must hold when it is loaded.
fn check(
    note_stored: &SnapshotNote,
    manifest: Option<Hash>,
    bytes: &[u8],
    reader: &dyn ReadSnapshot,
) -> Result<SnapshotFacts, String> {
    let found = Hash::of(bytes);
    if found != note_stored.snapshot {
        return Err(format!("its bytes are {found}, not {}", note_stored.snapshot));
    }
    let facts = reader.facts(bytes)?;
    check_facts(&facts).map_err(|error| error.to_string())?;
    check_horizon(&facts).map_err(|error| error.to_string())?;
    if note(found, &facts, note_stored.chain) != *note_stored {
        return Err("it says other things about itself than its index".to_owned());
    }
    if manifest != Some(facts.manifest) {
        return Err(format!("it was taken under manifest {}, but the journal gives {manifest:?}", facts.manifest));
    }
    Ok(facts)
}
