//! All that a world is between two records: what a snapshot keeps, and nothing else.

use crate::{
    admit,
    cells::Cells,
    intents::Register,
    manifest::{CompiledManifest, ManifestError},
    objects::Objects,
    program::Program,
    registry::Registry,
    snapshot::KernelSnapshot,
    undo::{Mark, UndoMap},
};
use minicbor::{Decode, Encode};
use mundi_model::{
    Hash, Height, InboxSeq, IntentHash, UniverseId, WorldId,
    child::Spend,
    limits,
    mutants::{Mutant, planted},
    record::{Body, EffectPolicy, Genesis, InboxItem, Input, Record, Sealed, SnapshotNote},
};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) struct State {
    pub(crate) position: Position,
    pub(crate) active: Active,
    pub(crate) cells: Cells,
    pub(crate) intents: Register,
    pub(crate) timers: Register,
    /// The intents closed last, by the order in which they were closed.
    pub(crate) closed: UndoMap<u64, IntentHash>,
    /// Control commands that were taken while the world was paused, ahead of the items before them.
    pub(crate) taken_ahead: UndoMap<InboxSeq, ()>,
}

/// The small part of the state, copied at each savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Position {
    #[n(0)]
    pub(crate) universe: UniverseId,
    #[n(1)]
    pub(crate) world: WorldId,
    /// The next height.
    #[n(2)]
    pub(crate) height: Height,
    /// The hash of the record below.
    #[n(3)]
    pub(crate) chain: Hash,
    /// The running hash over all that steps produced.
    #[n(4)]
    pub(crate) digest: Hash,
    #[n(5)]
    pub(crate) logical_now_ns: u64,
    /// Where the current manifest began to hold.
    #[n(6)]
    pub(crate) manifest_since: Height,
    #[n(7)]
    pub(crate) last_seq: Option<InboxSeq>,
    #[n(8)]
    pub(crate) closed_count: u64,
    #[n(9)]
    pub(crate) failures_in_row: u32,
    #[n(10)]
    pub(crate) paused: bool,
    #[n(11)]
    pub(crate) recording: Option<Recording>,
    /// The input that it is held at, while it is.
    #[n(12)]
    pub(crate) held: Option<HeldAt>,
    /// An item that passes without a step, because an operator says so.
    #[n(13)]
    pub(crate) skip: Option<InboxSeq>,
    /// By which policy it was forked; `None` for a world that is no fork, and for policies that older snapshots do not name:
    /// live ones, and those that end a recording.
    #[n(14)]
    pub(crate) policy: Option<EffectPolicy>,
    /// Of a sandbox: the object with its scripted answers.
    #[n(15)]
    pub(crate) answers: Option<Hash>,
    /// The sum of the costs of the children whose ends it took.
    #[n(16)]
    pub(crate) children_spent: Option<Spend>,
}

/// Where a world stopped because a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct HeldAt {
    /// The inbox item whose step failed. It still waits.
    #[n(0)]
    pub seq: InboxSeq,
    /// The height of the record that says why.
    #[n(1)]
    pub height: Height,
}

/// A fork whose intents are answered from its parent's receipts while they match.
///
/// They match by their order since the fork: heights shift with what else a turn appends, and names cover the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Recording {
    #[n(0)]
    pub parent: WorldId,
    /// The height of the fork: what the parent asked for from here on is compared.
    #[n(1)]
    pub since: Height,
    /// How many intents came since the fork. Timers do not count: they are answered by the clock.
    #[n(2)]
    pub asked: u64,
}

/// A world whose effects are not carried out, whatever it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confined {
    /// It stops at the first intent that its parent did not ask for.
    Recorded,
    /// Each is answered; from this script, if its parent's receipts do not.
    Sandbox { answers: Option<Hash> },
}

