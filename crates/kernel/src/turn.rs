//! Turns: inbox items in, records and everything to be published out.

use crate::{
    admit::{self, AdmitError, Prepared, Rejection},
    intents::{OpenIntent, TimerSet},
    manifest::{EffectPolicies, OnFailure},
    meter::LogLine,
    objects::{LoadError, Object, Objects},
    schema::Work,
    snapshot::SnapshotError,
    state::{Confined, Recording, Savepoint},
    step::{self, CALL_SCHEMA_STEPS, Outcome, bounded},
    world::World,
};
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, IntentHash, cbor, limits,
    mutants::{Mutant, planted},
    pool::AuthorityChange,
    record::{
        Body, FailedInput, Held, InboxItem, Ingress, Input, Rejected, Reply, ReplyOutcome, Sealed, Stamps, StepFailed,
    },
};
use std::sync::Arc;

/// An inbox item as it reaches a turn, with what is stamped on its record.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub seq: InboxSeq,
    pub item: Arrived,
    /// The worker's clock.
    pub now_ns: u64,
    /// The seed of the step's random numbers.
    pub entropy: [u8; 16],
}

#[derive(Debug, Clone)]
pub enum Arrived {
    Item(Arc<InboxItem>),
    /// The host could not make an item of it, or not load what it refers to: it will be rejected.
    Unusable {
        item: Hash,
        code: Code,
        reason: String,
    },
}

impl Arrived {
    /// An item from its stored bytes, whatever they are.
    pub fn read(bytes: &[u8]) -> Self {
        match cbor::decode(bytes) {
            Ok(item) => Self::Item(Arc::new(item)),
            Err(error) => Self::Unusable { item: Hash::of(bytes), code: error.code(), reason: error.to_string() },
        }
    }
}

/// When a turn ends although items are left. At least one item is taken in any case.
#[derive(Debug, Clone, Copy)]
pub struct TurnBudget {
    pub records_max: usize,
    pub bytes_max: usize,
    /// Host calls of all steps together; 64 bytes that pass through the host, or 64 steps of a schema check, count as a call.
    /// The check of an item that is rejected counts, too.
    pub calls_max: u64,
    /// Effects and timers to be published.
    pub effects_max: usize,
}

impl Default for TurnBudget {
    /// A quarter of a transaction: what one more step may add still fits.
    fn default() -> Self {
        Self {
            records_max: 10_000,
            bytes_max: limits::TRANSACTION_BYTES_MAX / 4,
            calls_max: limits::STEP_CALLS_MAX,
            effects_max: limits::TURN_INTENTS_MAX / 2,
        }
    }
}

/// An intent to be published, with what the runtime needs to do so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    pub intent: OpenIntent,
    /// The manifest whose policies hold for it.
    pub manifest: Hash,
    pub policies: EffectPolicies,
    /// In a fork that is answered from its parent's receipts: which of the parent's intents it is compared with.
    pub recorded: Option<Recorded>,
}

/// An intent of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It was open when the fork was made.
    Open(IntentHash),
    /// The parent asked for it after the fork, so many intents later.
    Nth(u64),
}

/// A timer to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishTimer {
    pub timer: IntentHash,
    pub set: TimerSet,
}

/// The changes that one transaction makes durable. The objects are stored before it.
#[derive(Debug, Clone, Default)]
pub struct TurnOutput {
    /// How many of the items the cursor passes.
    pub consumed: usize,
    /// Records from the old head on.
    pub records: Vec<Sealed>,
    pub publish: Vec<Publish>,
    pub timers: Vec<PublishTimer>,
    /// Intents and timers that were published by an earlier turn and are withdrawn.
    pub cancels: Vec<IntentHash>,
    /// Answers for callers, among them those whose items were rejected.
    pub replies: Vec<Reply>,
    pub objects: Vec<Object>,
    /// The lines that the steps logged, each with the height of the record whose step it was.
    pub logs: Vec<(Height, LogLine)>,
    /// Of a pool: leases that became active or ceased to be, in order. A replay publishes none.
    pub authorities: Vec<AuthorityChange>,
}

