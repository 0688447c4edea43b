//! Snapshots: a world at a height, as one canonical object that names everything else it needs.
//!
//! A snapshot at height `h` covers every record below `h`. It is checked when it is journaled, when it
//! becomes the baseline, and when it is loaded; what does not agree is not used.

use crate::{
    cells::Cells,
    intents::{OpenIntent, Register, intent_hash},
    manifest::{CompiledManifest, ManifestError},
    objects::{LoadError, Object, Objects, load_checked},
    registry::Registry,
    state::{Active, Confined, Position, State},
    undo::UndoMap,
    world::World,
};
use minicbor::{Decode, Encode};
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, IntentHash, WorldId, cbor,
    child::Spend,
    limits,
    mutants::{Mutant, planted},
    record::SnapshotNote,
};
use std::{collections::BTreeSet, sync::Arc};

/// The form that this version writes.
const FORMAT: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct KernelSnapshot {
    #[n(0)]
    format: u8,
    #[n(1)]
    pub(crate) position: Position,
    #[n(2)]
    pub(crate) manifest: Hash,
    /// The root of the cells; nothing for no cells.
    #[n(3)]
    pub(crate) cells: Option<Hash>,
    /// Sorted by hash, as the timers are.
    #[n(4)]
    pub(crate) intents: Vec<OpenIntent>,
    #[n(5)]
    pub(crate) timers: Vec<OpenIntent>,
    /// The window of closed intents, oldest first.
    #[n(6)]
    pub(crate) closed: Vec<IntentHash>,
    #[n(7)]
    pub(crate) taken_ahead: Vec<InboxSeq>,
    /// The objects that the manifest names: program and schemas.
    #[n(8)]
    pub(crate) code: Vec<Hash>,
    /// Every object that restore needs, sorted. Cell nodes and values are reached from the cell root.
    #[n(9)]
    pub(crate) roots: Vec<Hash>,
}

/// A snapshot that was taken, and what must be stored before it may be put on record.
#[derive(Debug, Clone)]
pub struct TakenSnapshot {
    pub bytes: Arc<[u8]>,
    pub note: SnapshotNote,
    /// New objects, the snapshot itself among them.
    pub objects: Vec<Object>,
}

/// Why a snapshot is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("the snapshot is invalid: {0}")]
    Invalid(String),
    #[error("the snapshot needs the object {0}, which does not exist")]
    Incomplete(Hash),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Coded for SnapshotError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid(_) | Self::Incomplete(_) => Code::SnapshotInvalid,
            Self::Manifest(error) => error.code(),
        }
    }
}

impl From<LoadError> for SnapshotError {
    fn from(error: LoadError) -> Self {
        Self::Manifest(error.into())
    }
}

impl KernelSnapshot {
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let snapshot: Self = cbor::decode(bytes).map_err(|error| SnapshotError::Invalid(error.to_string()))?;
        snapshot.check_form().map_err(|what| SnapshotError::Invalid(what.to_owned()))?;
        Ok(snapshot)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        cbor::encode(self)
    }

    pub fn world(&self) -> WorldId {
        self.position.world
    }

    pub fn height(&self) -> Height {
        self.position.height
    }

    pub fn manifest(&self) -> Hash {
        self.manifest
    }

    /// The root of the cells; nothing for no cells.
    pub fn cells(&self) -> Option<Hash> {
        self.cells
    }

    pub fn open_intents(&self) -> &[OpenIntent] {
        &self.intents
    }

    pub fn timers(&self) -> &[OpenIntent] {
        &self.timers
    }

    /// The world takes nothing but commands.
    pub fn is_paused(&self) -> bool {
        self.position.paused
    }

    /// The cost of the children whose ends lie below its height.
    pub fn children_spent(&self) -> Spend {
        self.position.children_spent.unwrap_or_default()
    }

    /// The fate of effects that must not leave the world.
    pub fn confined(&self) -> Option<Confined> {
        self.position.confined()
    }

    /// Every object that restore needs.
    pub fn roots(&self) -> &[Hash] {
        &self.roots
    }

    /// The journal's note about it. Its open intents are listed in it, so no receipt that it waits for
    /// is lost by dropping what lies below it.
    pub fn note(&self, snapshot: Hash) -> SnapshotNote {
        SnapshotNote {
            snapshot,
            height: self.position.height,
            logical_time_ns: self.position.logical_now_ns,
            receipt_horizon: Some(self.position.height),
            manifest: self.manifest,
            chain: self.position.chain,
        }
    }

    pub(crate) fn with_roots(mut self) -> Self {
        self.roots = self.required_roots();
        self
    }

    fn required_roots(&self) -> Vec<Hash> {
        let blobs = self.intents.iter().chain(&self.timers).filter_map(OpenIntent::blob);
        let all = [self.manifest]
            .into_iter()
            .chain(self.code.iter().copied())
            .chain(self.cells)
            .chain(blobs)
            .chain(self.position.answers);
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Checks the rules that hold whatever the journal says.
    fn check_form(&self) -> Result<(), &'static str> {
        let named_rightly = |intent: &OpenIntent| {
            intent.hash == intent_hash(self.position.world, intent.place, &intent.kind, &intent.params)
        };
        let sorted = |intents: &[OpenIntent]| intents.is_sorted_by(|a, b| a.hash < b.hash);
        let labels = |intents: &[OpenIntent]| {
            intents.iter().map(|intent| &intent.label).collect::<BTreeSet<_>>().len() == intents.len()
        };
        if self.format != FORMAT {
            return Err("it was written in another format");
        }
        if !sorted(&self.intents) || !sorted(&self.timers) || !self.taken_ahead.is_sorted_by(|a, b| a < b) {
            return Err("its lists are not sorted");
        }
        if !labels(&self.intents) || !labels(&self.timers) {
            return Err("two open intents share a label");
        }
        if !self.intents.iter().chain(&self.timers).all(named_rightly) {
            return Err("an open intent is not this world's");
        }
        if !self.timers.iter().all(|timer| timer.timer().is_some()) {
            return Err("a timer has no due time");
        }
        let closed = self.closed.len() as u64;
        if closed != self.position.closed_count.min(limits::CLOSED_INTENTS_MAX) {
            return Err("its window of closed intents has another length than it should");
        }
        if self.confined().is_some() && self.position.recording.is_none() {
            return Err("it does not say which world it is a recorded or sandboxed fork of");
        }
        if self.position.answers.is_some() && !matches!(self.confined(), Some(Confined::Sandbox { .. })) {
            return Err("it has scripted answers and is no sandbox");
        }
        if self.roots != self.required_roots() {
            return Err("its list of roots is not what it needs");
        }
        Ok(())
    }

    /// Whether the journal's note speaks of this snapshot, and everything that it needs exists.
    fn check(&self, objects: &dyn Objects, registry: &Registry, note: &SnapshotNote) -> Result<(), SnapshotError> {
        let own = self.note(note.snapshot);
        if own != (SnapshotNote { receipt_horizon: own.receipt_horizon, ..note.clone() }) {
            return Err(SnapshotError::Invalid(format!("the journal notes {note:?}, the snapshot is {own:?}")));
        }
        let manifest = registry.manifest(objects, self.manifest)?;
        if self.code != code_of(&manifest) {
            return Err(SnapshotError::Invalid("it does not list what its manifest names".to_owned()));
        }
        for root in &self.roots {
            if !objects.contains(root)? {
                return Err(SnapshotError::Incomplete(*root));
            }
        }
        Ok(())
    }
}

