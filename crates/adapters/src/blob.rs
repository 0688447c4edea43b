//! `blob.put` and `blob.get`: the content store of the world's universe.
//!
//! `blob.put {bytes}` answers `{hash, bytes}`; `blob.get {hash}` answers `{bytes}`. A put is idempotent by nature: the
//! name is the content. The receipt refers to the object, so it is kept as long as the journal.

use crate::{
    Params,
    params::{map, text},
    room::{Boundless, Room},
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use mundi_model::{Hash, Value, limits};
use mundi_runtime::effects::{Adapter, Call, invalid, refused, too_large};
use mundi_store::{blob::Blobs, protocol::Failure};
use std::sync::Arc;

pub struct BlobAdapter<B> {
    blobs: B,
    room: Arc<dyn Room>,
}

impl<B> BlobAdapter<B> {
    pub fn new(blobs: B) -> Self {
        Self { blobs, room: Arc::new(Boundless) }
    }

    /// Stores only what there is room for.
    #[must_use]
    pub fn with_room(self, room: Arc<dyn Room>) -> Self {
        Self { room, ..self }
    }
}

impl<B: Blobs> BlobAdapter<B> {
    async fn put(&self, call: &Call) -> Result<Value, Failure> {
        let bytes = Params::of(&call.params)?.bytes_or_none("bytes")?.ok_or_else(|| invalid("`bytes` is missing"))?;
        self.room.blob(call.universe, bytes.len()).await?;
        let hash =
            self.blobs.put(call.universe, Bytes::copy_from_slice(bytes), &[]).await.map_err(|error| refused(&error))?;
        Ok(map([("hash", text(hash.to_string())), ("bytes", Value::Integer((bytes.len() as u64).into()))]))
    }

    async fn get(&self, call: &Call) -> Result<Value, Failure> {
        let hash: Hash =
            Params::of(&call.params)?.text("hash")?.parse().map_err(|_| invalid("`hash` is not a hash"))?;
        let bytes = self.blobs.get(call.universe, hash).await.map_err(|error| refused(&error))?;
        if bytes.len() > limits::PAYLOAD_BYTES_MAX {
            return Err(too_large(limits::PAYLOAD_BYTES_MAX));
        }
        Ok(map([("bytes", Value::Bytes(bytes.to_vec()))]))
    }
}

impl<B: Blobs> Adapter for BlobAdapter<B> {
    fn name(&self) -> &str {
        "blob"
    }

    fn kinds(&self) -> &[&str] {
        &["blob.put", "blob.get"]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            match call.kind.as_str() {
                "blob.put" => self.put(call).await,
                _ => self.get(call).await,
            }
        })
    }
}
