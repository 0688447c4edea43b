//! Compiled code on this machine's disk.
//!
//! Compiled code is run as it is, so it is never taken from the content store or from anyone else: only from a folder that
//! belongs to this process, and only if it is what this process wrote, by its checksum. A name covers the component, the
//! engine with all its settings, and the machine; whatever does not fit is another name. What cannot be read is compiled
//! again.

use mundi_model::{Hash, hex, limits};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use wasmtime::{Engine, component::Component};

pub struct Cache {
    folder: PathBuf,
    /// The bytes of all files together; the oldest are deleted.
    bytes_max: u64,
}

impl Cache {
    /// A cache in a folder, which is made if it is not there, for its owner alone.
    pub fn open(folder: &Path) -> io::Result<Self> {
        open_folder(folder)?;
        Ok(Self { folder: folder.to_owned(), bytes_max: limits::COMPILED_BYTES_MAX })
    }

    /// Whether there is a compiled component, damaged or not.
    pub(crate) fn has(&self, engine: &Engine, program: Hash) -> bool {
        let (code, sum) = self.paths(engine, program);
        code.is_file() && sum.is_file()
    }

    /// The compiled component, if this process or an earlier one compiled it with the same engine.
    pub(crate) fn load(&self, engine: &Engine, program: Hash) -> Option<Component> {
        let (code, sum) = self.paths(engine, program);
        let expected = fs::read(sum).ok()?;
        if Hash::of(&fs::read(&code).ok()?).as_bytes()[..] != expected[..] {
            return None;
        }
        #[expect(unsafe_code, reason = "compiled code can only be trusted, not checked")]
        // SAFETY: the file is in a folder of this process's own, was written by `store` from what the compiler gave, and
        // has the checksum that was written beside it; the engine refuses what another version or setting made.
        unsafe { Component::deserialize_file(engine, code) }.ok()
    }

    /// Keeps a compiled component. It is complete before it has its name, and its checksum comes last.
    pub(crate) fn store(&self, program: Hash, component: &Component) -> wasmtime::Result<()> {
        let (code, sum) = self.paths(component.engine(), program);
        let bytes = component.serialize()?;
        self.make_room(bytes.len() as u64)?;
        write_whole(&self.folder, &code, &bytes)?;
        write_whole(&self.folder, &sum, Hash::of(&bytes).as_bytes())?;
        Ok(())
    }

    /// Removes the oldest files until so many bytes fit. Who still needs one of them compiles it again.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let about = entry.as_ref().map(fs::DirEntry::metadata);
            // One that another process has removed meanwhile takes no room.
            if let (Ok(entry), Ok(Ok(about))) = (&entry, about)
                && about.is_file()
            {
                files.push((about.modified()?, entry.path(), about.len()));
            }
        }
        files.sort();
        let mut total = files.iter().map(|(_, _, len)| len).sum::<u64>().saturating_add(bytes);
        for (_, path, len) in files {
            if total <= self.bytes_max {
                break;
            }
            fs::remove_file(path)?;
            total -= len;
        }
        Ok(())
    }

    fn paths(&self, engine: &Engine, program: Hash) -> (PathBuf, PathBuf) {
        let mut settings = Settings::default();
        std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut settings);
        let name = Hash::of_parts([b"mundi.wasm.cache.1\0", &program.as_bytes()[..], &settings.0]);
        let name = hex(name.as_bytes());
        (self.folder.join(format!("{name}.code")), self.folder.join(format!("{name}.sum")))
    }
}

/// Makes a folder, if it is not there, for its owner alone.
pub(crate) fn open_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Writes a file of a folder. It is complete before it has its name.
pub(crate) fn write_whole(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Collects what the engine says about its version, its settings and its target.
#[derive(Default)]
struct Settings(Vec<u8>);

impl std::hash::Hasher for Settings {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Not asked for: the bytes are what counts.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_code_gives_way_to_new_code() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { bytes_max: 100, ..Cache::open(folder.path()).unwrap() };
        let moment = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        for (name, seconds) in [("a", 3), ("b", 1), ("c", 2)] {
            let path = folder.path().join(name);
            write_whole(folder.path(), &path, &[7; 30]).unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_modified(moment(seconds)).unwrap();
        }
        let left = || ["a", "b", "c"].map(|name| folder.path().join(name).exists());
        cache.make_room(10).unwrap();
        assert_eq!(left(), [true, true, true], "all of it fits");
        cache.make_room(11).unwrap();
        assert_eq!(left(), [true, false, true]);
        cache.make_room(1_000).unwrap();
        assert_eq!(left(), [false, false, false], "what is larger than all room is kept alone");
    }
}
