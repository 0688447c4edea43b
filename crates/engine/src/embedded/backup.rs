//! Online backup to a folder or an object store, and restore from it.
//!
//! A backup is one state of the engine: numbered parts, each a frame as in the log, chained to the one
//! before; and a manifest, written last, that names their number and the end of the chain. Commits continue
//! meanwhile. A backup without a manifest was never finished, and is never taken for one.

use super::{
    Embedded, Options,
    folder::{self, Progress},
    log::frame::{FrameBuilder, FramePlace, Header},
    tree::Tree,
};
use crate::EngineError;
use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt, path::Path as ObjectPath};
use std::{path::Path, sync::Arc};

/// Large enough for few requests, small enough to hold in memory.
const PART_BYTES: usize = 8 << 20;
const MANIFEST: &str = "manifest";
const MANIFEST_WORD: &str = "mundi-backup";
const MANIFEST_FORMAT: u64 = 2;
/// The parts of the format before have whole keys, and say so.
const OLDEST_MANIFEST_FORMAT: u64 = 1;
/// Parts lie alone in their objects, so nothing can be taken for one.
const PART_SALT: u64 = 0;

/// The contents of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// The version of the engine that it is the state of.
    pub version: u64,
    pub parts: u64,
    pub keys: u64,
    /// The checksum of the last part.
    chain: u64,
}

impl Backup {
    fn to_text(self) -> String {
        let Self { version, parts, keys, chain } = self;
        format!("{MANIFEST_WORD} {MANIFEST_FORMAT} {version} {parts} {keys} {chain}\n")
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
        let numbers = text.strip_prefix(MANIFEST_WORD)?.strip_prefix(' ')?.split(' ').map(|word| word.parse().ok());
        match numbers.collect::<Option<Vec<u64>>>()?[..] {
            [OLDEST_MANIFEST_FORMAT..=MANIFEST_FORMAT, version, parts, keys, chain] => {
                Some(Self { version, parts, keys, chain })
            }
            _ => None,
        }
    }
}

fn part_name(number: u64) -> String {
    format!("part-{number:08}")
}

/// Writes the newest state below `prefix`, part by part. `progress` is told the keys so far after each.
pub async fn backup(
    engine: &Embedded,
    store: &dyn ObjectStore,
    prefix: &ObjectPath,
    mut progress: impl FnMut(u64),
) -> Result<Backup, EngineError> {
    refuse_to_replace(store, prefix).await?;
    let shared = &engine.0.shared;
    let snapshot = shared.snapshots.open((shared.clock_ms)());
    // From here on the scan itself holds the files and tables that it reads. The snapshot is let go: for as
    // long as it is open, the tree keeps everything that is written meanwhile.
    let mut items = shared.tree.range(&Bytes::new(), &Bytes::from_static(&[u8::MAX]), false, snapshot.at().seqno);
    let version = snapshot.at().version;
    drop(snapshot);
    // The chain begins with the version, so that no part of the manifest can change unnoticed.
    let mut written = Backup { version, parts: 0, keys: 0, chain: version };
    loop {
        let mut part = FrameBuilder::with_capacity(PART_BYTES);
        while part.payload_bytes() < PART_BYTES {
            let Some(item) = items.next() else { break };
            let (key, value) = item?;
            part.write(&key, Some(&value));
            written.keys += 1;
        }
        if part.payload_bytes() == 0 {
            break;
        }
        let place = FramePlace { version: written.parts, chain: written.chain, salt: PART_SALT };
        let (frame, checksum) = part.finish(place);
        put(store, &prefix.clone().join(part_name(written.parts)), frame).await?;
        (written.parts, written.chain) = (written.parts + 1, checksum);
        progress(written.keys);
    }
    put(store, &prefix.clone().join(MANIFEST), written.to_text().into()).await?;
    Ok(written)
}

