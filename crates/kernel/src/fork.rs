//! Forks: a branch of a world's history, made by rewriting a snapshot.
//!
//! A pure function of the parent's snapshot: it costs what the open intents cost, whatever the size of the
//! state and of the history. Everything that names the parent to the outside is renamed, so that no effect
//! of a branch is ever taken for its parent's.

use crate::{
    intents::{OpenIntent, intent_hash},
    manifest::EffectPolicies,
    snapshot::KernelSnapshot,
    state::{Confined, Position, Recording},
    turn::{Publish, PublishTimer, Recorded},
};
use mundi_model::{
    Code, Coded, Hash, UniverseId, WorldId,
    record::{Body, EffectPolicy, ForkGenesis, Record, SnapshotNote},
};
use std::sync::Arc;

/// The branch that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkRequest {
    pub child: WorldId,
    pub policy: EffectPolicy,
    /// Of a sandbox: the object with its scripted answers.
    pub answers: Option<Hash>,
    pub now_ns: u64,
}

impl ForkRequest {
    pub fn new(child: WorldId, policy: EffectPolicy, now_ns: u64) -> Self {
        Self { child, policy, answers: None, now_ns }
    }

    /// The request that a fork's first record states.
    pub(crate) fn of(genesis: &ForkGenesis) -> Self {
        let ForkGenesis { world, policy, answers, now_ns, .. } = *genesis;
        Self { child: world, policy, answers, now_ns }
    }
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
    #[error("the world {0} is a sandbox, and so is every fork of it: it can be given no other policy")]
    Sandboxed(WorldId),
    #[error("the world {0} has no policy that could be kept")]
    NothingToKeep(WorldId),
    #[error("only a sandbox has scripted answers")]
    AnswersUnused,
}

impl Coded for ForkError {
    fn code(&self) -> Code {
        match self {
            Self::SameWorld(_) | Self::NothingToKeep(_) => Code::ForkInvalid,
            Self::Sandboxed(_) => Code::ForkSandboxed,
            Self::AnswersUnused => Code::AnswersInvalid,
        }
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
    branch(parent, universe, request)
}

/// A world that arrives in a universe from outside, under its own id or another. It is a branch of what left: its history
/// stays byte for byte what it was, and its inbox, whose places mean nothing here, begins empty. What must not leave it must not
/// leave it here either, whatever the request says.
pub fn arrive(parent: &KernelSnapshot, universe: UniverseId, request: ForkRequest) -> Result<Fork, ForkError> {
    let policy = if parent.confined().is_some() { EffectPolicy::Kept } else { request.policy };
    branch(parent, universe, ForkRequest { policy, ..request })
}

pub(crate) fn branch(parent: &KernelSnapshot, universe: UniverseId, request: ForkRequest) -> Result<Fork, ForkError> {
    check(parent, request)?;
    let snapshot = rewrite(parent, universe, request);
    let genesis = ForkGenesis {
        universe,
        world: request.child,
        parent: parent.world(),
        forked_at: parent.height(),
        parent_snapshot: Hash::of(&parent.to_bytes()),
        snapshot: Hash::of(&snapshot.to_bytes()),
        policy: request.policy,
        now_ns: request.now_ns,
        manifest: None,
        answers: request.answers,
        told: None,
    };
    Ok(Fork::on_record(snapshot, genesis))
}

impl Fork {
    /// From what a branch has on record: its first snapshot, and its first record or the one by which it arrived.
    pub fn on_record(snapshot: KernelSnapshot, genesis: ForkGenesis) -> Self {
        let bytes: Arc<[u8]> = snapshot.to_bytes().into();
        let note = snapshot.note(genesis.snapshot);
        let body = Body::ForkGenesis(genesis.clone());
        let (record, _) = Record { height: genesis.forked_at, prev: snapshot.position.chain, body }.seal();
        use EffectPolicy::{Recorded as Strict, RecordedThenLive, Sandbox};
        let recorded = matches!(genesis.policy, Strict | RecordedThenLive | Sandbox);
        // A pure function has no manifest at hand: the caller looks the policies up.
        let (manifest, policies) = (snapshot.manifest, EffectPolicies::default());
        let publish = |intent: &OpenIntent| {
            let ancestor = intent_hash(genesis.parent, intent.place, &intent.kind, &intent.params);
            let recorded = recorded.then_some(Recorded::Open(ancestor));
            Publish { intent: intent.clone(), manifest, policies, recorded }
        };
        let publish = snapshot.intents.iter().map(publish).collect();
        let timer = |timer: &OpenIntent| Some(PublishTimer { timer: timer.hash, set: timer.timer()? });
        let timers = snapshot.timers.iter().filter_map(timer).collect();
        Self { snapshot, bytes, note, genesis, record, publish, timers }
    }
}

/// A sandbox has no door: neither a fork nor a journey leads out of it.
fn check(parent: &KernelSnapshot, request: ForkRequest) -> Result<(), ForkError> {
    use EffectPolicy::{Kept, Sandbox};
    match (parent.confined(), request.policy) {
        (Some(Confined::Sandbox { .. }), policy) if !matches!(policy, Sandbox | Kept) => {
            Err(ForkError::Sandboxed(parent.world()))
        }
        (None, Kept) => Err(ForkError::NothingToKeep(parent.world())),
        (_, policy) if policy != Sandbox && request.answers.is_some() => Err(ForkError::AnswersUnused),
        _ => Ok(()),
    }
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
    confine(&mut child.position, parent, request);
    if request.policy == EffectPolicy::Dropped {
        child.intents = Vec::new();
    }
    rename(&mut child.intents, request.child);
    // Timers are the world's own clock and touch nothing outside: they run on in every branch.
    rename(&mut child.timers, request.child);
    child.with_roots()
}

/// Confines its effects from now on.
fn confine(child: &mut Position, parent: &KernelSnapshot, request: ForkRequest) {
    use EffectPolicy::{Dropped, Kept, Live, Recorded, RecordedThenLive, Sandbox, Suppress};
    let recording = Some(Recording { parent: parent.world(), since: parent.height(), asked: 0 });
    let policy = Some(request.policy);
    (child.recording, child.policy, child.answers) = match request.policy {
        Kept => return,
        Dropped | Live => (None, None, None),
        Suppress => (None, policy, None),
        RecordedThenLive => (recording, None, None),
        Recorded => (recording, policy, None),
        Sandbox => (recording, policy, request.answers),
    };
}

fn rename(intents: &mut [OpenIntent], child: WorldId) {
    for intent in &mut *intents {
        intent.hash = intent_hash(child, intent.place, &intent.kind, &intent.params);
    }
    intents.sort_by_key(|intent| intent.hash);
}
