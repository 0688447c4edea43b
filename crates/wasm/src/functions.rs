//! Compiled functions on this machine's disk, for the next component that has the same ones.
//!
//! Most of a component in TypeScript or Python is the interpreter: two versions of a program differ in data, and in hardly any function.
//! The compiler asks by a hash of all that a function's code depends on (its body, the settings and the version of the compiler), so
//! what is found is what it would have made.
//!
//! A compilation adds one file with the functions that it had to compile: their code, an index, a footer. A file has its name when it is
//! complete, and never changes. What does not have its checksum counts as absent and is compiled again. Files that nobody used for the
//! longest time give way.

use crate::cache::{open_folder, write_whole};
use mundi_model::{Hash, hex, limits};
use parking_lot::Mutex;
use rustix::{
    fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens},
    io::pread,
};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};
use wasmtime::CacheStore;

/// The ending of the files, and the form that they have.
const ENDING: &str = "functions1";

const ENTRY_BYTES: usize = 2 * Hash::LEN + 16;
const FOOTER_BYTES: usize = Hash::LEN + 8;

/// The most functions of one file: more than a component of the largest size has.
const ENTRIES_MAX: u64 = 1 << 20;

/// The functions that one compilation finds and adds.
pub(crate) struct Functions {
    folder: PathBuf,
    packs: Vec<Pack>,
    found: BTreeMap<Hash, CodeLocation>,
    made: Mutex<Made>,
    bytes_max: u64,
}

struct Pack {
    file: fs::File,
    is_used: AtomicBool,
}

/// Where the code of a function is.
struct CodeLocation {
    pack: usize,
    at: u64,
    len: usize,
    sum: Hash,
}

#[derive(Default)]
struct Made {
    functions: BTreeMap<Hash, Vec<u8>>,
    bytes: u64,
}

impl Functions {
    /// Opens a folder, which is made if it does not exist, for its owner alone.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        open_folder(folder)?;
        let (mut packs, mut found) = (Vec::new(), BTreeMap::new());
        for (_, path, _) in files(folder)? {
            // One that is damaged, or that another process has removed meanwhile, has nothing.
            if let Ok((file, entries)) = read(&path) {
                let pack = packs.len();
                found.extend(
                    entries.into_iter().map(|(key, (at, len, sum))| (key, CodeLocation { pack, at, len, sum })),
                );
                packs.push(Pack { file, is_used: AtomicBool::new(false) });
            }
        }
        let bytes_max = limits::COMPILED_FUNCTIONS_BYTES_MAX;
        Ok(Self { folder: folder.to_owned(), packs, found, made: Mutex::default(), bytes_max })
    }

    /// Keeps what was compiled, and says of what was used that it was.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: now };
        for pack in self.packs.iter().filter(|pack| pack.is_used.load(Ordering::Relaxed)) {
            futimens(&pack.file, &times)?;
        }
        let made = std::mem::take(&mut *self.made.lock());
        if made.functions.is_empty() {
            return Ok(());
        }
        let (mut bytes, mut index) = (Vec::new(), Vec::new());
        // Without room for it nothing is kept: what was compiled is out, and the process must not end for this.
        let wanted = usize::try_from(made.bytes).map_err(io::Error::other)?;
        bytes.try_reserve_exact(wanted.saturating_add(FOOTER_BYTES)).map_err(io::Error::other)?;
        for (key, code) in &made.functions {
            index.extend_from_slice(key.as_bytes());
            index.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            index.extend_from_slice(&(code.len() as u64).to_le_bytes());
            index.extend_from_slice(Hash::of(code).as_bytes());
            bytes.extend_from_slice(code);
        }
        let sum = Hash::of(&index);
        bytes.extend_from_slice(&index);
        bytes.extend_from_slice(sum.as_bytes());
        bytes.extend_from_slice(&(made.functions.len() as u64).to_le_bytes());
        self.make_room(bytes.len() as u64)?;
        write_whole(&self.folder, &self.folder.join(format!("{}.{ENDING}", hex(sum.as_bytes()))), &bytes)
    }

    /// Removes the files that were not used for the longest time, until one more fits.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let files = files(&self.folder)?;
        let mut total = files.iter().map(|(_, _, len)| len).sum::<u64>().saturating_add(bytes);
        let mut count = files.len();
        for (_, path, len) in files {
            if total <= self.bytes_max && count < limits::COMPILED_FUNCTION_FILES_MAX {
                break;
            }
            fs::remove_file(path)?;
            total -= len;
            count -= 1;
        }
        Ok(())
    }

    fn load(&self, key: &[u8]) -> Option<Vec<u8>> {
        let CodeLocation { pack, at, len, sum } = self.found.get(&hash_in(key)?)?;
        let pack = &self.packs[*pack];
        let mut code = vec![0; *len];
        let mut filled = 0;
        while filled < code.len() {
            match pread(&pack.file, &mut code[filled..], at + filled as u64).ok()? {
                0 => return None,
                read => filled += read,
            }
        }
        pack.is_used.store(true, Ordering::Relaxed);
        (Hash::of(&code) == *sum).then_some(code)
    }
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.load(key).map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], code: Vec<u8>) -> bool {
        let Some(key) = hash_in(key) else { return false };
        let mut made = self.made.lock();
        let bytes = made.bytes.saturating_add((code.len() + ENTRY_BYTES) as u64);
        // Half of all room: what one hostile component leaves room for is more than two interpreters.
        let fits = bytes <= self.bytes_max / 2 && (made.functions.len() as u64) < ENTRIES_MAX;
        if fits {
            made.bytes = bytes;
            made.functions.insert(key, code);
        }
        fits
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").field("folder", &self.folder).field("found", &self.found.len()).finish()
    }
}

