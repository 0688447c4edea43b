//! The data folder: its lock and its format marker.

use super::{disk::Disk, log};
use crate::EngineError;
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// Written into every folder; a folder with another number is refused.
pub const FORMAT: u32 = 2;

const MARKER: &str = "format";
const NEW_MARKER: &str = "format.new";
const MARKER_WORD: &str = "mundi-embedded";
const LOCK: &str = "lock";
pub(super) const LOG: &str = "log";
pub(super) const TREE: &str = "tree";

/// The states of the marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is no marker: an empty folder.
    Empty,
    /// Its making was interrupted; nothing was ever acknowledged.
    New,
    /// It is being filled from a backup, or was and the filling was interrupted.
    Restoring,
    Ready,
}

/// An exclusive hold on a folder. It goes with the process, also after `kill -9`.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Makes the folder if it is missing, and takes hold of it. A folder with strange files is not touched.
pub(super) fn lock(path: &Path) -> Result<Lock, EngineError> {
    let fails = |error: io::Error| folder_error(path, error);
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => {
            return Err(EngineError::FolderInvalid { path: path.to_owned(), reason: "is a file, not a folder" });
        }
        Ok(_) => refuse_strangers(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path).map_err(fails)?,
        Err(error) => return Err(fails(error)),
    }
    let options = OpenOptions::new().write(true).create(true).truncate(false).open(path.join(LOCK));
    let file = options.map_err(fails)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(EngineError::FolderInUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(fails(error)),
    }
}

/// The bytes of all files below a folder. Files that go meanwhile do not count.
pub(super) fn size_bytes(path: &Path) -> Result<u64, EngineError> {
    let mut bytes = 0;
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| folder_error(&folder, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| folder_error(&folder, error))?;
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(folder_error(&entry.path(), error)),
            }
        }
    }
    Ok(bytes)
}

fn refuse_strangers(path: &Path) -> Result<(), EngineError> {
    for entry in fs::read_dir(path).map_err(|error| folder_error(path, error))? {
        let name = entry.map_err(|error| folder_error(path, error))?.file_name();
        if ![LOCK, LOG, TREE].iter().any(|ours| name == *ours) {
            let reason = "holds files that are not Mundi's; choose an empty or new folder";
            return Err(EngineError::FolderInvalid { path: path.to_owned(), reason });
        }
    }
    Ok(())
}

pub(super) fn folder_error(path: &Path, error: io::Error) -> EngineError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            EngineError::FolderDenied(path.to_owned())
        }
        io::ErrorKind::NotADirectory => {
            EngineError::FolderInvalid { path: path.to_owned(), reason: "leads through a file, not a folder" }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => EngineError::DiskFull(error.into()),
        _ => EngineError::failed(format!("opening {}", path.display()), error),
    }
}

/// Reads the marker. Data without a marker is refused: it may be what is left of someone's universe.
pub(super) fn progress(disk: &dyn Disk, folder: &Path) -> Result<Progress, EngineError> {
    let fails = |error| log::classify(disk, MARKER, "reading", error);
    let names = disk.list().map_err(fails)?;
    if !names.iter().any(|name| name == MARKER) {
        // The first marker may have been interrupted before it had its name.
        if names.iter().all(|name| name == NEW_MARKER) && !has_tree(folder) {
            return Ok(Progress::Empty);
        }
        let what = "the folder holds data, but its format marker is missing".to_owned();
        return Err(EngineError::Corrupt { path: disk.path(MARKER), offset: 0, what });
    }
    let mut bytes = [0; 64];
    let read = disk.open(MARKER).and_then(|file| file.read_up_to(0, &mut bytes)).map_err(fails)?;
    let text = String::from_utf8_lossy(&bytes[..read]).trim_end().to_owned();
    match text.split(' ').collect::<Vec<_>>()[..] {
        [MARKER_WORD, format, state] if format == FORMAT.to_string() => match state {
            "new" => return Ok(Progress::New),
            "restoring" => return Ok(Progress::Restoring),
            "ready" => return Ok(Progress::Ready),
            _ => {}
        },
        [MARKER_WORD, format, ..] if format.parse::<u32>().is_ok() => {
            let path: PathBuf = folder.to_owned();
            return Err(EngineError::FolderVersion { path, found: format.to_owned(), expected: FORMAT });
        }
        _ => {}
    }
    let what = format!("the format marker reads {text:?}");
    Err(EngineError::Corrupt { path: disk.path(MARKER), offset: 0, what })
}

fn has_tree(folder: &Path) -> bool {
    fs::read_dir(folder.join(TREE)).is_ok_and(|mut entries| entries.next().is_some())
}

/// Writes the marker: whole, or not at all.
pub(super) fn mark(disk: &dyn Disk, progress: Progress) -> Result<(), EngineError> {
    let state = match progress {
        Progress::Ready => "ready",
        Progress::Restoring => "restoring",
        Progress::Empty | Progress::New => "new",
    };
    let text = format!("{MARKER_WORD} {FORMAT} {state}\n");
    let write = || -> io::Result<()> {
        if disk.list()?.iter().any(|name| name == NEW_MARKER) {
            disk.remove(NEW_MARKER)?;
        }
        let file = disk.create(NEW_MARKER)?;
        file.write_all_at(0, text.as_bytes())?;
        file.sync()?;
        disk.rename(NEW_MARKER, MARKER)?;
        disk.sync_folder()
    };
    write().map_err(|error| log::classify(disk, MARKER, "writing", error))
}

/// Makes the folder itself durable: its own entries, and its name in the folder above.
pub(super) fn sync_with_parent(path: &Path) -> Result<(), EngineError> {
    let sync = |path: &Path| File::open(path).and_then(|folder| folder.sync_all());
    let path = path.canonicalize().map_err(|error| folder_error(path, error))?;
    sync(&path).map_err(|error| folder_error(&path, error))?;
    match path.parent() {
        Some(parent) => sync(parent).map_err(|error| folder_error(parent, error)),
        None => Ok(()),
    }
}

/// Removes what an interrupted making left behind. Nothing in it was ever acknowledged.
pub(super) fn start_over(disk: &dyn Disk, folder: &Path) -> Result<(), EngineError> {
    let clear = || -> io::Result<()> {
        for name in disk.list()?.iter().filter(|name| *name != MARKER) {
            disk.remove(name)?;
        }
        disk.sync_folder()?;
        match fs::remove_dir_all(folder.join(TREE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    clear().map_err(|error| folder_error(folder, error))
}