/// Why a turn could not be taken. The world is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// If it is [`LoadError::Missing`]: fetch the object and take the same turn again.
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the inbox item {0} is not after the one taken last")]
    OutOfOrder(InboxSeq),
    #[error("the snapshot note does not agree with the journal: {0}")]
    WrongNote(String),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

impl Coded for TurnError {
    fn code(&self) -> Code {
        match self {
            Self::Load(error) => error.code(),
            Self::OutOfOrder(_) | Self::WrongNote(_) => Code::TurnInvalid,
            Self::Snapshot(error) => error.code(),
        }
    }
}

/// A turn that was taken and is not yet durable. Dropping it undoes it.
pub struct Turn<'w> {
    world: &'w mut World,
    /// Gone once the turn is kept.
    before: Option<Savepoint>,
    output: TurnOutput,
    bytes: usize,
    calls: u64,
    /// The item at which the world is held from this turn on.
    held_at: Option<InboxSeq>,
}

impl<'w> Turn<'w> {
    pub(crate) fn begin(world: &'w mut World) -> Self {
        let before = Some(world.state.savepoint());
        Self { world, before, output: TurnOutput::default(), bytes: 0, calls: 0, held_at: None }
    }

    pub fn output(&self) -> &TurnOutput {
        &self.output
    }

    /// The head after this turn.
    pub fn head(&self) -> Height {
        self.world.head()
    }

    pub fn chain(&self) -> Hash {
        self.world.chain()
    }

    pub fn is_paused(&self) -> bool {
        self.world.is_paused()
    }

    /// The parent whose receipts answer this fork, with what was asked in this turn counted.
    pub fn recording(&self) -> Option<Recording> {
        self.world.recording()
    }

    pub fn confined(&self) -> Option<Confined> {
        self.world.confined()
    }

    /// The parent did not ask for this intent: from here on the fork is answered by nobody but the outside.
    pub fn end_recording(&mut self, intent: IntentHash) {
        self.append(Body::RecordingEnded(intent));
        self.world.state.position.recording = None;
    }

    /// The inbox item at which the world is held from this turn on, because its step failed.
    pub fn held_at(&self) -> Option<InboxSeq> {
        self.held_at
    }

    /// The world is paused from here.
    pub(crate) fn hold(&mut self, held: Held) {
        let (height, failed) = (self.world.head(), held.failed.as_ref().map(|failed| failed.seq));
        self.append(Body::Held(Held { reason: bounded(&held.reason), ..held }));
        self.world.state.hold(height, failed);
    }

    /// Takes the records out of the output, for the transaction that is to hold them.
    pub fn take_records(&mut self) -> Vec<Sealed> {
        std::mem::take(&mut self.output.records)
    }

    /// The transaction that holds the output is committed.
    pub fn keep(mut self) -> TurnOutput {
        self.before = None;
        self.world.state.keep();
        std::mem::take(&mut self.output)
    }

    pub(crate) fn take(
        &mut self,
        objects: &dyn Objects,
        arrivals: &[Arrival],
        budget: TurnBudget,
    ) -> Result<(), TurnError> {
        // False once an item was passed over because the world is paused.
        let mut in_order = true;
        for arrival in arrivals {
            let state = &self.world.state;
            if self.is_full(budget) {
                break;
            }
            if state.taken_ahead.map().contains_key(&arrival.seq) {
                self.output.consumed += usize::from(in_order);
                continue;
            }
            if !state.expects(arrival.seq) {
                return Err(TurnError::OutOfOrder(arrival.seq));
            }
            if !state.position.paused && !in_order {
                break; // resumed: what was passed over comes first, in the next turn
            }
            let comes_ahead = matches!(&arrival.item, Arrived::Item(item) if state.takes_ahead(item));
            if state.position.paused && !comes_ahead {
                in_order = false;
                continue;
            }
            self.take_one(objects, arrival)?;
            in_order &= self.held_at != Some(arrival.seq) || planted(Mutant::HeldConsumed);
            self.output.consumed += usize::from(in_order);
        }
        Ok(())
    }

    fn is_full(&self, budget: TurnBudget) -> bool {
        self.output.records.len() >= budget.records_max
            || self.bytes >= budget.bytes_max
            || self.calls >= budget.calls_max
            || self.output.publish.len() + self.output.timers.len() >= budget.effects_max
            || self.world.written_cells() > limits::UNSETTLED_CELLS_MAX
    }

