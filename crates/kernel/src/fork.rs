//! Forks: a branch of a world's history, made by rewriting a snapshot.
//!
//! A pure function of the parent's snapshot: it costs what the open intents cost, whatever the size of the
//! state and of the history. Everything that names the parent to the outside is renamed, so that no effect
//! of a branch is ever taken for its parent's.

use crate::{
    intents::{OpenIntent, intent_hash},
    manifest::EffectPolicies,
    snapshot::KernelSnapshot,
    state::Recording,
    turn::{Publish, PublishTimer, Recorded},
};
use mundi_model::{
    Code, Coded, Hash, UniverseId, WorldId,
    mutants::{Mutant, planted},
    record::{Body, EffectPolicy, ForkGenesis, Record, SnapshotNote},
};
use std::sync::Arc;

/// What branch is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkRequest {
    pub child: WorldId,
    pub policy: EffectPolicy,
    pub now_ns: u64,
}

/// A branch: what its creation makes durable. The child is restored from its note and then replays its
/// first record.
#[derive(Debug, Clone)]
pub struct Fork {
    pub snapshot: KernelSnapshot,
    pub bytes: Arc<[u8]>,
    pub note: SnapshotNote,
    /// The child's first record, at the height of the fork, chained to the parent's last one below it.
    pub genesis: ForkGenesis,
    pub record: Vec<u8>,
    pub publish: Vec<Publish>,
    pub timers: Vec<PublishTimer>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    #[error("the world {0} cannot be a fork of itself")]
    SameWorld(WorldId),
}

impl Coded for ForkError {
    fn code(&self) -> Code {
        Code::ForkInvalid
    }
}

/// The branch of a snapshot, in its universe.
pub fn fork(parent: &KernelSnapshot, request: ForkRequest) -> Result<Fork, ForkError> {
    fork_in(parent, parent.position.universe, request)
}

/// The branch of a snapshot of a world that may have come to this universe after the snapshot was taken.
pub fn fork_in(parent: &KernelSnapshot, universe: UniverseId, request: ForkRequest) -> Result<Fork, ForkError> {
    if request.child == parent.world() {
        return Err(ForkError::SameWorld(request.child));
    }
    Ok(branch(parent, universe, request))
}

/// A world that arrives in a universe from outside, under its own id or another. It is a branch of what left: its history
/// stays byte for byte what it was, and its inbox, whose places mean nothing here, begins empty.
pub fn arrive(parent: &KernelSnapshot, universe: UniverseId, request: ForkRequest) -> Fork {
    branch(parent, universe, request)
}

pub(crate) fn branch(parent: &KernelSnapshot, universe: UniverseId, request: ForkRequest) -> Fork {
    let snapshot = rewrite(parent, universe, request);
    let bytes: Arc<[u8]> = snapshot.to_bytes().into();
    let note = snapshot.note(Hash::of(&bytes));
    let genesis = ForkGenesis {
        universe,
        world: request.child,
        parent: parent.world(),
        forked_at: parent.height(),
        parent_snapshot: Hash::of(&parent.to_bytes()),
        snapshot: note.snapshot,
        policy: request.policy,
        now_ns: request.now_ns,
        manifest: None,
    };
    let body = Body::ForkGenesis(genesis.clone());
    let (record, _) = Record { height: parent.height(), prev: parent.position.chain, body }.seal();
    let manifest = snapshot.manifest;
    // A pure function has no manifest at hand: the caller looks the policies up.
    let policies = EffectPolicies::default();
    let recorded = request.policy == EffectPolicy::Recorded;
    let publish = |intent: &OpenIntent| {
        let ancestor = intent_hash(parent.world(), intent.place, &intent.kind, &intent.params);
        let recorded = recorded.then_some(Recorded::Open(ancestor));
        Publish { intent: intent.clone(), manifest, policies, recorded }
    };
    let publish = snapshot.intents.iter().map(publish).collect();
    let timer = |timer: &OpenIntent| Some(PublishTimer { timer: timer.hash, set: timer.timer()? });
    let timers = snapshot.timers.iter().filter_map(timer).collect();
    Fork { snapshot, bytes, note, genesis, record, publish, timers }
}

fn rewrite(parent: &KernelSnapshot, universe: UniverseId, request: ForkRequest) -> KernelSnapshot {
    let mut child = parent.clone();
    child.position.universe = universe;
    child.position.world = request.child;
    // The child's inbox is its own, and begins empty.
    child.position.last_seq = None;
    child.taken_ahead = Vec::new();
    // What its parent is held at does not wait for it.
    child.position.paused &= child.position.held.is_none();
    child.position.held = None;
    child.position.skip = None;
    // Receipts of the parent mean nothing here, not even that they came too late.
    child.position.closed_count = 0;
    child.closed = Vec::new();
    child.position.recording = match request.policy {
        EffectPolicy::Recorded => Some(Recording { parent: parent.world(), since: parent.height(), asked: 0 }),
        EffectPolicy::Suppress | EffectPolicy::Live => None,
    };
    if request.policy == EffectPolicy::Suppress && !planted(Mutant::ForkRepeats) {
        child.intents = Vec::new();
    }
    rename(&mut child.intents, request.child);
    // Timers are the world's own clock and touch nothing outside: they run on in every branch.
    rename(&mut child.timers, request.child);
    child.with_roots()
}

fn rename(intents: &mut [OpenIntent], child: WorldId) {
    for intent in &mut *intents {
        intent.hash = intent_hash(child, intent.place, &intent.kind, &intent.params);
    }
    intents.sort_by_key(|intent| intent.hash);
}
