//! A disk that fails as told: for tests, and for the simulator.
//!
//! It keeps what was synced apart from what was only written. A crash keeps the former and an arbitrary
//! part of the latter, in sectors: writes are lost, torn and reordered. Names are made durable by
//! [`Disk::sync_folder`]; a crash keeps the first few of the changes since.

use super::disk::{Disk, DiskFile};
use parking_lot::Mutex;
use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

/// The bytes that a disk persists whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A call that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    List,
    Open,
    Create,
    Rename,
    Remove,
    SyncFolder,
    Read,
    Write,
    Sync,
}

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// With this error, and without effect; a failed sync leaves an arbitrary part persisted.
    Error(io::ErrorKind),
    /// A read or write of fewer bytes than asked for, which is no error.
    Short,
}

/// Decides about each call by its number and kind.
pub type Plan = Box<dyn FnMut(u64, Call) -> Option<Fault> + Send>;

/// A seeded generator: small, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    /// SplitMix64.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

struct State {
    /// The files as the process sees them; a file lives as long as a name or a handle has it.
    names: BTreeMap<String, Arc<Mutex<Content>>>,
    durable_names: BTreeMap<String, Arc<Mutex<Content>>>,
    /// Changes of names since the folder was synced.
    renames: Vec<NameChange>,
    dice: Dice,
    plan: Plan,
    calls: u64,
    crashed: bool,
}

enum NameChange {
    Create(String, Arc<Mutex<Content>>),
    Rename(String, String),
    Remove(String),
}

