//! An object on its way up, part by part.

use super::{Objects, ObjectsError};
use bytes::Bytes;
use object_store::{MultipartUpload, path::Path};

/// Parts of one size, in order; the last may be shorter. Nothing is visible before [`Upload::complete`].
pub(crate) struct Upload {
    parts: Box<dyn MultipartUpload>,
    path: Path,
    /// For how long each part may take.
    objects: Objects,
}

impl Upload {
    pub(super) fn new(parts: Box<dyn MultipartUpload>, path: &Path, objects: Objects) -> Self {
        Self { parts, path: path.clone(), objects }
    }

    /// Sends a part. The future does not borrow the upload, so that the next part is read meanwhile.
    pub(crate) fn part(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), ObjectsError>> + Send + use<> {
        let (path, objects) = (self.path.clone(), self.objects.clone());
        let part = self.parts.put_part(bytes.into());
        async move { objects.ask_once(part).await.map_err(|cause| ObjectsError::new("uploading a part of", &path, cause)) }
    }

    pub(crate) async fn complete(mut self) -> Result<(), ObjectsError> {
        let completed = self.objects.ask_once(self.parts.complete()).await;
        completed.map(|_| ()).map_err(|cause| ObjectsError::new("completing", &self.path, cause))
    }

    /// Gives the parts back. What a crash leaves behind is for the bucket's lifecycle rule.
    pub(crate) async fn abort(mut self) {
        if let Err(cause) = self.objects.ask_once(self.parts.abort()).await {
            tracing::warn!(path = %self.path, %cause, "an upload was not aborted");
        }
    }
}
