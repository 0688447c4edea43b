//! Content-addressed objects as the kernel sees them: read by hash through a trait, written as a list.
//!
//! The content store is asynchronous and lives elsewhere. What is not in memory is reported as
//! [`LoadError::Missing`]; a host fetches it and runs the same turn again, which a pure step allows.

use mundi_model::{Code, Coded, Hash};
use std::{collections::BTreeMap, sync::Arc};

/// An object and its name.
pub type Object = (Hash, Arc<[u8]>);

/// Where the kernel reads cell nodes, manifests and blobs from.
pub trait Objects {
    /// The bytes whose hash is `hash`. The kernel checks that they are.
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError>;

    /// Whether the object exists; a source that can tell without reading it does.
    fn contains(&self, hash: &Hash) -> Result<bool, LoadError> {
        match self.load(hash) {
            Ok(_) => Ok(true),
            Err(LoadError::Missing(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Why what a step needs could not be had: an object, a program that is ready, the machine itself. Never an
/// outcome: the turn did not happen, and is taken again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Not in memory. A host that can fetch it does so and calls again.
    #[error("the object {0} is not at hand")]
    Missing(Hash),
    /// A program that is being made ready to run. A host waits a little and calls again.
    #[error("the program {0} is being prepared")]
    Preparing(Hash),
    /// This node gave the step up, for a reason that is not the program's.
    #[error("the step was given up: {why}")]
    Abandoned { code: Code, why: String },
    #[error("the object {hash} is damaged: {why}")]
    Corrupt { hash: Hash, why: String },
}

impl LoadError {
    pub(crate) fn corrupt(hash: Hash, why: impl Into<String>) -> Self {
        Self::Corrupt { hash, why: why.into() }
    }
}

impl Coded for LoadError {
    fn code(&self) -> Code {
        match self {
            Self::Missing(_) => Code::ObjectMissing,
            Self::Preparing(_) => Code::ProgramPreparing,
            Self::Abandoned { code, .. } => *code,
            Self::Corrupt { .. } => Code::CellsCorrupt,
        }
    }
}

/// Loads an object and proves that it is the one that was named.
pub(crate) fn load_checked(objects: &dyn Objects, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
    let bytes = objects.load(hash)?;
    let found = Hash::of(&bytes);
    if found == *hash { Ok(bytes) } else { Err(LoadError::corrupt(*hash, format!("its bytes hash to {found}"))) }
}

/// Objects in memory, for tests and for hosts that fetched what was missing.
#[derive(Debug, Clone, Default)]
pub struct MemoryObjects(BTreeMap<Hash, Arc<[u8]>>);

impl MemoryObjects {
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps some bytes under their hash.
    pub fn put(&mut self, bytes: impl Into<Arc<[u8]>>) -> Hash {
        let bytes = bytes.into();
        let hash = Hash::of(&bytes);
        self.0.insert(hash, bytes);
        hash
    }

    /// Keeps objects that the kernel made.
    pub fn extend(&mut self, objects: impl IntoIterator<Item = Object>) {
        self.0.extend(objects);
    }

    pub fn remove(&mut self, hash: &Hash) -> bool {
        self.0.remove(hash).is_some()
    }

    pub fn contains(&self, hash: &Hash) -> bool {
        self.0.contains_key(hash)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Objects for MemoryObjects {
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        self.0.get(hash).cloned().ok_or(LoadError::Missing(*hash))
    }
}
