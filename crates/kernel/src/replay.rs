//! Replay: from the records back to the world, proving on the way that each outcome is what was recorded.
//!
//! Records go in one by one; memory is bounded by the world, not by its history. What follows from a record
//! (intents, cancels, replies, failures, digests) is produced again and compared, so that a difference is
//! found at the first height where there is one.

use crate::{
    admit::{self, AdmitError, Prepared},
    fork::{ForkRequest, branch},
    manifest::ManifestError,
    objects::{LoadError, Objects},
    registry::Registry,
    snapshot::{KernelSnapshot, TakenSnapshot},
    state::State,
    step::{self, Outcome, essence},
    world::World,
};
use mundi_model::{
    Code, Coded, Hash, Height, cbor, limits,
    record::{Body, ForkGenesis, Genesis, Ingress, Record, Reply, ReplyOutcome},
};
use std::{collections::VecDeque, sync::Arc};

/// A world that is being replayed.
pub struct Replay {
    world: World,
    /// The records that must come next, because they follow from the last step.
    expected: VecDeque<Body>,
    /// The height of the record that caused the last step.
    caused_at: Height,
}

/// Why a replay cannot continue. The record that is named was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// If it is [`LoadError::Missing`]: fetch the object and apply the same record again.
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("the journal is broken at height {height}: {why}")]
    Broken { height: Height, why: String },
    #[error("replay differs from the journal at height {height}: recorded {recorded:?}, produced {produced:?}")]
    Diverged { height: Height, recorded: Box<Body>, produced: Option<Box<Body>> },
    #[error("the records end at height {0}, in the middle of what follows from a step")]
    MidStep(Height),
}

impl Coded for ReplayError {
    fn code(&self) -> Code {
        match self {
            Self::Load(error) => error.code(),
            Self::Manifest(error) => error.code(),
            Self::Broken { .. } | Self::MidStep(_) => Code::JournalBroken,
            Self::Diverged { .. } => Code::ReplayDiverged,
        }
    }
}

impl Replay {
    /// From the first record of a world.
    pub fn from_genesis(objects: &dyn Objects, registry: Arc<Registry>, first: &[u8]) -> Result<Self, ReplayError> {
        let record = read(Height::GENESIS, first)?;
        let Body::Genesis(genesis) = record.body else {
            return Err(broken(record.height, "the first record is no genesis"));
        };
        let (world, bytes) = World::create(objects, registry, genesis)?;
        if bytes != first {
            return Err(broken(record.height, "the first record does not begin a journal"));
        }
        Ok(Self::from_world(world))
    }

    /// From a world that was restored from a snapshot: the records from its height on follow.
    pub fn from_world(world: World) -> Self {
        let caused_at = world.head();
        Self { world, expected: VecDeque::new(), caused_at }
    }

    /// The height of the record that comes next.
    pub fn head(&self) -> Height {
        self.world.head()
    }

    /// Applies records until they end or a height is reached; says how many.
    pub fn run(
        &mut self,
        objects: &dyn Objects,
        records: impl IntoIterator<Item = impl AsRef<[u8]>>,
        until: Option<Height>,
    ) -> Result<u64, ReplayError> {
        let mut applied = 0;
        for record in records {
            if until.is_some_and(|until| self.head() >= until) {
                break;
            }
            self.apply(objects, record.as_ref())?;
            applied += 1;
        }
        Ok(applied)
    }

    /// Applies one record, or leaves the world as it was.
    pub fn apply(&mut self, objects: &dyn Objects, bytes: &[u8]) -> Result<(), ReplayError> {
        self.world.state.cells.settle(objects)?;
        let before = self.world.state.savepoint();
        let applied = self.follow(objects, bytes);
        match applied {
            Ok(()) => self.world.state.keep(),
            Err(_) => self.world.state.undo_to(before),
        }
        applied
    }

    /// The world at the height that was reached. In the middle of what follows from a step there is none
    /// that a journal could continue from.
    pub fn finish(self) -> Result<World, ReplayError> {
        if self.expected.is_empty() { Ok(self.world) } else { Err(ReplayError::MidStep(self.head())) }
    }

    /// Whether records are missing that follow from the last step.
    pub fn is_mid_step(&self) -> bool {
        !self.expected.is_empty()
    }

    /// In the middle of what follows from a step: the heights before its first record and after its last one.
    pub fn step_around(&self) -> Option<(Height, Height)> {
        let missing = self.expected.len() as u64;
        (missing > 0).then(|| (self.caused_at, Height::new(self.head().get() + missing)))
    }

