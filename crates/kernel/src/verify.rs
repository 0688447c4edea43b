//! Verification: a whole history, proven against everything that it says about itself.
//!
//! Replay compares chain, stamps, outputs and digests, and takes a receipt only for an intent that is open: so each has
//! one terminal receipt at most. What is added here is that the history gives every snapshot that was taken of it, byte
//! for byte, that every note of a snapshot says what the history gives, in every field, and a count of what was proven.

use crate::{
    intents::TIMER_SET,
    objects::{LoadError, Objects, load_checked},
    registry::Registry,
    replay::{Replay, ReplayError, broken, read},
    snapshot::{KernelSnapshot, SnapshotError, TakenSnapshot},
    world::World,
};
use mundi_model::{
    Code, Coded, Hash, Height,
    record::{Body, Input, SnapshotNote},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// A history that is being proven, record by record.
pub struct Verifier {
    replay: Replay,
    /// The snapshots that the rest of the history must give, the lowest first.
    notes: VecDeque<SnapshotNote>,
    /// The snapshot that the history gave at each height where one was noted. `None` for a history that begins at a snapshot: there,
    /// notes may speak of what lies below.
    given: Option<BTreeMap<Height, SnapshotNote>>,
    counted: Counted,
}

/// The counts of the proof so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub records: u64,
    pub intents: u64,
    /// Each the one terminal receipt of its intent.
    pub receipts: u64,
    pub snapshots: u64,
    pub forks: u64,
}

/// A history that is proven.
#[derive(Debug, Clone)]
pub struct Verified {
    pub head: Height,
    pub chain: Hash,
    pub digest: Hash,
    pub open_intents: u64,
    pub counted: Counted,
    /// The world at the head, as one hash and as what it is made of.
    pub state: TakenSnapshot,
}

/// Where a history is not what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("the records below height {height} give the snapshot {found}, not {noted}")]
    SnapshotDiverged { height: Height, noted: Hash, found: Hash },
    #[error("the snapshot at height {height} is noted as {noted:?}, and the records give {found:?}")]
    NoteDiverged { height: Height, noted: Box<SnapshotNote>, found: Box<SnapshotNote> },
    #[error("the record at height {height} notes a snapshot at {noted}, of which nothing is known there")]
    NoteUnknown { height: Height, noted: Height },
    #[error("there is a snapshot at height {height}, and the records end at {head}")]
    SnapshotBeyond { height: Height, head: Height },
}

impl From<LoadError> for VerifyError {
    fn from(error: LoadError) -> Self {
        Self::Replay(error.into())
    }
}

impl Coded for VerifyError {
    fn code(&self) -> Code {
        match self {
            Self::Replay(error) => error.code(),
            Self::Snapshot(error) => error.code(),
            Self::SnapshotDiverged { .. } | Self::NoteDiverged { .. } => Code::ReplayDiverged,
            Self::SnapshotBeyond { .. } | Self::NoteUnknown { .. } => Code::JournalBroken,
        }
    }
}

impl Verifier {
    /// From the first record of a world. `notes` are the snapshots that were taken of it, in the order of their heights.
    pub fn from_genesis(
        objects: &dyn Objects,
        registry: Arc<Registry>,
        first: &[u8],
        notes: impl IntoIterator<Item = SnapshotNote>,
    ) -> Result<Self, VerifyError> {
        let mut notes: VecDeque<SnapshotNote> = notes.into_iter().collect();
        let (mut counted, mut given) = (Counted { records: 1, ..Counted::default() }, BTreeMap::new());
        if let Some(note) = notes.pop_front_if(|note| note.height == Height::GENESIS) {
            let Body::Genesis(genesis) = read(Height::GENESIS, first)?.body else {
                return Err(broken(Height::GENESIS, "the first record is no genesis").into());
            };
            let unborn = World::unborn(objects, registry.clone(), &genesis).map_err(ReplayError::from)?;
            let taken = Replay::from_world(unborn).snapshot(objects, |_| false)?;
            same(&note, &taken.note)?;
            given.insert(note.height, note);
            counted.snapshots += 1;
        }
        Ok(Self { replay: Replay::from_genesis(objects, registry, first)?, notes, given: Some(given), counted })
    }

    /// From a snapshot of a world: the records from its height on follow.
    pub fn from_snapshot(
        objects: &dyn Objects,
        registry: Arc<Registry>,
        note: &SnapshotNote,
    ) -> Result<Self, VerifyError> {
        let replay = Replay::from_world(World::restore(objects, registry, note)?);
        Ok(Self { replay, notes: VecDeque::new(), given: None, counted: Counted::default() })
    }

