//! Keep an object for a world, or let it go. The sweep honours pins; nothing in production sets one yet.
//!
//! Guarantees: a pinned object exists when the pin commits and is not swept while it lasts.
//! Unknown commit: run again; a pin that is there, or gone, is left so.

use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    blobs::BlobError,
    keyspace::{
        cas_meta,
        gc_pin::{self, Pin},
    },
};
use mundi_engine::Transaction;
use mundi_model::Hash;

/// Pins an object that is in the content store.
pub struct PinBlob {
    pub fence: Fence,
    pub hash: Hash,
    pub reason: String,
    pub now_ns: u64,
}

impl Protocol for PinBlob {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        self.fence.check(tx).await?;
        let Fence { universe, world, .. } = self.fence;
        let meta = cas_meta::read(tx, universe, self.hash).await?.ok_or(BlobError::NotFound(self.hash))?;
        if let Some(meta) = meta.reprieved(self.now_ns) {
            cas_meta::write(tx, universe, self.hash, &meta)?;
        }
        gc_pin::write(tx, universe, world, self.hash, &Pin { reason: self.reason.clone() })
    }
}

/// Removes a pin, if there is one.
pub struct UnpinBlob {
    pub fence: Fence,
    pub hash: Hash,
}

impl Protocol for UnpinBlob {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        self.fence.check(tx).await?;
        Ok(tx.delete(gc_pin::key(self.fence.universe, self.fence.world, self.hash).as_bytes())?)
    }
}