impl Position {
    pub(crate) fn confined(&self) -> Option<Confined> {
        match self.policy {
            Some(EffectPolicy::Recorded) => Some(Confined::Recorded),
            Some(EffectPolicy::Sandbox) => Some(Confined::Sandbox { answers: self.answers }),
            _ => None,
        }
    }
}

/// The manifest that holds, and the program that it names.
#[derive(Clone)]
pub(crate) struct Active {
    pub(crate) manifest: Arc<CompiledManifest>,
    pub(crate) program: Arc<dyn Program>,
}

impl Active {
    pub(crate) fn load(objects: &dyn Objects, registry: &Registry, hash: Hash) -> Result<Self, ManifestError> {
        let manifest = registry.manifest(objects, hash)?;
        let program = registry.program(objects, &manifest.manifest)?;
        Ok(Self { manifest, program })
    }
}

/// A point to go back to.
pub(crate) struct Savepoint {
    position: Position,
    active: Active,
    cells: Mark,
    intents: (Mark, Mark),
    timers: (Mark, Mark),
    closed: Mark,
    taken_ahead: Mark,
}

impl Savepoint {
    pub(crate) fn cells(&self) -> Mark {
        self.cells
    }
}

impl State {
    /// A world before its first record.
    pub(crate) fn at_genesis(active: Active, genesis: &Genesis) -> Self {
        let position = Position {
            universe: genesis.universe,
            world: genesis.world,
            height: Height::GENESIS,
            chain: Record::CHAIN_START,
            digest: Hash::of(b""),
            logical_now_ns: genesis.now_ns,
            manifest_since: Height::GENESIS,
            last_seq: None,
            closed_count: 0,
            failures_in_row: 0,
            paused: false,
            recording: None,
            held: None,
            skip: None,
            policy: None,
            answers: None,
            children_spent: None,
        };
        Self {
            position,
            active,
            cells: Cells::open(None),
            intents: Register::new([]),
            timers: Register::new([]),
            closed: UndoMap::new(BTreeMap::new()),
            taken_ahead: UndoMap::new(BTreeMap::new()),
        }
    }