    /// The height of the record that comes next.
    pub fn head(&self) -> Height {
        self.replay.head()
    }

    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// Proves one record, or leaves everything as it was.
    pub fn apply(&mut self, objects: &dyn Objects, bytes: &[u8]) -> Result<(), VerifyError> {
        let body = read(self.replay.head(), bytes)?.body;
        let begins = matches!(&body, Body::ForkGenesis(fork)
            if self.notes.front().is_some_and(|note| note.height == self.replay.head() && note.snapshot == fork.snapshot));
        match self.notes.front().filter(|_| begins) {
            Some(note) => {
                let snapshot = KernelSnapshot::from_bytes(&load_checked(objects, &note.snapshot)?)?;
                same(note, &snapshot.note(note.snapshot))?;
            }
            None => self.compare(objects)?,
        }
        if let Body::Snapshot(note) | Body::BaselineSnapshot(note) = &body {
            self.compare_on_record(objects, note)?;
        }
        self.replay.apply(objects, bytes)?;
        if let Some(note) = self.notes.pop_front_if(|_| begins) {
            // The first snapshot of a fork: that it follows from its parent's records was just proven.
            self.remember(note);
        }
        self.counted.records += 1;
        match body {
            Body::Intent(intent) if intent.kind != TIMER_SET => self.counted.intents += 1,
            Body::Ingress(ingress) if matches!(ingress.item.input, Input::Receipt(_)) => self.counted.receipts += 1,
            Body::ForkGenesis(_) => self.counted.forks += 1,
            _ => {}
        }
        Ok(())
    }

    /// Whether the snapshot that was taken here is what the records below give.
    fn compare(&mut self, objects: &dyn Objects) -> Result<(), VerifyError> {
        while let Some(note) = self.notes.front().filter(|note| note.height <= self.replay.head()) {
            let is_noted = |taken: &TakenSnapshot| taken.note == *note;
            let taken = self.replay.snapshot(objects, is_noted)?;
            same(note, &taken.note)?;
            self.notes.pop_front();
            self.remember(taken.note);
        }
        Ok(())
    }

    fn remember(&mut self, proven: SnapshotNote) {
        self.counted.snapshots += 1;
        if let Some(given) = &mut self.given {
            given.insert(proven.height, proven);
        }
    }

    /// Whether a note on record says what the records below it give. It speaks of this very height, or of one that another note
    /// spoke of before.
    fn compare_on_record(&mut self, objects: &dyn Objects, note: &SnapshotNote) -> Result<(), VerifyError> {
        let height = self.replay.head();
        let Some(given) = &mut self.given else { return Ok(()) };
        if note.height == height && !given.contains_key(&height) {
            given.insert(height, self.replay.snapshot(objects, |_| false)?.note);
        }
        match given.get(&note.height) {
            Some(found) => same(note, found),
            None => Err(VerifyError::NoteUnknown { height, noted: note.height }),
        }
    }

    /// The end of the history: it must not stop in the middle of what follows from a step.
    pub fn finish(mut self, objects: &dyn Objects) -> Result<Verified, VerifyError> {
        self.end(objects)
    }

    /// As [`Self::finish`], for hosts that fetch what is missing and ask again.
    pub fn end(&mut self, objects: &dyn Objects) -> Result<Verified, VerifyError> {
        self.compare(objects)?;
        let head = self.replay.head();
        if let Some(note) = self.notes.front() {
            return Err(VerifyError::SnapshotBeyond { height: note.height, head });
        }
        if self.replay.is_mid_step() {
            return Err(ReplayError::MidStep(head).into());
        }
        let state = self.replay.snapshot(objects, |_| false)?;
        let world = self.replay.world();
        Ok(Verified {
            head,
            chain: world.chain(),
            digest: world.digest(),
            open_intents: world.open_intents().count() as u64,
            counted: self.counted,
            state,
        })
    }
}

fn same(noted: &SnapshotNote, found: &SnapshotNote) -> Result<(), VerifyError> {
    let height = noted.height;
    if noted.snapshot != found.snapshot {
        return Err(VerifyError::SnapshotDiverged { height, noted: noted.snapshot, found: found.snapshot });
    }
    if noted != found {
        let (noted, found) = (Box::new(noted.clone()), Box::new(found.clone()));
        return Err(VerifyError::NoteDiverged { height, noted, found });
    }
    Ok(())
}

/// The notes of a history with that of its baseline, which is one of them as a rule.
pub fn with_baseline(notes: &[SnapshotNote], baseline: &SnapshotNote) -> Result<Vec<SnapshotNote>, VerifyError> {
    let mut notes = notes.to_vec();
    match notes.binary_search_by_key(&baseline.height, |note| note.height) {
        Ok(at) => same(baseline, &notes[at])?,
        Err(at) => notes.insert(at, baseline.clone()),
    }
    Ok(notes)
}