/// Loads a snapshot and proves that it is the noted one and complete.
pub fn load(objects: &dyn Objects, registry: &Registry, note: &SnapshotNote) -> Result<KernelSnapshot, SnapshotError> {
    let snapshot = KernelSnapshot::from_bytes(&load_checked(objects, &note.snapshot)?)?;
    snapshot.check(objects, registry, note)?;
    Ok(snapshot)
}

fn code_of(manifest: &CompiledManifest) -> Vec<Hash> {
    let all = [manifest.manifest.program].into_iter().chain(manifest.schema_objects.iter().copied());
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

impl World {
    /// The world as it is now. Makes nodes only for cells that changed since the last one.
    pub fn snapshot(&mut self, objects: &dyn Objects) -> Result<TakenSnapshot, LoadError> {
        let cells = self.state.cells.flush(objects)?;
        let snapshot = self.state.to_snapshot(cells);
        let bytes: Arc<[u8]> = snapshot.to_bytes().into();
        let hash = Hash::of(&bytes);
        let objects = self.state.cells.unsaved().chain([(hash, bytes.clone())]).collect();
        Ok(TakenSnapshot { bytes, note: snapshot.note(hash), objects })
    }

    /// The snapshot's objects are stored; from now on they are read from there.
    pub fn saved(&mut self, snapshot: &TakenSnapshot) {
        self.state.cells.saved(snapshot.objects.iter().map(|(hash, _)| hash));
    }

    /// The world of a noted snapshot. Reads no cell.
    pub fn restore(objects: &dyn Objects, registry: Arc<Registry>, note: &SnapshotNote) -> Result<Self, SnapshotError> {
        let snapshot = load(objects, &registry, note)?;
        let active = Active::load(objects, &registry, snapshot.manifest)?;
        Ok(Self { state: State::from_snapshot(snapshot, active), registry })
    }
}

impl State {
    fn to_snapshot(&self, cells: Option<Hash>) -> KernelSnapshot {
        let snapshot = KernelSnapshot {
            format: FORMAT,
            position: self.position,
            manifest: self.active.manifest.hash,
            cells,
            intents: self.intents.iter().cloned().collect(),
            timers: self.timers.iter().cloned().collect(),
            closed: self.closed.map().values().copied().collect(),
            taken_ahead: self.taken_ahead.map().keys().copied().collect(),
            code: code_of(&self.active.manifest),
            roots: Vec::new(),
        };
        snapshot.with_roots()
    }

    pub(crate) fn from_snapshot(snapshot: KernelSnapshot, active: Active) -> Self {
        let first_closed = snapshot.position.closed_count - snapshot.closed.len() as u64;
        let closed = (first_closed..).zip(snapshot.closed).collect();
        let mut position = snapshot.position;
        if planted(Mutant::TimeForgotten) && position.height > Height::GENESIS {
            position.logical_now_ns = 0;
        }
        Self {
            position,
            active,
            cells: Cells::open(snapshot.cells),
            intents: Register::new(snapshot.intents),
            timers: Register::new(snapshot.timers),
            closed: UndoMap::new(closed),
            taken_ahead: UndoMap::new(snapshot.taken_ahead.into_iter().map(|seq| (seq, ())).collect()),
        }
    }
}