    /// The turn is over: writes the running hash over its outcomes into the journal.
    pub(crate) fn end(&mut self) {
        if !self.output.records.is_empty() {
            self.append(Body::OutcomeDigest(self.world.state.position.digest));
        }
    }

    pub(crate) fn append(&mut self, body: Body) {
        let sealed = self.world.state.append(body);
        self.push(sealed);
    }

    fn push(&mut self, sealed: Sealed) {
        self.bytes += sealed.len();
        self.output.records.push(sealed);
    }

    /// Takes one item in, or rejects it.
    fn take_one(&mut self, objects: &dyn Objects, arrival: &Arrival) -> Result<(), TurnError> {
        let item = match &arrival.item {
            Arrived::Item(item) => item,
            Arrived::Unusable { item, code, reason } => {
                self.reject(arrival.seq, *item, false, &Rejection::new(*code, reason.clone()));
                return Ok(());
            }
        };
        let (state, mut work) = (&self.world.state, Work::bounded());
        let admitted = match state.skips(arrival.seq) {
            true => Ok(Prepared::skipped()),
            false => admit::admit(state, &self.world.registry, objects, item, &mut work),
        };
        self.calls += work.spent() / CALL_SCHEMA_STEPS; // a rejected item, too: its check took as long
        let prepared = match admitted {
            Ok(prepared) => prepared,
            Err(AdmitError::Load(error)) => return Err(error.into()),
            Err(AdmitError::Rejected(rejection)) => {
                let hash = Hash::of(&cbor::encode(&**item));
                self.reject(arrival.seq, hash, item.origin.wants_reply, &rejection);
                return Ok(());
            }
        };
        let stamps = Stamps {
            now_ns: arrival.now_ns,
            logical_now_ns: state.logical_time(arrival.now_ns, prepared.not_before_ns),
            entropy: arrival.entropy,
            manifest: state.active.manifest.hash,
            schema_work_max: None,
        };
        let ingress = |stamps| Ingress::new(stamps, arrival.seq, InboxItem::clone(item));
        let before = self.world.state.savepoint();
        match self.step(objects, ingress(stamps), prepared) {
            Err(TurnError::Load(LoadError::Abandoned { code: Code::SchemaWorkExceeded, .. })) => {}
            stepped => return stepped,
        }
        // The step happens all the same, and its record says where its checks stopped.
        self.calls += limits::SCHEMA_WORK_MAX / CALL_SCHEMA_STEPS;
        self.world.state.undo_to(before);
        let stamps = Stamps { schema_work_max: Some(limits::SCHEMA_WORK_MAX), ..stamps };
        match admit::prepare(&self.world.state, &self.world.registry, objects, item) {
            Ok(prepared) => self.step(objects, ingress(stamps), prepared),
            Err(AdmitError::Load(error)) => Err(error.into()),
            Err(AdmitError::Rejected(rejection)) => Err(TurnError::WrongNote(rejection.reason)),
        }
    }

    fn step(&mut self, objects: &dyn Objects, ingress: Ingress, prepared: Prepared<'_>) -> Result<(), TurnError> {
        let (height, seq) = (self.world.state.position.height, ingress.seq);
        let holds = self.world.state.active.manifest.manifest.on_failure == OnFailure::Hold
            && !matches!(ingress.item.input, Input::Control { .. });
        let before = holds.then(|| self.world.state.savepoint());
        let sealed = self.world.state.append(Body::Ingress(ingress));
        if let Body::Ingress(ingress) = &sealed.record().body {
            let state = &mut self.world.state;
            state.pass(seq);
            let outcome = step::step(state, objects, height, ingress, prepared, limits::SCHEMA_WORK_MAX)?;
            if let Some(before) = before
                && let Some(failed) = outcome.failure()
            {
                let held = held_at(ingress, failed);
                self.hold_at(before, sealed, outcome, held);
                return Ok(());
            }
            self.push(sealed);
            self.publish(height, outcome);
        }
        Ok(())
    }

