//! From a URL in the configuration to an object store.

use super::{Objects, ReadError};
use mundi_model::{Code, Coded};
use object_store::{local::LocalFileSystem, memory::InMemory};
use std::{path::Path, sync::Arc};

/// Why a URL was not opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    #[error("`{url}` names no object store: {cause}")]
    Invalid { url: String, cause: String },
    #[error("`{url}` needs a build with the feature `{feature}`")]
    NotInThisBuild { url: String, feature: &'static str },
    #[error("`{url}` refuses: {cause}")]
    Denied { url: String, cause: String },
    #[error("`{url}` does not keep what is written to it: {cause}")]
    Unfit { url: String, cause: String },
    #[error("the folder {path} cannot be used: {cause}")]
    Folder { path: String, cause: String },
}

impl Coded for OpenError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } | Self::NotInThisBuild { .. } => Code::ObjectsUrlInvalid,
            Self::Denied { .. } => Code::ObjectsDenied,
            Self::Folder { .. } | Self::Unfit { .. } => Code::ObjectsFailed,
        }
    }
}

/// Opens the store that a URL names: an absolute folder, `file://`, `memory://`, `s3://`, `gs://`, `az://`.
///
/// A folder is made if it is not there, and what is written to it is synced before it is acknowledged.
pub fn open(url: &str) -> Result<Objects, OpenError> {
    open_with(url, std::iter::empty())
}

/// As [`open`], with settings for the cloud stores by their usual names (`aws_endpoint`, `aws_region` ...).
pub fn open_with(url: &str, settings: impl IntoIterator<Item = (String, String)>) -> Result<Objects, OpenError> {
    if url.starts_with('/') {
        return folder(Path::new(url));
    }
    let invalid = |cause: &str| OpenError::Invalid { url: url.to_owned(), cause: cause.to_owned() };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("expected `scheme://`"))?;
    match scheme {
        "file" if rest.starts_with('/') => folder(Path::new(rest)),
        "file" => Err(invalid("a file URL has three slashes and an absolute path")),
        "memory" => Ok(Objects::new(Arc::new(InMemory::new()))),
        "s3" | "s3a" => cloud(url, settings),
        "gs" | "az" | "azure" | "abfs" | "abfss" if cfg!(feature = "cloud") => cloud(url, settings),
        "gs" | "az" | "azure" | "abfs" | "abfss" => {
            Err(OpenError::NotInThisBuild { url: url.to_owned(), feature: "cloud" })
        }
        _ => Err(invalid("the scheme is none of file, memory, s3, gs, az")),
    }
}

fn folder(path: &Path) -> Result<Objects, OpenError> {
    let failed = |cause: String| OpenError::Folder { path: path.display().to_string(), cause };
    std::fs::create_dir_all(path).map_err(|error| failed(error.to_string()))?;
    let store = LocalFileSystem::new_with_prefix(path).map_err(|error| failed(error.to_string()))?;
    Ok(Objects::new(Arc::new(store.with_fsync(true))))
}

/// Where the store is tried at start-up. Always the same bytes, so that processes that start at once do not disturb each
/// other; it stays, because deleting it could.
const TRIAL: &str = "mundi-trial";
const TRIAL_BYTES: &[u8] = b"Mundi tries here whether it may write and read. This object may be deleted.\n";

/// Writes and reads a small object: whether the credentials are right is known now, not at the first large body.
pub async fn try_out(objects: &Objects, url: &str) -> Result<(), OpenError> {
    let (path, url) = (TRIAL.into(), url.to_owned());
    if let Err(error) = objects.put(&path, TRIAL_BYTES.into()).await {
        let cause = error.to_string();
        return Err(if error.is_refusal() {
            OpenError::Denied { url, cause }
        } else {
            OpenError::Unfit { url, cause }
        });
    }
    let size = TRIAL_BYTES.len() as u64;
    match objects.range(&path, 0..size, size).await {
        Ok(bytes) if bytes == TRIAL_BYTES => Ok(()),
        Ok(_) => Err(OpenError::Unfit { url, cause: "it gives other bytes back".to_owned() }),
        Err(ReadError::Failed(error)) if error.is_refusal() => Err(OpenError::Denied { url, cause: error.to_string() }),
        Err(error) => Err(OpenError::Unfit { url, cause: error.to_string() }),
    }
}

#[cfg(not(feature = "s3"))]
fn cloud(url: &str, _: impl IntoIterator<Item = (String, String)>) -> Result<Objects, OpenError> {
    Err(OpenError::NotInThisBuild { url: url.to_owned(), feature: "s3" })
}

#[cfg(feature = "s3")]
fn cloud(url: &str, settings: impl IntoIterator<Item = (String, String)>) -> Result<Objects, OpenError> {
    use object_store::prefix::PrefixStore;
    let _set_already = rustls::crypto::ring::default_provider().install_default();
    let invalid = |cause: String| OpenError::Invalid { url: url.to_owned(), cause };
    let parsed = url.parse().map_err(|cause: url::ParseError| invalid(cause.to_string()))?;
    let (store, prefix) =
        object_store::parse_url_opts(&parsed, settings).map_err(|cause| invalid(cause.to_string()))?;
    let store: Arc<dyn object_store::ObjectStore> = Arc::from(store);
    // An empty prefix would put a slash before every key.
    if prefix.as_ref().is_empty() {
        Ok(Objects::new(store))
    } else {
        Ok(Objects::new(Arc::new(PrefixStore::new(store, prefix))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_folder_is_made_and_keeps_what_is_written() {
        pollster::block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let inner = folder.path().join("objects");
            for url in [inner.display().to_string(), format!("file://{}", inner.display())] {
                let objects = open(&url).unwrap();
                objects.put(&"a/b".into(), Bytes::from_static(b"body")).await.unwrap();
                assert_eq!(std::fs::read(inner.join("a/b")).unwrap(), b"body");
            }
        });
    }

    #[test]
    fn what_is_no_object_store_is_refused_with_its_url() {
        for url in ["", "relative/folder", "file://relative", "ftp://host/x", "s3:/bucket"] {
            let refused = open(url).unwrap_err();
            assert_eq!(refused.code(), Code::ObjectsUrlInvalid, "{refused}");
            assert!(refused.to_string().contains(url));
        }
    }

    #[test]
    fn a_store_that_works_stands_the_trial() {
        pollster::block_on(async {
            let objects = open("memory://").unwrap();
            try_out(&objects, "memory://").await.unwrap();
            try_out(&objects, "memory://").await.unwrap();
        });
    }

    #[cfg(feature = "s3")]
    #[test]
    fn a_cloud_url_opens_with_its_settings() {
        let settings = [("aws_region", "garage"), ("aws_endpoint", "http://127.0.0.1:9"), ("aws_allow_http", "true")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        open_with("s3://bucket/prefix", settings).unwrap();
    }
}
