//! The store's knowledge about a snapshot, and the checks that fail closed.

use mundi_model::{Code, Coded, Hash, Height, IntentHash, WorldId, limits, record::SnapshotNote};

/// The facts of a snapshot about itself. The kernel writes and reads snapshots; the store only asks for this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotFacts {
    /// It covers every record below this height.
    pub height: Height,
    pub logical_time_ns: u64,
    /// The manifest that it was taken under.
    pub manifest: Hash,
    /// Every hash that restore needs: manifest, program, schemas, cell root, pinned blobs.
    pub roots: Vec<Hash>,
    /// Every intent published below this height has its receipt below the snapshot, or is listed in it.
    pub receipt_horizon: Option<Height>,
    /// The intents that wait for a receipt, and the height of each one's record.
    pub open_intents: Vec<(IntentHash, Height)>,
    /// The world takes nothing but commands.
    pub paused: bool,
}

/// Reads the facts out of snapshot bytes: on write and on load, so that what is stored speaks for itself.
pub trait ReadSnapshot: Send + Sync {
    /// A sentence for people when the bytes are not a snapshot.
    fn facts(&self, bytes: &[u8]) -> Result<SnapshotFacts, String>;
}

impl<F: Fn(&[u8]) -> Result<SnapshotFacts, String> + Send + Sync> ReadSnapshot for F {
    fn facts(&self, bytes: &[u8]) -> Result<SnapshotFacts, String> {
        self(bytes)
    }
}

/// Why a snapshot was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("the bytes are not a snapshot: {0}")]
    Unreadable(String),
    #[error("a snapshot at {height} cannot cover records that do not exist: the head is {head}")]
    BeyondHead { height: Height, head: Height },
    #[error("the record at {height} was exported already: a snapshot is taken at or above the baseline")]
    Exported { height: Height },
    #[error("there is another snapshot at {height}: {existing}; it stays")]
    Exists { height: Height, existing: Hash },
    #[error("a snapshot lists at most {max} roots; this one has {roots}")]
    RootsTooMany { roots: usize, max: usize },
    #[error("the snapshot needs {} blobs that do not exist, first {}", missing.len(), missing[0])]
    RootsMissing { missing: Vec<Hash> },
    #[error("the snapshot's own list of roots lacks its manifest {0}")]
    ManifestNotRoot(Hash),
    #[error("the snapshot was taken under manifest {snapshot}, but the journal gives {journal:?} at {height}")]
    ManifestMismatch { height: Height, snapshot: Hash, journal: Option<Hash> },
    #[error("the receipt horizon {horizon:?} does not reach the snapshot's height {height}")]
    HorizonUnmet { height: Height, horizon: Option<Height> },
    #[error("the open intent {intent} is said to lie at {published}, not below the snapshot's height {height}")]
    OpenIntentInvalid { intent: IntentHash, published: Height, height: Height },
    #[error("the baseline is at {active}; it does not go back to {requested}")]
    BaselineRegressed { active: Height, requested: Height },
    #[error("{world} has no snapshot at {height}")]
    NotFound { world: WorldId, height: Height },
    #[error("the snapshot under {world}'s baseline is not what was promoted: {cause}")]
    BaselineDamaged { world: WorldId, cause: String },
}

impl Coded for SnapshotError {
    fn code(&self) -> Code {
        match self {
            Self::Unreadable(_)
            | Self::OpenIntentInvalid { .. }
            | Self::Exported { .. }
            | Self::RootsTooMany { .. } => Code::SnapshotInvalid,
            Self::BeyondHead { .. } => Code::SnapshotBeyondHead,
            Self::Exists { .. } => Code::SnapshotExists,
            Self::RootsMissing { .. } | Self::ManifestNotRoot(_) => Code::SnapshotIncomplete,
            Self::ManifestMismatch { .. } => Code::SnapshotManifest,
            Self::HorizonUnmet { .. } => Code::ReceiptHorizonUnmet,
            Self::BaselineRegressed { .. } => Code::BaselineRegressed,
            Self::NotFound { .. } => Code::SnapshotNotFound,
            Self::BaselineDamaged { .. } => Code::BaselineDamaged,
        }
    }
}

/// Checks the facts by themselves.
pub(crate) fn check_facts(facts: &SnapshotFacts) -> Result<(), SnapshotError> {
    if facts.roots.len() > limits::SNAPSHOT_ROOTS_MAX {
        return Err(SnapshotError::RootsTooMany { roots: facts.roots.len(), max: limits::SNAPSHOT_ROOTS_MAX });
    }
    if !facts.roots.contains(&facts.manifest) {
        return Err(SnapshotError::ManifestNotRoot(facts.manifest));
    }
    match facts.open_intents.iter().find(|(_, published)| *published >= facts.height) {
        Some(&(intent, published)) => Err(SnapshotError::OpenIntentInvalid { intent, published, height: facts.height }),
        None => Ok(()),
    }
}

/// A snapshot may become the baseline only if no receipt that it waits for could be lost with what lies
/// below it: all that was published below its height is answered there, or travels inside.
pub(crate) fn check_horizon(facts: &SnapshotFacts) -> Result<(), SnapshotError> {
    match facts.receipt_horizon {
        Some(horizon) if horizon >= facts.height => Ok(()),
        horizon => Err(SnapshotError::HorizonUnmet { height: facts.height, horizon }),
    }
}

/// The snapshot as index and journal know it.
pub(crate) fn note(snapshot: Hash, facts: &SnapshotFacts, chain: Hash) -> SnapshotNote {
    SnapshotNote {
        snapshot,
        height: facts.height,
        logical_time_ns: facts.logical_time_ns,
        receipt_horizon: facts.receipt_horizon,
        manifest: facts.manifest,
        chain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> SnapshotFacts {
        SnapshotFacts {
            height: Height::new(10),
            logical_time_ns: 1,
            manifest: Hash::of(b"m"),
            roots: vec![Hash::of(b"m"), Hash::of(b"cells")],
            receipt_horizon: Some(Height::new(10)),
            open_intents: vec![(IntentHash::of(b"i"), Height::new(9))],
            paused: false,
        }
    }

    #[test]
    fn a_snapshot_lists_its_manifest_among_its_roots() {
        assert_eq!(check_facts(&facts()), Ok(()));
        let incomplete = SnapshotFacts { roots: vec![Hash::of(b"cells")], ..facts() };
        assert_eq!(check_facts(&incomplete).unwrap_err().code(), Code::SnapshotIncomplete);
    }

    #[test]
    fn an_open_intent_above_the_snapshot_is_refused() {
        let invalid = SnapshotFacts { open_intents: vec![(IntentHash::of(b"i"), Height::new(10))], ..facts() };
        assert_eq!(check_facts(&invalid).unwrap_err().code(), Code::SnapshotInvalid);
    }

    #[test]
    fn a_horizon_below_the_height_is_not_enough() {
        assert_eq!(check_horizon(&facts()), Ok(()));
        for receipt_horizon in [None, Some(Height::new(9))] {
            let unmet = SnapshotFacts { receipt_horizon, ..facts() };
            assert_eq!(check_horizon(&unmet).unwrap_err().code(), Code::ReceiptHorizonUnmet);
        }
    }
}