    /// The step failed and did not happen: its item waits, and the world with it. What it logged is kept.
    fn hold_at(&mut self, before: Savepoint, sealed: Sealed, outcome: Outcome, held: Held) {
        let height = sealed.record().height;
        self.held_at = held.failed.as_ref().map(|failed| failed.seq);
        if planted(Mutant::HeldConsumed) {
            self.push(sealed);
            self.publish(height, outcome);
        } else {
            self.world.state.undo_to(before);
            self.calls += outcome.spent;
            self.output.logs.extend(outcome.logs.into_iter().map(|line| (height, line)));
        }
        self.hold(held);
    }

    fn reject(&mut self, seq: InboxSeq, item: Hash, wants_reply: bool, rejection: &Rejection) {
        let (code, reason) = (rejection.code.to_string(), bounded(&rejection.reason));
        if wants_reply {
            let outcome = ReplyOutcome::Failed(code.clone(), reason.clone(), Some(self.world.head()));
            self.output.replies.push(Reply { to: seq, outcome });
        }
        self.append(Body::Rejected(Rejected { seq, code, reason, item }));
        self.world.state.pass(seq);
    }

    /// Journals what follows from a step, and collects it for publication.
    fn publish(&mut self, height: Height, outcome: Outcome) {
        self.output.objects.extend(outcome.blobs);
        self.output.authorities.extend(outcome.authorities);
        self.output.logs.extend(outcome.logs.into_iter().map(|line| (height, line)));
        self.calls += outcome.spent;
        let mut never_open = Vec::new();
        let count = outcome.outputs.iter().filter(|output| step::is_recorded(output)).count() as u64;
        let mut nth = self.world.state.position.recording.map(|recording| recording.asked - count);
        for body in outcome.outputs {
            let recorded = nth.map(Recorded::Nth);
            nth = nth.map(|nth| nth + u64::from(step::is_recorded(&body)));
            let sealed = self.world.state.append(body);
            match &sealed.record().body {
                Body::Intent(intent) if !self.publish_intent(&intent.hash, recorded) => never_open.push(intent.hash),
                Body::Cancel(hash) if !never_open.contains(hash) => self.withdraw(*hash),
                Body::Reply(reply) => self.output.replies.push(reply.clone()),
                _ => {}
            }
            self.push(sealed);
        }
    }

    /// Says no when the step that emitted it withdrew it as well.
    fn publish_intent(&mut self, hash: &IntentHash, recorded: Option<Recorded>) -> bool {
        let state = &self.world.state;
        let active = &state.active.manifest;
        if let Some(intent) = state.intents.get(hash) {
            let policies = active.manifest.effect_policies(&intent.kind);
            self.output.publish.push(Publish { intent: intent.clone(), manifest: active.hash, policies, recorded });
            return true;
        }
        let set = state.timers.get(hash).and_then(OpenIntent::timer);
        self.output.timers.extend(set.clone().map(|set| PublishTimer { timer: *hash, set }));
        set.is_some()
    }

    /// Intents that an earlier step of the same turn emitted were not published yet, and now never are.
    fn withdraw(&mut self, hash: IntentHash) {
        let before = self.output.publish.len() + self.output.timers.len();
        self.output.publish.retain(|publish| publish.intent.hash != hash);
        self.output.timers.retain(|publish| publish.timer != hash);
        if self.output.publish.len() + self.output.timers.len() == before {
            self.output.cancels.push(hash);
        }
    }
}

fn held_at(ingress: &Ingress, failed: &StepFailed) -> Held {
    let what = match &ingress.item.input {
        Input::Event { schema, .. } => format!("event {schema}"),
        Input::Receipt(receipt) => format!("receipt {}", receipt.kind),
        Input::Message { inbox, .. } => format!("message {inbox}"),
        Input::TimerFired { .. } => "timer".to_owned(),
        Input::Control { command, .. } => format!("control {command}"),
    };
    let failed_input = FailedInput { seq: ingress.seq, item: Hash::of(&cbor::encode(&ingress.item)), what };
    Held { code: failed.code.clone(), reason: failed.reason.clone(), failed: Some(failed_input) }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.world.state.undo_to(before);
        }
    }
}