#[derive(Default)]
struct Content {
    durable: Vec<u8>,
    /// The view of the process: the durable bytes with all writes on top.
    seen: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        Self::with_files(seed, BTreeMap::new())
    }

    fn with_files(seed: u64, names: BTreeMap<String, Arc<Mutex<Content>>>) -> Self {
        let state = State {
            durable_names: names.clone(),
            names,
            renames: Vec::new(),
            dice: Dice::new(seed),
            plan: Box::new(|_, _| None),
            calls: 0,
            crashed: false,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// From now on, this decides which calls fail; they are counted from zero again.
    pub fn set_plan(&self, plan: Plan) {
        let mut state = self.0.lock();
        state.plan = plan;
        state.calls = 0;
    }

    /// How many calls there were since the plan was set.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// The power fails. The returned disk has what survived; this one fails every call from now on.
    pub fn crash(&self) -> Self {
        let mut state = self.0.lock();
        state.crashed = true;
        let changes = state.renames.len() as u64;
        let kept = state.dice.below(changes + 1);
        let changes: Vec<_> = state.renames.drain(..).take(usize::try_from(kept).unwrap_or(0)).collect();
        let mut names = state.durable_names.clone();
        changes.iter().for_each(|change| change.apply(&mut names));
        let mut survivors = BTreeMap::new();
        for (name, content) in names {
            let durable = content.lock().after_crash(&mut state.dice);
            let content = Content { seen: durable.clone(), durable, unsynced: Vec::new() };
            survivors.insert(name, Arc::new(Mutex::new(content)));
        }
        Self::with_files(state.dice.roll(), survivors)
    }

    /// The files, for tests that damage them.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.0.lock();
        state.names.iter().map(|(name, content)| (name.clone(), content.lock().seen.clone())).collect()
    }

    /// Replaces a file, durably.
    pub fn overwrite(&self, name: &str, bytes: Vec<u8>) {
        let content = Arc::new(Mutex::new(Content { seen: bytes.clone(), durable: bytes, unsynced: Vec::new() }));
        let mut state = self.0.lock();
        state.names.insert(name.to_owned(), content.clone());
        state.durable_names.insert(name.to_owned(), content);
    }

    /// Loses a file, durably.
    pub fn lose(&self, name: &str) {
        let mut state = self.0.lock();
        state.names.remove(name);
        state.durable_names.remove(name);
    }

    fn call(&self, call: Call) -> io::Result<Option<Fault>> {
        let mut state = self.0.lock();
        if state.crashed {
            return Err(io::Error::other("the disk is gone"));
        }
        let number = state.calls;
        state.calls += 1;
        Ok((state.plan)(number, call))
    }

    /// For calls that fail whole or not at all.
    fn whole(&self, call: Call) -> io::Result<()> {
        match self.call(call)? {
            Some(Fault::Error(kind)) => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, Arc<Mutex<Content>>>) {
        match self {
            Self::Create(name, content) => {
                names.insert(name.clone(), content.clone());
            }
            Self::Rename(from, to) => {
                if let Some(content) = names.remove(from) {
                    names.insert(to.clone(), content);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl State {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.renames.push(change);
    }
}

impl Content {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        write_into(&mut self.seen, offset, bytes);
        self.unsynced.push((offset, bytes.to_vec()));
    }

    /// Persists what was written since the last sync, and only that: what a failed one lost stays lost.
    fn sync(&mut self) {
        for (offset, bytes) in self.unsynced.drain(..) {
            write_into(&mut self.durable, offset, &bytes);
        }
    }

    /// Every sector of every unsynced write is persisted or not, as the dice fall.
    fn after_crash(&self, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for (offset, written) in &self.unsynced {
            let mut at = 0;
            while at < written.len() {
                let sector_end = (offset + at) / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES - offset;
                let end = sector_end.min(written.len());
                if dice.chance(2) {
                    write_into(&mut bytes, offset + at, &written[at..end]);
                }
                at = end;
            }
        }
        bytes
    }
}

fn write_into(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.whole(Call::List)?;
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.whole(Call::Open)?;
        let content = self.0.lock().names.get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), content }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.whole(Call::Create)?;
        let mut state = self.0.lock();
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Arc::new(Mutex::new(Content::default()));
        state.change(NameChange::Create(name.to_owned(), content.clone()));
        Ok(Arc::new(SimFile { disk: self.clone(), content }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.whole(Call::Rename)?;
        let mut state = self.0.lock();
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.whole(Call::Remove)?;
        let mut state = self.0.lock();
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.whole(Call::SyncFolder)?;
        let mut state = self.0.lock();
        state.durable_names = state.names.clone();
        state.renames.clear();
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("sim").join(name)
    }
}

struct SimFile {
    disk: SimDisk,
    content: Arc<Mutex<Content>>,
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().seen.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let fault = self.disk.call(Call::Read)?;
        let content = self.content.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.seen.len());
        let available = buffer.len().min(content.seen.len() - start);
        let read = match fault {
            Some(Fault::Error(kind)) => return Err(kind.into()),
            Some(Fault::Short) => available.div_ceil(2),
            None => available,
        };
        buffer[..read].copy_from_slice(&content.seen[start..start + read]);
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let fault = self.disk.call(Call::Write)?;
        let written = match fault {
            Some(Fault::Error(kind)) => return Err(kind.into()),
            Some(Fault::Short) => bytes.len().div_ceil(2),
            None => bytes.len(),
        };
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.content.lock().write(offset, &bytes[..written]);
        Ok(written)
    }

    /// A sync that fails has persisted some of it, and the rest is never tried again: the system takes
    /// the pages for clean.
    fn sync(&self) -> io::Result<()> {
        let fault = self.disk.call(Call::Sync)?;
        let mut dice = Dice::new(self.disk.0.lock().dice.roll());
        let mut content = self.content.lock();
        if let Some(Fault::Error(kind)) = fault {
            content.durable = content.after_crash(&mut dice);
            content.unsynced.clear();
            return Err(kind.into());
        }
        content.sync();
        Ok(())
    }

    /// Zeros to the end of the block, as a write past the page cache does.
    fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        let room = usize::try_from(end.next_multiple_of(4096).min(self.len()?.max(end)) - end).unwrap_or(0);
        let padded: Vec<u8> = bytes.iter().copied().chain(std::iter::repeat_n(0, room)).collect();
        let file: &dyn DiskFile = self;
        file.write_all_at(offset, &padded)?;
        self.sync()
    }
}