    /// Turns into the branch whose snapshot this is. The cells are the same.
    pub(crate) fn become_child(&mut self, child: KernelSnapshot) {
        let cells = std::mem::replace(&mut self.cells, Cells::open(None));
        *self = Self { cells, ..Self::from_snapshot(child, self.active.clone()) };
    }

    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            position: self.position,
            active: self.active.clone(),
            cells: self.cells.mark(),
            intents: self.intents.mark(),
            timers: self.timers.mark(),
            closed: self.closed.mark(),
            taken_ahead: self.taken_ahead.mark(),
        }
    }

    pub(crate) fn undo_to(&mut self, savepoint: Savepoint) {
        self.position = savepoint.position;
        self.active = savepoint.active;
        self.cells.undo_to(savepoint.cells);
        self.intents.undo_to(savepoint.intents);
        self.timers.undo_to(savepoint.timers);
        self.closed.undo_to(savepoint.closed);
        self.taken_ahead.undo_to(savepoint.taken_ahead);
    }

    /// There is no way back from here.
    pub(crate) fn keep(&mut self) {
        self.cells.keep();
        self.intents.keep();
        self.timers.keep();
        self.closed.keep();
        self.taken_ahead.keep();
    }

    /// Remembers that an intent is over, and forgets the oldest of those.
    pub(crate) fn remember_closed(&mut self, intent: IntentHash) {
        let order = self.position.closed_count;
        self.position.closed_count += 1;
        self.closed.insert(order, intent);
        if let Some(too_old) = order.checked_sub(limits::CLOSED_INTENTS_MAX) {
            self.closed.remove(&too_old);
        }
    }

    pub(crate) fn was_closed(&self, intent: &IntentHash) -> bool {
        self.closed.map().values().any(|closed| closed == intent)
    }

    /// From the record that is appended next, at `height`, the world is held at an input whose step failed, or at whatever its
    /// turns fail at.
    pub(crate) fn hold(&mut self, height: Height, failed: Option<InboxSeq>) {
        self.position.paused = true;
        self.position.held = failed.map(|seq| HeldAt { seq, height });
    }

    /// It continues.
    pub(crate) fn resume(&mut self) {
        self.position.paused = false;
        self.position.held = None;
        self.position.failures_in_row = 0;
    }

    /// Whether an item passes without a step.
    pub(crate) fn skips(&self, seq: InboxSeq) -> bool {
        match self.position.skip {
            Some(skip) if planted(Mutant::SkipTakesTwo) => skip <= seq,
            skip => skip == Some(seq),
        }
    }

    /// An inbox item was taken or refused. While paused, the items before it still wait; else, what was
    /// taken ahead of it is behind us now.
    pub(crate) fn pass(&mut self, seq: InboxSeq) {
        if self.position.paused {
            self.taken_ahead.insert(seq, ());
            return;
        }
        while let Some((&earlier, ())) = self.taken_ahead.map().first_key_value()
            && earlier < seq
        {
            self.taken_ahead.remove(&earlier);
        }
        self.position.last_seq = Some(seq);
    }

    /// Whether an inbox item may come now: each comes once, and in order.
    pub(crate) fn expects(&self, seq: InboxSeq) -> bool {
        self.position.last_seq.is_none_or(|last| last < seq) && !self.taken_ahead.map().contains_key(&seq)
    }

    /// Whether a paused world takes an item although others before it wait: control commands, as long as there is room in
    /// the list of them. A full list keeps room for resumes: a world that could not be resumed would wait for ever.
    pub(crate) fn takes_ahead(&self, item: &InboxItem) -> bool {
        let Input::Control { command, .. } = &item.input else { return false };
        let resumes = [admit::RESUME, admit::RETRY, admit::SKIP].contains(&command.as_str());
        let for_resumes = if resumes { limits::RESUMES_AHEAD_MAX } else { 0 };
        self.taken_ahead.map().len() < limits::TAKEN_AHEAD_MAX + for_resumes
    }

    /// The world's time at a record: it never goes back, and a timer never fires early.
    pub(crate) fn logical_time(&self, now_ns: u64, not_before_ns: u64) -> u64 {
        self.position.logical_now_ns.max(now_ns).max(not_before_ns)
    }

    /// Seals a record at the head of the journal.
    pub(crate) fn append(&mut self, body: Body) -> Sealed {
        let sealed = Record { height: self.position.height, prev: self.position.chain, body }.into_sealed();
        self.advance(sealed.hash());
        sealed
    }

    /// A record with this hash stands at the head now.
    pub(crate) fn advance(&mut self, record: Hash) {
        self.position.chain = record;
        self.position.height = self.position.height.next();
    }

    /// Whether a snapshot note can be true: it was taken here or below, under the manifest that holds, and
    /// if it was taken right here, then of this very chain.
    pub(crate) fn check_note(&self, note: &SnapshotNote) -> Result<(), String> {
        let position = &self.position;
        let here = note.height == position.height;
        let wrong = |what: String| Err(what);
        if note.height > position.height {
            return wrong(format!("it covers height {}, and the head is {}", note.height, position.height));
        }
        if note.height < position.manifest_since {
            return wrong(format!("it is older than the manifest, which holds since {}", position.manifest_since));
        }
        if note.manifest != self.active.manifest.hash {
            return wrong(format!("its manifest is {}, the journal's {}", note.manifest, self.active.manifest.hash));
        }
        if note.logical_time_ns > position.logical_now_ns || here && note.logical_time_ns != position.logical_now_ns {
            return wrong(format!("its time is {}, the world's {}", note.logical_time_ns, position.logical_now_ns));
        }
        if here && note.chain != position.chain {
            return wrong(format!("its chain is {}, the journal's {}", note.chain, position.chain));
        }
        Ok(())
    }
}
