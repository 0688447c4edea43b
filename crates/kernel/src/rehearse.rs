//! Rehearsal of an upgrade: what would have come out if another manifest had held.
//!
//! The recorded history runs twice in step, under its own manifest and under the candidate's, up to the
//! first record from which something else follows. After that the two histories have nothing to compare.

use crate::{
    admit::Upgrade,
    fork::{ForkRequest, branch},
    manifest::ManifestError,
    objects::Objects,
    registry::Registry,
    replay::{ReplayError, Stamped, broken, read, take_in},
    snapshot::{KernelSnapshot, SnapshotError},
    state::{Active, State},
    step::{Outcome, essence},
    world::World,
};
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, cbor,
    record::{
        Body, ForkGenesis, InboxItem, Ingress, Input, Origin, Payload, Reply, ReplyOutcome, SnapshotNote, Stamps,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// The parts that must be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Cells and outputs.
    Everything,
    /// Intents, cancels, replies and failures: for a program that keeps its cells in another form.
    Outputs,
}

/// The consequences of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    pub outputs: Vec<Body>,
    /// The cells that were written, with what they hold after the step.
    pub cells: BTreeMap<String, Option<Vec<u8>>>,
}

/// The first record from which something else follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    pub height: Height,
    pub record: Box<Ingress>,
    pub recorded: Followed,
    /// Nothing: under the candidate the record could not even have entered, and the reason.
    pub candidate: Result<Followed, String>,
}

/// The result of a rehearsal: how many records were compared, and where it ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    pub records: u64,
    pub divergence: Option<Divergence>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RehearseError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

impl Coded for RehearseError {
    fn code(&self) -> Code {
        match self {
            Self::Snapshot(error) => error.code(),
            Self::Manifest(error) => error.code(),
            Self::Replay(error) => error.code(),
        }
    }
}

/// A layer of programs that decides itself, in the step of an upgrade, whether what it has open can go on under another program.
#[derive(Debug, Clone, Copy)]
pub struct Layer {
    /// How the keys of all its cells begin.
    pub cells: &'static str,
    /// How the keys of those begin by which it finds what it has open.
    pub open: &'static str,
}

