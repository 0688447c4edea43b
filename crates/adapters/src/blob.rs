//! `blob.put` and `blob.get`: the content store of the world's universe.
//!
//! `blob.put {bytes}` answers `{hash, bytes}`; `blob.get {hash}` answers `{bytes}`. A put is idempotent by nature: the
//! name is the content. The receipt refers to the object, so it lives as long as the journal does.

use crate::{
    Adapter, Call, Params, failed,
    params::{invalid, map, text},
    room::{Boundless, Room},
    too_large,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use mundi_model::{Code, Coded, Hash, Kind, Value, limits};
use mundi_store::{
    blob::Blobs,
    protocol::{Failure, Repeat},
};
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

/// What the store refuses for good keeps its code; the rest may pass.
pub(crate) fn refused(error: &(impl Coded + ToString)) -> Failure {
    let code: Code = error.code();
    match code.kind() {
        Kind::NotFound | Kind::Invalid | Kind::Corrupt => {
            Failure { code, reason: error.to_string(), repeat: Repeat::Never }
        }
        _ => failed(error.to_string()),
    }
}