/// A backup that is whole is not overwritten by one that may not become so.
async fn refuse_to_replace(store: &dyn ObjectStore, prefix: &ObjectPath) -> Result<(), EngineError> {
    let failed =
        |cause: object_store::Error| EngineError::BackupFailed { doing: "writing a backup", cause: Arc::new(cause) };
    match store.head(&prefix.clone().join(MANIFEST)).await {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(found) => {
            let source = "a backup is there already; choose another place".into();
            Err(failed(object_store::Error::AlreadyExists { path: found.location.to_string(), source }))
        }
    }
}

async fn put(store: &dyn ObjectStore, path: &ObjectPath, bytes: Bytes) -> Result<(), EngineError> {
    let put = store.put(path, bytes.into()).await;
    put.map(|_| ()).map_err(|error| EngineError::BackupFailed { doing: "writing a backup", cause: Arc::new(error) })
}

/// Fills a new or empty folder from the backup below `prefix`. All is checked before the folder can be
/// opened; one that was not filled to the end is started over.
pub async fn restore(
    path: &Path,
    options: &Options,
    store: &dyn ObjectStore,
    prefix: &ObjectPath,
    mut progress: impl FnMut(u64),
) -> Result<Backup, EngineError> {
    let manifest = get(store, &prefix.clone().join(MANIFEST)).await?;
    let backup = Backup::parse(&manifest)
        .ok_or_else(|| EngineError::BackupInvalid("its manifest is damaged, or of another version".to_owned()))?;
    let _lock = folder::lock(path)?;
    let disk = super::disk_of(path, options)?;
    match folder::progress(&*disk, path)? {
        Progress::Empty => {}
        Progress::New | Progress::Restoring => folder::start_over(&*disk, path)?,
        Progress::Ready => {
            let reason = "is a data folder already; restore into a new one";
            return Err(EngineError::FolderInvalid { path: path.to_owned(), reason });
        }
    }
    folder::mark(&*disk, Progress::Restoring)?;
    fill(path, options, store, prefix, backup, &mut progress).await?;
    // Versions continue where the backup ended, so that stamps keep rising.
    Embedded::complete(&disk, path, options, backup.version + 1)?;
    Ok(backup)
}

async fn fill(
    path: &Path,
    options: &Options,
    store: &dyn ObjectStore,
    prefix: &ObjectPath,
    backup: Backup,
    progress: &mut impl FnMut(u64),
) -> Result<(), EngineError> {
    let tree = Tree::open(&path.join(folder::TREE), options.cache_bytes)?;
    let (mut chain, mut keys) = (backup.version, 0);
    for number in 0..backup.parts {
        let name = part_name(number);
        let part = get(store, &prefix.clone().join(name.as_str())).await?;
        let header = Header::parse(&part, PART_SALT).filter(|header| header.matches(&part) && header.version == number);
        let header = header.filter(|header| header.chain == chain);
        let header = header.ok_or_else(|| EngineError::BackupInvalid(format!("{name} is damaged")))?;
        chain = header.checksum;
        keys += tree.fill(&part)?;
        progress(keys);
    }
    if (chain, keys) != (backup.chain, backup.keys) {
        return Err(EngineError::BackupInvalid(format!("{keys} keys were found where {} were written", backup.keys)));
    }
    tree.filled(backup.version)
}

async fn get(store: &dyn ObjectStore, path: &ObjectPath) -> Result<Bytes, EngineError> {
    let found = async { store.get(path).await?.bytes().await };
    found.await.map_err(|error| match error {
        object_store::Error::NotFound { .. } => EngineError::BackupInvalid(format!("{path} is missing")),
        error => EngineError::BackupFailed { doing: "reading a backup", cause: Arc::new(error) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn manifests_survive_their_text(version: u64, parts: u64, keys: u64, chain: u64) {
            let backup = Backup { version, parts, keys, chain };
            prop_assert_eq!(Backup::parse(backup.to_text().as_bytes()), Some(backup));
        }

        #[test]
        fn arbitrary_bytes_are_no_manifest(bytes: Vec<u8>) {
            prop_assert_eq!(Backup::parse(&bytes), None);
        }
    }
}
