//! Compiled code on this machine's disk.
//!
//! Compiled code is run as it is, so it is never taken from the content store or from anyone else: only from a folder that
//! belongs to this process, and only if it is what this process wrote, by its checksum. A name covers the component, the
//! engine with all its settings, and the machine; whatever does not fit is another name. What cannot be read is compiled
//! again.

use mundi_model::{Hash, hex};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use wasmtime::{Engine, component::Component};

pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in a folder, which is made if it is not there, for its owner alone.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder)?;
        Ok(Self { folder: folder.to_owned() })
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
        self.write(&code, &bytes)?;
        self.write(&sum, Hash::of(&bytes).as_bytes())?;
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        io::Write::write_all(&mut file, bytes)?;
        file.persist(path)?;
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