/// Rehearses `candidate` against the records from a snapshot on.
pub fn rehearse(
    objects: &dyn Objects,
    registry: &Arc<Registry>,
    from: &SnapshotNote,
    candidate: Hash,
    compare: Compare,
    records: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Result<Rehearsal, RehearseError> {
    let mut rehearser = Rehearser::begin(objects, registry, from, candidate, compare)?;
    for bytes in records {
        if !rehearser.apply(objects, bytes.as_ref())? {
            break;
        }
    }
    Ok(rehearser.finish())
}

/// A rehearsal, record by record: memory is bounded by the world, not by its history.
pub struct Rehearser {
    recorded: World,
    rehearsed: World,
    compare: Compare,
    layer: Option<Layer>,
    result: Rehearsal,
}

impl Rehearser {
    pub fn begin(
        objects: &dyn Objects,
        registry: &Arc<Registry>,
        from: &SnapshotNote,
        candidate: Hash,
        compare: Compare,
    ) -> Result<Self, RehearseError> {
        let recorded = World::restore(objects, registry.clone(), from)?;
        let mut rehearsed = World::restore(objects, registry.clone(), from)?;
        let result = Rehearsal { records: 0, divergence: take_over(&mut rehearsed, objects, candidate)? };
        Ok(Self { recorded, rehearsed, compare, layer: None, result })
    }

    /// The same, beside a layer: a step that writes its cells runs as recorded and is not compared, because the layer judges what is open by
    /// its own record. A [`Trial`] at the head asks it.
    pub fn begin_beside(
        objects: &dyn Objects,
        registry: &Arc<Registry>,
        from: &SnapshotNote,
        (candidate, layer): (Hash, Layer),
        compare: Compare,
    ) -> Result<Self, RehearseError> {
        let recorded = World::restore(objects, registry.clone(), from)?;
        let mut rehearsed = World::restore(objects, registry.clone(), from)?;
        let cells = &mut rehearsed.state.cells;
        let mut hidden: Vec<(String, Vec<u8>)> = Vec::new();
        loop {
            let after = hidden.last().map(|(key, _)| key.as_str());
            let page = cells.scan(objects, layer.open, after, LAYER_PAGE_ITEMS).map_err(ReplayError::from)?;
            if page.is_empty() {
                break;
            }
            hidden.extend(page);
        }
        hidden.iter().for_each(|(key, _)| cells.delete(key));
        let result = Rehearsal { records: 0, divergence: take_over(&mut rehearsed, objects, candidate)? };
        hidden.into_iter().for_each(|(key, value)| rehearsed.state.cells.put(&key, value));
        rehearsed.state.keep();
        Ok(Self { recorded, rehearsed, compare, layer: Some(layer), result })
    }

    /// Compares what follows from one record; `false` once something else follows. An error leaves everything as it was.
    pub fn apply(&mut self, objects: &dyn Objects, bytes: &[u8]) -> Result<bool, RehearseError> {
        if self.result.divergence.is_some() {
            return Ok(false);
        }
        for world in [&mut self.recorded, &mut self.rehearsed] {
            world.state.cells.settle(objects).map_err(ReplayError::from)?;
        }
        let before = (self.recorded.state.savepoint(), self.rehearsed.state.savepoint());
        match self.follow(objects, bytes) {
            Ok(divergence) => {
                self.recorded.state.keep();
                self.rehearsed.state.keep();
                self.result.records += 1;
                self.result.divergence = divergence;
                Ok(self.result.divergence.is_none())
            }
            Err(error) => {
                self.recorded.state.undo_to(before.0);
                self.rehearsed.state.undo_to(before.1);
                Err(error)
            }
        }
    }

    pub fn finish(self) -> Rehearsal {
        self.result
    }

    fn follow(&mut self, objects: &dyn Objects, bytes: &[u8]) -> Result<Option<Divergence>, RehearseError> {
        let head = self.recorded.head();
        let record = read(head, bytes)?;
        if record.height != head {
            return Err(broken(head, format!("a record says that it stands at {}", record.height)).into());
        }
        let divergence = match record.body {
            Body::Ingress(ingress) => {
                let pair = [&mut self.recorded, &mut self.rehearsed];
                step_both(pair, objects, (record.height, ingress), self.compare, self.layer)?
            }
            Body::Rejected(rejected) => {
                self.recorded.state.pass(rejected.seq);
                self.rehearsed.state.pass(rejected.seq);
                None
            }
            Body::ForkGenesis(genesis) => {
                self.branch(objects, &genesis)?;
                None
            }
            // What is taken while it is held comes ahead of what waits.
            Body::Held(held) => {
                let failed = held.failed.map(|failed| failed.seq);
                self.recorded.state.hold(head, failed);
                self.rehearsed.state.hold(head, failed);
                None
            }
            _ => None,
        };
        self.recorded.state.position.height = record.height.next();
        Ok(divergence)
    }

    /// Both continue as the branch that the history became here, if they are not that branch already.
    fn branch(&mut self, objects: &dyn Objects, genesis: &ForkGenesis) -> Result<(), RehearseError> {
        let is_branch = self.recorded.snapshot(objects).map_err(ReplayError::from)?.note.snapshot == genesis.snapshot;
        for world in [&mut self.recorded, &mut self.rehearsed] {
            if !is_branch {
                let taken = world.snapshot(objects).map_err(ReplayError::from)?;
                let parent = KernelSnapshot::from_bytes(&taken.bytes)?;
                let child = branch(&parent, genesis.universe, ForkRequest::of(genesis));
                let child = child.map_err(|error| broken(genesis.forked_at, error.to_string()))?;
                world.state.become_child(child.snapshot);
            }
            world.state.position.logical_now_ns = world.state.logical_time(genesis.now_ns, 0);
        }
        Ok(())
    }
}

/// Cells of a layer that are read at a time.
const LAYER_PAGE_ITEMS: usize = 1_000;

/// A world at some height that nobody else sees, to try what another manifest would make of it.
pub struct Trial {
    world: World,
}

impl Trial {
    pub fn new(world: World) -> Self {
        Self { world }
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// The candidate takes over as in an upgrade at this height. If it cannot, it says why, and the old program stays.
    pub fn take_over(&mut self, objects: &dyn Objects, candidate: Hash) -> Result<Option<Divergence>, RehearseError> {
        self.world.state.cells.settle(objects).map_err(ReplayError::from)?;
        let before = self.world.state.savepoint();
        let taken = take_over(&mut self.world, objects, candidate);
        if taken.is_err() {
            self.world.state.undo_to(before);
        }
        taken
    }

    /// The candidate's reply to a message, whether or not it could take over; nothing of the step is kept. The outer error is no answer
    /// of the candidate; the inner one is the reason why its step failed.
    pub fn ask(
        &mut self,
        objects: &dyn Objects,
        candidate: Hash,
        inbox: &str,
        payload: &[u8],
    ) -> Result<Result<Option<Payload>, String>, RehearseError> {
        self.world.state.cells.settle(objects).map_err(ReplayError::from)?;
        let active = Active::load(objects, &self.world.registry, candidate)?;
        let before = self.world.state.savepoint();
        self.world.state.active = active;
        let payload = Payload::Inline(payload.to_vec());
        let input = Input::Message { inbox: inbox.to_owned(), payload, headers: BTreeMap::new() };
        let (height, ingress) = next_ingress(&self.world, input, true);
        let outcome = take_in(&mut self.world, objects, height, &ingress, Stamped::Elsewhere);
        self.world.state.undo_to(before);
        let outcome = outcome?;
        if let Some(failed) = outcome.failure() {
            return Ok(Err(failed.reason.clone()));
        }
        let reply = outcome.outputs.into_iter().find_map(|output| match output {
            Body::Reply(Reply { outcome: ReplyOutcome::Ok(payload), .. }) => Some(payload),
            _ => None,
        });
        Ok(Ok(reply))
    }
}

/// An input at the head, as it would be taken in now.
fn next_ingress(world: &World, input: Input, wants_reply: bool) -> (Height, Ingress) {
    let position = &world.state.position;
    let (height, logical_now_ns) = (position.height, position.logical_now_ns);
    let origin = Origin { wants_reply, ..Origin::new(logical_now_ns) };
    let manifest = world.state.active.manifest.hash;
    let stamps = Stamps { now_ns: logical_now_ns, logical_now_ns, entropy: [0; 16], manifest, schema_work_max: None };
    let seq = position.last_seq.unwrap_or(InboxSeq::from_bytes([0; InboxSeq::LEN]));
    (height, Ingress::new(stamps, seq, InboxItem { input, origin }))
}

/// The candidate takes over, as it would in an upgrade. If it cannot, that is the first divergence.
fn take_over(world: &mut World, objects: &dyn Objects, candidate: Hash) -> Result<Option<Divergence>, RehearseError> {
    Active::load(objects, &world.registry, candidate)?;
    let payload = Payload::Inline(cbor::encode(&Upgrade { manifest: candidate, forced: false }));
    let (height, ingress) = next_ingress(world, Input::Control { command: "upgrade".to_owned(), payload }, false);
    let outcome = take_in(world, objects, height, &ingress, Stamped::Elsewhere)?;
    let failed = outcome.outputs.iter().any(|output| matches!(output, Body::StepFailed(_)));
    let candidate = Followed::of(&world.state, &outcome);
    world.state.keep();
    let recorded = Followed { outputs: Vec::new(), cells: BTreeMap::new() };
    Ok(failed.then(|| Divergence { height, record: Box::new(ingress), recorded, candidate: Ok(candidate) }))
}

fn step_both(
    [recorded, rehearsed]: [&mut World; 2],
    objects: &dyn Objects,
    (height, ingress): (Height, Ingress),
    compare: Compare,
    layer: Option<Layer>,
) -> Result<Option<Divergence>, ReplayError> {
    let outcome = take_in(recorded, objects, height, &ingress, Stamped::Now)?;
    let expected = Followed::of(&recorded.state, &outcome);
    if matches!(&ingress.item.input, Input::Control { command, .. } if command == "upgrade") {
        // Under the candidate this upgrade has happened already.
        rehearsed.state.pass(ingress.seq);
        rehearsed.state.position.logical_now_ns = ingress.stamps.logical_now_ns;
        return Ok(None);
    }
    if layer.is_some_and(|layer| expected.cells.keys().any(|key| key.starts_with(layer.cells))) {
        as_recorded([recorded, rehearsed], objects, height, &ingress)?;
        return Ok(None);
    }
    let found = match take_in(rehearsed, objects, height, &ingress, Stamped::Elsewhere) {
        Ok(outcome) => Ok(Followed::of(&rehearsed.state, &outcome)),
        Err(ReplayError::Broken { why, .. }) => Err(why),
        Err(error) => return Err(error),
    };
    let same = match (&found, compare) {
        (Ok(found), Compare::Everything) => *found == expected,
        (Ok(found), Compare::Outputs) => found.outputs == expected.outputs,
        (Err(_), _) => false,
    };
    let record = Box::new(ingress);
    Ok((!same).then_some(Divergence { height, record, recorded: expected, candidate: found }))
}

/// A step of a layer: the program on record runs it, also in the world under the candidate. What it comes to is not compared.
fn as_recorded(
    [recorded, rehearsed]: [&mut World; 2],
    objects: &dyn Objects,
    height: Height,
    ingress: &Ingress,
) -> Result<(), ReplayError> {
    let candidate = std::mem::replace(&mut rehearsed.state.active, recorded.state.active.clone());
    match take_in(rehearsed, objects, height, ingress, Stamped::Elsewhere) {
        Ok(_) => {}
        // Another step made it so: the layer is asked at the head.
        Err(ReplayError::Broken { .. }) => {
            rehearsed.state.pass(ingress.seq);
            rehearsed.state.position.logical_now_ns = ingress.stamps.logical_now_ns;
        }
        Err(error) => return Err(error),
    }
    rehearsed.state.active = candidate;
    Ok(())
}

impl Followed {
    fn of(state: &State, outcome: &Outcome) -> Self {
        let cells = state.cells.written_since(outcome.cells);
        let cells = cells.map(|(key, value)| (key.to_owned(), value.map(<[u8]>::to_vec)));
        Self {
            outputs: outcome.outputs.iter().map(|output| essence(output).into_owned()).collect(),
            cells: cells.collect(),
        }
    }
}