    /// The world as it is, also in the middle of what follows from a step: then the step is done, and only
    /// its records are missing.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The snapshot of the world at the height that was reached. What it is made of is taken to be stored, if `stored` says
    /// that the snapshot is: a replay of a long history keeps nothing twice.
    pub fn snapshot(
        &mut self,
        objects: &dyn Objects,
        stored: impl FnOnce(&TakenSnapshot) -> bool,
    ) -> Result<TakenSnapshot, LoadError> {
        let taken = self.world.snapshot(objects)?;
        if stored(&taken) {
            self.world.saved(&taken);
        }
        Ok(taken)
    }

    fn follow(&mut self, objects: &dyn Objects, bytes: &[u8]) -> Result<(), ReplayError> {
        let height = self.head();
        let record = read(height, bytes)?;
        if record.height != height {
            return Err(broken(height, format!("a record says that it stands at {}", record.height)));
        }
        if record.prev != self.world.chain() {
            return Err(broken(height, format!("it follows {}, not {}", record.prev, self.world.chain())));
        }
        if let Some(produced) = self.expected.front() {
            if essence(produced) != essence(&record.body) || !same_height(produced, &record.body) {
                let produced = Some(Box::new(produced.clone()));
                return Err(ReplayError::Diverged { height, recorded: Box::new(record.body), produced });
            }
            self.world.state.advance(Hash::of(bytes));
            self.expected.pop_front();
            return Ok(());
        }
        self.follow_cause(objects, height, record.body, Hash::of(bytes))
    }

    /// A record that follows from nothing before it.
    fn follow_cause(
        &mut self,
        objects: &dyn Objects,
        height: Height,
        body: Body,
        hash: Hash,
    ) -> Result<(), ReplayError> {
        match body {
            Body::Ingress(ingress) => {
                self.world.state.advance(hash);
                let outcome = take_in(&mut self.world, objects, height, &ingress, Stamped::Now)?;
                (self.expected, self.caused_at) = (outcome.outputs.into(), height);
                return Ok(());
            }
            Body::Rejected(rejected) if self.world.state.expects(rejected.seq) => {
                self.world.state.pass(rejected.seq);
            }
            Body::Rejected(_) => return Err(broken(height, "it rejects an inbox item that was taken before")),
            Body::OutcomeDigest(digest) if digest == self.world.digest() => {}
            Body::OutcomeDigest(_) => {
                let produced = Some(Box::new(Body::OutcomeDigest(self.world.digest())));
                return Err(ReplayError::Diverged { height, recorded: Box::new(body), produced });
            }
            Body::Snapshot(note) | Body::BaselineSnapshot(note) => {
                self.world.state.check_note(&note).map_err(|why| broken(height, why))?;
            }
            Body::Custom(_) => {}
            Body::RecordingEnded(_) if self.world.confined().is_some() => {
                return Err(broken(height, "it ends a recording that the fork's policy does not end"));
            }
            Body::RecordingEnded(_) if self.world.state.position.recording.is_some() => {
                self.world.state.position.recording = None;
            }
            Body::RecordingEnded(_) => return Err(broken(height, "it ends a recording that there is not")),
            Body::Held(held) if !self.world.state.position.paused => {
                let failed = held.failed.map(|failed| failed.seq);
                if failed.is_some_and(|seq| !self.world.state.expects(seq)) {
                    return Err(broken(height, "it holds the world at an inbox item that was taken before"));
                }
                self.world.state.hold(height, failed);
            }
            Body::Held(_) => return Err(broken(height, "it pauses a world that is paused")),
            Body::ForkGenesis(genesis) => self.branch(objects, height, &genesis)?,
            Body::Genesis(genesis) => self.begin(height, &genesis)?,
            other => return Err(ReplayError::Diverged { height, recorded: Box::new(other), produced: None }),
        }
        self.world.state.advance(hash);
        Ok(())
    }

    /// The first record of a world that was restored from the snapshot before it.
    fn begin(&self, height: Height, genesis: &Genesis) -> Result<(), ReplayError> {
        let state = &self.world.state;
        let says = (genesis.universe, genesis.world, genesis.manifest, genesis.now_ns);
        let is = (self.world.universe(), self.world.id(), state.active.manifest.hash, state.position.logical_now_ns);
        match height {
            Height::GENESIS if says == is => Ok(()),
            Height::GENESIS => Err(broken(height, "the genesis does not follow from the snapshot before it")),
            _ => Err(broken(height, "a second genesis")),
        }
    }

