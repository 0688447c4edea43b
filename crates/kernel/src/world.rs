//! A world in memory, and its turns.
//!
//! A turn takes inbox items and gives the records that follow, and what is to be published with them. The
//! host commits all of it in one fenced transaction and then keeps the turn; a turn that is dropped did
//! not happen.

use crate::{
    cells::Cells,
    host::QueryView,
    intents::OpenIntent,
    manifest::{CheckError, CompiledManifest, ManifestError},
    meter::{Fault, Meter},
    objects::{LoadError, Objects},
    program::Failure,
    registry::Registry,
    replay::Replay,
    snapshot,
    state::{Active, Confined, HeldAt, Recording, State},
    turn::{Arrival, Turn, TurnBudget, TurnError},
};
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, IntentHash, UniverseId, WorldId,
    record::{Body, Custom, Genesis, Held, InboxItem, SnapshotNote},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

pub struct World {
    pub(crate) state: State,
    pub(crate) registry: Arc<Registry>,
}

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{0}")]
    Invalid(String),
    #[error("the query failed: {reason}")]
    Failed { code: Code, reason: String },
}

impl Coded for QueryError {
    fn code(&self) -> Code {
        match self {
            Self::Load(error) => error.code(),
            Self::Invalid(_) => Code::QueryInvalid,
            Self::Failed { code, .. } => *code,
        }
    }
}

/// A worker holds a world, and a turn of it, while it waits for its transaction.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<World>();
    is_send::<Turn<'static>>();
    is_send::<Replay>();
};

impl World {
    /// A new world, and its first record.
    pub fn create(
        objects: &dyn Objects,
        registry: Arc<Registry>,
        genesis: Genesis,
    ) -> Result<(Self, Vec<u8>), ManifestError> {
        let mut world = Self::unborn(objects, registry, &genesis)?;
        let (_, record) = world.state.append(Body::Genesis(genesis)).into_parts();
        world.state.keep();
        Ok((world, record))
    }

    /// A world before its first record: its snapshot is the baseline that a world is created with.
    pub fn unborn(objects: &dyn Objects, registry: Arc<Registry>, genesis: &Genesis) -> Result<Self, ManifestError> {
        let state = State::at_genesis(Active::load(objects, &registry, genesis.manifest)?, genesis);
        Ok(Self { state, registry })
    }

    pub fn universe(&self) -> UniverseId {
        self.state.position.universe
    }

    pub fn id(&self) -> WorldId {
        self.state.position.world
    }

    /// The next height.
    pub fn head(&self) -> Height {
        self.state.position.height
    }

    /// The hash of the last record.
    pub fn chain(&self) -> Hash {
        self.state.position.chain
    }

    /// The running hash over all outcomes.
    pub fn digest(&self) -> Hash {
        self.state.position.digest
    }

    pub fn logical_now_ns(&self) -> u64 {
        self.state.position.logical_now_ns
    }

    pub fn manifest(&self) -> &Arc<CompiledManifest> {
        &self.state.active.manifest
    }

    /// A paused world takes nothing but control commands; the host looks for those further up the inbox.
    pub fn is_paused(&self) -> bool {
        self.state.position.paused
    }

    /// Where it stopped because a step failed, if its manifest holds it there.
    pub fn held(&self) -> Option<HeldAt> {
        self.state.position.held
    }

    /// Whether it has not taken this inbox item yet.
    pub fn expects(&self, seq: InboxSeq) -> bool {
        self.state.expects(seq)
    }

    /// Whether it takes this inbox item although others before it wait because it is paused.
    pub fn takes_ahead(&self, seq: InboxSeq, item: &InboxItem) -> bool {
        self.state.expects(seq) && self.state.takes_ahead(item)
    }

    /// How many cells were written since the last snapshot: what the next one has to make nodes for.
    pub fn written_cells(&self) -> usize {
        self.state.cells.written()
    }

    pub fn cells(&self) -> &Cells {
        &self.state.cells
    }

    /// The parent whose receipts answer this fork, while they do.
    pub fn recording(&self) -> Option<Recording> {
        self.state.position.recording
    }

    /// The fate of effects that a parent's receipts do not answer, in a fork that they must not leave.
    pub fn confined(&self) -> Option<Confined> {
        self.state.position.confined()
    }

