//! Keep a program or manifest for a universe, or let it go.
//!
//! Guarantees: a kept object exists when this commits, and no sweep removes it or what it refers to while it is kept. An object
//! that was let go stays for as long as a world needs it; it is not registered any more, so that no new world runs it. A manifest
//! that a version of a named program stands for is not let go.
//! Unknown commit: run again; what is kept, or is not, is left so.

use crate::protocol::name_program::require_unnamed;
use crate::{
    OnUnknown, Protocol, StoreError,
    blobs::BlobError,
    keyspace::{
        cas_meta,
        kept_object::{self, Kept, Kind},
        registered::{self, RegisteredKind},
    },
};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

/// Keeps an object that is in the content store.
pub struct KeepObject {
    pub universe: UniverseId,
    pub hash: Hash,
    pub kind: Kind,
    pub now_ns: u64,
}

impl Protocol for KeepObject {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, hash, kind, now_ns } = *self;
        let meta = cas_meta::read(tx, universe, hash).await?.ok_or(BlobError::NotFound(hash))?;
        if let Some(meta) = meta.reprieved(now_ns) {
            cas_meta::write(tx, universe, hash, &meta)?;
        }
        match kept_object::read(tx, universe, hash).await? {
            Some(_) => Ok(()),
            None => kept_object::write(tx, universe, hash, &Kept { kind, since_ns: now_ns }),
        }
    }
}

/// Lets an object go. Gives whether it was kept or registered, as this kind.
pub struct ReleaseObject {
    pub universe: UniverseId,
    pub hash: Hash,
    pub kind: Kind,
}

impl Protocol for ReleaseObject {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, hash, kind } = *self;
        if kind == Kind::Manifest {
            require_unnamed(tx, universe, hash).await?;
        }
        let is_kept = kept_object::read(tx, universe, hash).await?.is_some_and(|kept| kept.kind == kind);
        if is_kept {
            tx.delete(kept_object::key(universe, hash).as_bytes())?;
        }
        let registered_as = match kind {
            Kind::Program => RegisteredKind::Program,
            Kind::Manifest => RegisteredKind::Manifest,
        };
        let is_registered = registered::read(tx, universe, registered_as, hash).await?.is_some();
        if is_registered {
            tx.delete(registered::key(universe, registered_as, hash).as_bytes())?;
        }
        Ok(is_kept || is_registered)
    }
}
