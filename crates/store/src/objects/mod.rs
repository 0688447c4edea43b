//! The object store, as this crate uses it: few operations, typed errors, no conditional requests.
//!
//! Some stores ignore the headers of a conditional PUT, so nothing here relies on one. Every write is
//! idempotent instead: the same key always gets the same bytes.

mod open;
mod requests;
mod upload;

pub use open::{OpenError, open, open_with, try_out};
pub use requests::RequestPolicy;
use requests::Requests;
pub(crate) use upload::Upload;

use crate::Clock;
use bytes::Bytes;
use futures_util::TryStreamExt;
use mundi_model::{Code, Coded};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};
use std::{ops::Range, sync::Arc};

/// A handle to an object store; all clones speak of the same one.
#[derive(Debug, Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Without it, a request is made once, and waited for as long as it takes.
    requests: Option<Requests>,
}

/// The store itself failed, and may succeed later.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing} {path}: {cause}")]
pub struct ObjectsError {
    doing: &'static str,
    path: String,
    cause: Arc<object_store::Error>,
}

impl ObjectsError {
    fn new(doing: &'static str, path: &Path, cause: object_store::Error) -> Self {
        Self { doing, path: path.to_string(), cause: Arc::new(cause) }
    }
}

impl ObjectsError {
    /// The store answered, and does not let us: no such bucket, wrong credentials, a missing permission.
    fn is_refusal(&self) -> bool {
        use object_store::Error;
        // What is denied arrives as an error of the transport with a status, whose text is all that is left of it.
        let is_denied = |cause: &dyn std::error::Error| {
            let text = cause.to_string();
            ["403", "401", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"]
                .iter()
                .any(|sign| text.contains(sign))
        };
        match &*self.cause {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } | Error::NotFound { .. } => true,
            Error::Generic { source, .. } => is_denied(&**source),
            _ => false,
        }
    }
}

impl Coded for ObjectsError {
    fn code(&self) -> Code {
        Code::ObjectsFailed
    }
}

/// Why a read of bytes that must be there gave none.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    #[error("the object {path} is missing")]
    Missing { path: String },
    #[error("the object {path} has {actual} bytes instead of {expected}")]
    WrongSize { path: String, expected: u64, actual: u64 },
    #[error(transparent)]
    Failed(#[from] ObjectsError),
}

impl Objects {
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, requests: None }
    }

    /// Which store it is, without its address: `LocalFileSystem`, `AmazonS3`.
    pub fn kind(&self) -> String {
        let shown = self.store.to_string();
        shown.split(['(', ' ']).next().unwrap_or_default().to_owned()
    }

    /// The same store, whose requests end in time and are made again if they fail.
    #[must_use]
    pub fn with_requests(self, clock: Arc<dyn Clock>, policy: RequestPolicy) -> Self {
        Self { requests: Some(Requests::new(clock, policy)), ..self }
    }

    /// Makes a request that changes nothing when it is made twice.
    async fn ask<T, F: Future<Output = object_store::Result<T>> + Send>(
        &self,
        request: impl Fn() -> F,
    ) -> object_store::Result<T> {
        match &self.requests {
            Some(requests) => requests.retried(request).await,
            None => request().await,
        }
    }

    /// Makes a request once.
    async fn ask_once<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send,
    ) -> object_store::Result<T> {
        match &self.requests {
            Some(requests) => requests.once(request).await,
            None => request.await,
        }
    }

    /// Writes a whole object. Writing the same bytes again changes nothing.
    pub async fn put(&self, path: &Path, bytes: Bytes) -> Result<(), ObjectsError> {
        let written = self.ask(|| self.store.put(path, bytes.clone().into())).await;
        written.map(|_| ()).map_err(|cause| ObjectsError::new("writing", path, cause))
    }

    /// Bytes of an object that is known to exist with `size` bytes.
    ///
    /// Stores answer a range beyond the end in different ways: an error, or fewer bytes. Both end in a
    /// look at the size, so that damage is distinguished from a failure that may pass.
    pub async fn range(&self, path: &Path, range: Range<u64>, size: u64) -> Result<Bytes, ReadError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let cause = match self.ask(|| self.store.get_range(path, range.clone())).await {
            Ok(bytes) if bytes.len() as u64 == range.end - range.start => return Ok(bytes),
            Ok(_) => None,
            Err(object_store::Error::NotFound { .. }) => return Err(ReadError::Missing { path: path.to_string() }),
            Err(cause) => Some(cause),
        };
        let actual = self.size(path).await?.ok_or_else(|| ReadError::Missing { path: path.to_string() })?;
        match cause {
            Some(cause) if actual == size => Err(ObjectsError::new("reading", path, cause).into()),
            _ => Err(ReadError::WrongSize { path: path.to_string(), expected: size, actual }),
        }
    }

    /// The size of an object, or `None` if there is none.
    pub async fn size(&self, path: &Path) -> Result<Option<u64>, ObjectsError> {
        match self.ask(|| self.store.head(path)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(cause) => Err(ObjectsError::new("looking at", path, cause)),
        }
    }

    /// Removes an object, if it is there.
    pub async fn delete(&self, path: &Path) -> Result<(), ObjectsError> {
        match self.ask(|| self.store.delete(path)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(cause) => Err(ObjectsError::new("deleting", path, cause)),
        }
    }

    pub async fn copy(&self, from: &Path, to: &Path) -> Result<(), ObjectsError> {
        self.ask(|| self.store.copy(from, to)).await.map_err(|cause| ObjectsError::new("copying to", to, cause))
    }

    /// Begins an object that arrives in parts. It becomes visible, whole, when it is completed.
    pub(crate) async fn upload(&self, path: &Path) -> Result<Upload, ObjectsError> {
        let parts = self.ask_once(self.store.put_multipart(path)).await;
        parts
            .map(|parts| Upload::new(parts, path, self.clone()))
            .map_err(|cause| ObjectsError::new("uploading", path, cause))
    }

    /// Calls `each` with what lies below a prefix, in no particular order.
    pub async fn list(&self, prefix: &Path, mut each: impl FnMut(ObjectMeta)) -> Result<(), ObjectsError> {
        let failed = |cause| ObjectsError::new("listing", prefix, cause);
        let mut listed = self.store.list(Some(prefix));
        // A page that fails cannot be asked for again without those before it: the caller lists again.
        while let Some(meta) = self.ask_once(listed.try_next()).await.map_err(failed)? {
            each(meta);
        }
        Ok(())
    }
}