    pub fn open_intents(&self) -> impl Iterator<Item = &OpenIntent> {
        self.state.intents.iter()
    }

    /// Whether an intent has no receipt yet, and was not cancelled.
    pub fn waits_for(&self, intent: IntentHash) -> bool {
        self.state.intents.get(&intent).is_some()
    }

    pub fn timers(&self) -> impl Iterator<Item = &OpenIntent> {
        self.state.timers.iter()
    }

    /// Runs the program on the items. Until the turn is kept, the world is as it was.
    pub fn turn(
        &mut self,
        objects: &dyn Objects,
        arrivals: &[Arrival],
        budget: TurnBudget,
    ) -> Result<Turn<'_>, TurnError> {
        self.turn_or_hold(objects, arrivals, budget, None)
    }

    /// The same; or, with a reason why such a turn fails, a turn that takes nothing but the commands among the items, ahead of
    /// the others: the reason is journaled, and the world is paused from there.
    pub fn turn_or_hold(
        &mut self,
        objects: &dyn Objects,
        arrivals: &[Arrival],
        budget: TurnBudget,
        held: Option<Held>,
    ) -> Result<Turn<'_>, TurnError> {
        self.state.cells.settle(objects)?;
        let mut turn = Turn::begin(self);
        if let Some(held) = held {
            turn.hold(held);
        }
        turn.take(objects, arrivals, budget)?;
        turn.end();
        Ok(turn)
    }

    /// Puts something on record that the program does not see. A snapshot is checked against the journal
    /// and for completeness, each time that it is noted.
    pub fn note(&mut self, objects: &dyn Objects, note: Note) -> Result<Turn<'_>, TurnError> {
        if let Note::Snapshot(note) | Note::Baseline(note) = &note {
            self.state.check_note(note).map_err(TurnError::WrongNote)?;
            snapshot::load(objects, &self.registry, note)?;
        }
        if let Note::Baseline(note) = &note
            && note.receipt_horizon != Some(note.height)
        {
            return Err(TurnError::WrongNote("receipts that it waits for could be lost below it".to_owned()));
        }
        let mut turn = Turn::begin(self);
        turn.append(match note {
            Note::Snapshot(note) => Body::Snapshot(note),
            Note::Baseline(note) => Body::BaselineSnapshot(note),
            Note::Custom(custom) => Body::Custom(custom),
        });
        Ok(turn)
    }

    /// The value of a cell, past the program: for tools and tests.
    pub fn cell(&self, objects: &dyn Objects, key: &str) -> Result<Option<Vec<u8>>, LoadError> {
        self.state.cells.get(objects, key)
    }

    /// Asks the program. It sees the world as the last kept turn left it, and cannot change it.
    pub fn query(&self, objects: &dyn Objects, name: &str, params: &[u8]) -> Result<Vec<u8>, QueryError> {
        let active = &self.state.active;
        active.manifest.check_query(name, params).map_err(|error| match error {
            CheckError::Invalid(reason) => QueryError::Invalid(reason),
            CheckError::Crowded(crowded) => QueryError::Load(crowded.into()),
            exceeded @ CheckError::WorkExceeded(_) => {
                QueryError::Failed { code: Code::SchemaWorkExceeded, reason: exceeded.to_string() }
            }
        })?;
        let mut view = QueryView { state: &self.state, objects, meter: Meter::new(&active.manifest.manifest.limits) };
        let result = catch_unwind(AssertUnwindSafe(|| active.program.query(&mut view, name, params)));
        let failed = |code, reason| Err(QueryError::Failed { code, reason });
        match (view.meter.fault, result) {
            (Some(Fault::Load(error)), _) => Err(error.into()),
            (_, Err(_)) => failed(Code::ProgramPanicked, "the program panicked".to_owned()),
            (Some(Fault::Exhausted(what)), _) => failed(Code::BudgetExhausted, format!("no {what} left")),
            (Some(Fault::WorkExceeded(reason)), _) => failed(Code::SchemaWorkExceeded, reason),
            (Some(Fault::Refused(reason)), _) => failed(Code::OutputRefused, reason),
            (None, Ok(Err(Failure { code, reason }))) => failed(code, reason),
            (None, Ok(Ok(answer))) => Ok(answer),
        }
    }
}

/// A note that a host may put on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    Snapshot(SnapshotNote),
    Baseline(SnapshotNote),
    Custom(Custom),
}
