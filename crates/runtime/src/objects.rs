//! Objects in memory for the kernel, which is synchronous: missing ones are fetched, and the kernel runs again.

use crate::{Plane, RuntimeError, error::NamesMissing};
use bytes::Bytes;
use mundi_kernel::{LoadError, Objects};
use mundi_model::{Code, Coded, Hash, UniverseId, WorldId};
use mundi_store::blob::Blobs;
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The bytes that one world may keep in memory between turns; the kernel caches what it uses most by itself.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Objects that several replays of one world share.
pub(crate) type SharedObjects = Arc<RwLock<BTreeMap<Hash, Arc<[u8]>>>>;

/// Objects that were fetched for one world.
#[derive(Debug, Default)]
pub(crate) struct AtHand {
    objects: BTreeMap<Hash, Arc<[u8]>>,
    /// Nowhere else: they stay.
    pinned: BTreeMap<Hash, Arc<[u8]>>,
    /// Nowhere else, either: what the checkpoints of the world are made of, or of both worlds that are compared.
    shared: Vec<SharedObjects>,
    /// Surely in the content store, though not here.
    stored: BTreeSet<Hash>,
    bytes: usize,
}

impl AtHand {
    pub(crate) fn insert(&mut self, hash: Hash, bytes: &Bytes) {
        self.bytes += bytes.len();
        self.objects.insert(hash, Arc::from(&bytes[..]));
    }

    /// Keeps an object that is in no store.
    pub(crate) fn pin(&mut self, hash: Hash, bytes: Arc<[u8]>) {
        self.pinned.insert(hash, bytes);
    }

    /// Looks there, too, for what is not here.
    pub(crate) fn share(&mut self, shared: SharedObjects) {
        self.shared.push(shared);
    }

    /// Keeps what another has that is in no store.
    pub(crate) fn keep_of(&mut self, other: Self) {
        self.pinned.extend(other.pinned);
        self.shared.extend(other.shared);
    }

    fn find(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        let own = self.objects.get(hash).or_else(|| self.pinned.get(hash)).cloned();
        own.or_else(|| self.shared.iter().find_map(|shared| shared.read().get(hash).cloned()))
    }

    pub(crate) fn has(&self, hash: &Hash) -> bool {
        self.find(hash).is_some()
    }

    /// The store has looked: these exist.
    pub(crate) fn note_stored(&mut self, hashes: impl IntoIterator<Item = Hash>) {
        self.stored.extend(hashes);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets what was fetched once there is much of it.
    pub(crate) fn trim(&mut self) {
        self.stored.clear();
        if self.bytes > KEPT_BYTES_MAX {
            self.objects.clear();
            self.bytes = 0;
        }
    }
}

impl Objects for AtHand {
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        self.find(hash).ok_or(LoadError::Missing(*hash))
    }

    fn contains(&self, hash: &Hash) -> Result<bool, LoadError> {
        Ok(self.stored.contains(hash) || self.find(hash).is_some())
    }
}

/// Loads one object. `false` if the content store does not have it.
pub(crate) async fn fetch<P: Plane>(
    plane: &P,
    universe: UniverseId,
    at_hand: &mut AtHand,
    hash: Hash,
) -> Result<bool, RuntimeError> {
    match plane.blobs().get(universe, hash).await {
        Ok(bytes) => at_hand.insert(hash, &bytes),
        Err(error) if error.code() == Code::BlobNotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// How long a program that is being prepared is waited for. The kernel says that it is being prepared, and is asked again.
#[derive(Debug, Default)]
pub(crate) struct PreparationWait {
    waits: u32,
}

impl PreparationWait {
    const WAIT: Duration = Duration::from_millis(20);
    /// Some twenty seconds: a large component takes about ten.
    const WAITS_MAX: u32 = 1_000;

    /// Waits a little if that may help, or returns the error.
    pub(crate) async fn wait<P: Plane>(&mut self, plane: &P, error: RuntimeError) -> Result<(), RuntimeError> {
        if error.code() != Code::ProgramPreparing || self.waits >= Self::WAITS_MAX {
            return Err(error);
        }
        self.waits += 1;
        plane.clock().sleep(Self::WAIT).await;
        Ok(())
    }
}

/// Asks until nothing is missing any more. For asks that leave everything as it was when something is.
pub(crate) async fn with_objects<P: Plane, V, F: NamesMissing + Into<RuntimeError>>(
    plane: &P,
    (universe, world): (UniverseId, WorldId),
    at_hand: &mut AtHand,
    mut ask: impl FnMut(&AtHand) -> Result<V, F>,
) -> Result<V, RuntimeError> {
    let mut preparing = PreparationWait::default();
    loop {
        let error = match ask(at_hand) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(hash) = error.missing() else {
            preparing.wait(plane, error.into()).await?;
            continue;
        };
        if at_hand.load(&hash).is_ok() || !fetch(plane, universe, at_hand, hash).await? {
            return Err(RuntimeError::ObjectLost { world, hash });
        }
    }
}