    /// The first record of a fork: it follows the child's snapshot, or the parent's records, which then
    /// give that snapshot.
    fn branch(&mut self, objects: &dyn Objects, height: Height, genesis: &ForkGenesis) -> Result<(), ReplayError> {
        let taken = self.world.snapshot(objects)?;
        let (mut snapshot, mut hash) = (None, taken.note.snapshot);
        // A world that arrived from elsewhere may be a branch of itself: then its snapshot tells the two apart.
        if self.world.id() == genesis.parent && hash != genesis.snapshot {
            let parent = KernelSnapshot::from_bytes(&taken.bytes).map_err(|error| broken(height, error.to_string()))?;
            let child = branch(&parent, genesis.universe, ForkRequest::of(genesis));
            let child = child.map_err(|error| broken(height, error.to_string()))?;
            if child.genesis.parent_snapshot != genesis.parent_snapshot {
                return Err(broken(height, "it was forked from another snapshot than its parent's records give"));
            }
            (snapshot, hash) = (Some(child.snapshot), child.note.snapshot);
        }
        let universe = if snapshot.is_some() { genesis.universe } else { self.world.universe() };
        if hash != genesis.snapshot || genesis.forked_at != height || genesis.universe != universe {
            return Err(broken(height, "the fork does not begin with the snapshot that its genesis names"));
        }
        if let Some(snapshot) = snapshot {
            self.world.state.become_child(snapshot);
        }
        let state = &mut self.world.state;
        state.position.logical_now_ns = state.logical_time(genesis.now_ns, 0);
        Ok(())
    }
}

/// Whether a failure is told at the same height, as far as it is: records of before told none.
fn same_height(produced: &Body, recorded: &Body) -> bool {
    let height = |body: &Body| match body {
        Body::Reply(Reply { outcome: ReplyOutcome::Failed(_, _, height), .. }) => *height,
        _ => None,
    };
    height(recorded).is_none() || height(recorded) == height(produced)
}

/// Whether the stamps of a record were made under the manifest that holds now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamped {
    Now,
    /// The record was stamped under another manifest, on purpose.
    Elsewhere,
}

/// Runs the step of a recorded ingress.
pub(crate) fn take_in(
    world: &mut World,
    objects: &dyn Objects,
    height: Height,
    ingress: &Ingress,
    stamped: Stamped,
) -> Result<Outcome, ReplayError> {
    let state = &mut world.state;
    let prepared = match state.skips(ingress.seq) {
        true => Ok(Prepared::skipped()),
        false => admit::prepare(state, &world.registry, objects, &ingress.item),
    };
    let prepared = prepared.map_err(|error| match error {
        AdmitError::Load(error) => ReplayError::Load(error),
        AdmitError::Rejected(rejection) if rejection.code == Code::ProgramUnknown => broken(height, rejection.reason),
        AdmitError::Rejected(rejection) => broken(height, format!("it could not enter: {}", rejection.reason)),
    })?;
    if stamped == Stamped::Now {
        check_stamps(state, ingress, prepared.not_before_ns).map_err(|why| broken(height, why))?;
    }
    state.pass(ingress.seq);
    Ok(step::step(state, objects, height, ingress, prepared, limits::SCHEMA_REPLAY_WORK_MAX)?)
}

fn check_stamps(state: &State, ingress: &Ingress, not_before_ns: u64) -> Result<(), String> {
    let stamps = &ingress.stamps;
    if stamps.manifest != state.active.manifest.hash {
        return Err(format!("it was stamped under manifest {}, not {}", stamps.manifest, state.active.manifest.hash));
    }
    let expected = state.logical_time(stamps.now_ns, not_before_ns);
    if stamps.logical_now_ns != expected {
        return Err(format!("its logical time is {}, not {expected}", stamps.logical_now_ns));
    }
    if ingress.event_hash.is_some() && ingress.event_hash != ingress.item.input.event_hash() {
        return Err("its event hash is not that of its event".to_owned());
    }
    if let Some(max) = stamps.schema_work_max.filter(|max| *max > limits::SCHEMA_REPLAY_WORK_MAX) {
        return Err(format!("its checks had {max} steps, more than any may have"));
    }
    if !state.expects(ingress.seq) {
        return Err(format!("the inbox item {} was taken before", ingress.seq));
    }
    Ok(())
}

pub(crate) fn read(height: Height, bytes: &[u8]) -> Result<Record, ReplayError> {
    cbor::decode(bytes).map_err(|error| broken(height, error.to_string()))
}

pub(crate) fn broken(height: Height, why: impl Into<String>) -> ReplayError {
    ReplayError::Broken { height, why: why.into() }
}
