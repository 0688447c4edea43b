//! Every file that the engine itself writes is reached through this trait, so that tests can put a
//! faulty disk under it. (The tree writes its own files: see `mod.rs` for what guards those.)

use super::direct_io::DirectFile;
use parking_lot::Mutex;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// One flat folder of files.
pub trait Disk: Send + Sync + 'static {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a file that did not exist, empty.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, replacing what has that name. SyncedGroup after [`Disk::sync_folder`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. SyncedGroup after [`Disk::sync_folder`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the set of files and their names durable.
    fn sync_folder(&self) -> io::Result<()>;
    /// Where a file is, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// One open file.
#[expect(clippy::len_without_is_empty, reason = "nobody asks a file whether it is empty")]
pub trait DiskFile: Send + Sync {
    fn len(&self) -> io::Result<u64>;
    /// Reads what is there; fewer bytes than asked for may come, none at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes, perhaps fewer bytes than given. SyncedGroup after [`DiskFile::sync`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Writes behind everything that the file holds, and makes it durable. What was in the file behind the bytes may
    /// become zeros.
    fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

impl dyn DiskFile + '_ {
    pub(super) fn write_all_at(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(offset, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills the buffer as far as the file goes, and says how far that was.
    pub(super) fn read_up_to(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(offset + filled as u64, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// A folder of the operating system.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name);
        Ok(Arc::new(FolderFile::new(OpenOptions::new().read(true).write(true).open(&path)?, &path)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name);
        Ok(Arc::new(FolderFile::new(OpenOptions::new().read(true).write(true).create_new(true).open(&path)?, &path)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// A file of the operating system, through the page cache; appended to past it, where that can be had.
struct FolderFile {
    file: File,
    direct: Mutex<Option<DirectFile>>,
}

impl FolderFile {
    fn new(file: File, path: &Path) -> Self {
        Self { file, direct: Mutex::new(DirectFile::open(path)) }
    }
}

impl DiskFile for FolderFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut direct = self.direct.lock();
        match direct.as_mut().map(|direct| direct.append(&self.file, offset, bytes)) {
            // The file system opened it so, and will not write it so.
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => *direct = None,
            Some(done) => return done,
            None => {}
        }
        drop(direct);
        self.file.write_all_at(bytes, offset)?;
        self.sync()
    }
}