fn hash_in(bytes: &[u8]) -> Option<Hash> {
    Some(Hash::from_bytes(bytes.try_into().ok()?))
}

type Modified = std::time::SystemTime;

/// The files of a folder, with their sizes, also what a compiler left that was killed; what was not used for the longest time comes first.
fn files(folder: &Path) -> io::Result<Vec<(Modified, PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let Ok(entry) = entry else { continue };
        // One that another process has removed meanwhile takes no room.
        if let Ok(about) = entry.metadata() {
            files.push((about.modified()?, entry.path(), about.len()));
        }
    }
    files.sort();
    Ok(files)
}

type Entries = Vec<(Hash, (u64, usize, Hash))>;

/// The index of a file; the code stays where it is until it is asked for.
fn read(path: &Path) -> io::Result<(fs::File, Entries)> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let mut file = fs::File::open(path)?;
    let len = file.metadata()?.len();
    let footer_at = len.checked_sub(FOOTER_BYTES as u64).ok_or_else(damaged)?;
    let mut footer = [0; FOOTER_BYTES];
    file.seek(SeekFrom::Start(footer_at))?;
    file.read_exact(&mut footer)?;
    let (sum, count) = footer.split_at(Hash::LEN);
    let count = u64::from_le_bytes(count.try_into().map_err(|_| damaged())?);
    let index_bytes = usize::try_from(count.min(ENTRIES_MAX + 1)).map_err(|_| damaged())? * ENTRY_BYTES;
    let index_at = footer_at.checked_sub(index_bytes as u64).ok_or_else(damaged)?;
    let mut index = vec![0; index_bytes];
    file.seek(SeekFrom::Start(index_at))?;
    file.read_exact(&mut index)?;
    if Hash::of(&index).as_bytes()[..] != *sum {
        return Err(damaged());
    }
    let entries = index.chunks_exact(ENTRY_BYTES).map(|entry| {
        let number = |at: usize| Some(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?));
        let (at, len) = (number(Hash::LEN)?, number(Hash::LEN + 8)?);
        // Code lies below the index: what is longer than the file is never read into memory.
        at.checked_add(len).filter(|end| *end <= index_at)?;
        Some((hash_in(&entry[..Hash::LEN])?, (at, usize::try_from(len).ok()?, hash_in(&entry[Hash::LEN + 16..])?)))
    });
    let entries = entries.collect::<Option<_>>().ok_or_else(damaged)?;
    Ok((file, entries))
}
