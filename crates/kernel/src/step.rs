//! The step: from one record to all that follows from it.
//!
//! A step is a function of the state and the record. What the program did is kept as a whole or thrown
//! away as a whole; that the record was taken in stands either way.

use crate::{
    admit::{Control, Prepared},
    children,
    host::StepHost,
    intents::TIMER_SET,
    manifest::{CheckError, OnFailure},
    meter::{Fault, LogLine},
    objects::{LoadError, Object, Objects},
    program::{Cause, Event, Failure, Program},
    schema::Work,
    state::{Active, Savepoint, State},
    undo::Mark,
};
use minicbor::Encoder;
use mundi_model::{
    Code, Hash, Height, cbor,
    child::Spend,
    limits,
    mutants::{Mutant, planted},
    pool::AuthorityChange,
    record::{Body, Ingress, Input, ManifestChange, ReceiptStatus, Reply, ReplyOutcome, StepFailed},
};
use std::{
    borrow::Cow,
    cell::Cell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The receipt that a program gets in place of one that its manifest's schema forbids. A fixed text: that
/// of the schema library may change, and a program may keep what it reads.
const BAD_RECEIPT: &[u8] = b"the payload does not satisfy the manifest's schema";

/// Steps of a check against a schema that count as a host call in the budget of a turn.
pub(crate) const CALL_SCHEMA_STEPS: u64 = 64;

impl Outcome {
    /// Why the program failed, if it did.
    pub(crate) fn failure(&self) -> Option<&StepFailed> {
        self.outputs.iter().find_map(|output| match output {
            Body::StepFailed(failed) if failed.code != Code::StepSkipped.as_str() => Some(failed),
            _ => None,
        })
    }
}

/// All that follows from a record.
pub(crate) struct Outcome {
    /// The records that follow it.
    pub(crate) outputs: Vec<Body>,
    /// Payloads too large for a record.
    pub(crate) blobs: Vec<Object>,
    pub(crate) logs: Vec<LogLine>,
    /// Leases of a pool whose holders got authority or lost it.
    pub(crate) authorities: Vec<AuthorityChange>,
    /// The cost of the step, in host calls.
    pub(crate) spent: u64,
    /// Where the cells that it wrote begin.
    pub(crate) cells: Mark,
}

/// Takes a record in. On an error the caller goes back to its savepoint.
///
/// If checks against schemas take more than `unmarked_work_max` steps and the record's stamps do not say so, the error is
/// [`LoadError::Abandoned`] with [`Code::SchemaWorkExceeded`].
pub(crate) fn step(
    state: &mut State,
    objects: &dyn Objects,
    height: Height,
    ingress: &Ingress,
    prepared: Prepared<'_>,
    unmarked_work_max: u64,
) -> Result<Outcome, LoadError> {
    state.position.logical_now_ns = ingress.stamps.logical_now_ns;
    let work = Work::new(ingress.stamps.schema_work_max.unwrap_or(unmarked_work_max));
    let run = Run { objects, height, ingress, work: Cell::new(work) };
    let mut outcome = match (&ingress.item.input, prepared.control) {
        _ if state.skips(ingress.seq) => run.skipped(state),
        (_, Some(control)) => run.control(state, control)?,
        (Input::Event { schema, key, .. }, None) => {
            run.program(state, Cause::Event { schema, value: &prepared.payload, key: key.as_deref() })?
        }
        (Input::Message { inbox, headers, .. }, None) => {
            run.program(state, Cause::Message { inbox, payload: &prepared.payload, headers })?
        }
        (Input::Receipt(receipt), None) => {
            state.remember_closed(receipt.intent);
            let intent = state.intents.close(&receipt.intent);
            let label = intent.as_ref().map_or("", |intent| &intent.label);
            let acceptable =
                receipt.status != ReceiptStatus::Ok || run.accepts(state, &receipt.kind, &prepared.payload)?;
            let (status, payload) =
                if acceptable { (receipt.status, &*prepared.payload) } else { (ReceiptStatus::Error, BAD_RECEIPT) };
            let spent = children::spent(receipt, &prepared.payload);
            if spent != Spend::default() {
                state.position.children_spent = Some(state.position.children_spent.unwrap_or_default().plus(spent));
            }
            run.program(state, Cause::Receipt { label, kind: &receipt.kind, status, payload })?
        }
        (Input::TimerFired { timer, .. }, None) => {
            state.remember_closed(*timer);
            let timer = state.timers.close(timer);
            let label = timer.as_ref().map_or("", |timer| &timer.label);
            run.program(state, Cause::Timer { label, payload: &prepared.payload })?
        }
        (Input::Control { .. }, None) => run.nothing(state),
    };
    if let Some(recording) = &mut state.position.recording {
        recording.asked += outcome.outputs.iter().filter(|output| is_recorded(output)).count() as u64;
    }
    outcome.spent += run.work.get().spent() / CALL_SCHEMA_STEPS;
    state.position.digest = digest(state, &outcome);
    Ok(outcome)
}

/// An intent that a parent's receipts could answer.
pub(crate) fn is_recorded(output: &Body) -> bool {
    matches!(output, Body::Intent(intent) if intent.kind != TIMER_SET)
}

struct Run<'a> {
    objects: &'a dyn Objects,
    height: Height,
    ingress: &'a Ingress,
    /// Steps that are left for checks against schemas.
    work: Cell<Work>,
}

impl Run<'_> {
    /// Whether the payload of a receipt is what the manifest says.
    fn accepts(&self, state: &State, kind: &str, payload: &[u8]) -> Result<bool, LoadError> {
        let mut work = self.work.get();
        let checked = state.active.manifest.check_receipt(kind, payload, &mut work);
        self.work.set(work);
        match checked {
            Err(exceeded @ CheckError::WorkExceeded(_)) if self.ingress.stamps.schema_work_max.is_none() => {
                Err(LoadError::Abandoned { code: Code::SchemaWorkExceeded, why: exceeded.to_string() })
            }
            Err(CheckError::Crowded(crowded)) => Err(crowded.into()),
            checked => Ok(checked.is_ok()),
        }
    }

    fn control(&self, state: &mut State, control: Control) -> Result<Outcome, LoadError> {
        match control {
            Control::Pause => state.position.paused = true,
            Control::Resume => state.resume(),
            Control::Skip(seq) => {
                state.resume();
                state.position.skip = Some(seq);
            }
            Control::Label => {}
            Control::Upgrade(active, upgrade) => return self.upgrade(state, active, upgrade.forced),
            // The program does not see it: only the child's end.
            Control::SpawnChild(spawn) => {
                let cause = Cause::Message { inbox: "", payload: &[], headers: &BTreeMap::new() };
                return self.attempt_by(&spawn, state, cause).map(|(outcome, _)| outcome);
            }
        }
        Ok(self.nothing(state))
    }

    /// The new program takes over if it handles the take-over; else the old one stays.
    fn upgrade(&self, state: &mut State, active: Active, forced: bool) -> Result<Outcome, LoadError> {
        let before = state.savepoint();
        let change = ManifestChange { from: state.active.manifest.hash, to: active.manifest.hash, forced };
        state.active = active;
        let (outcome, failed) = self.attempt(state, Cause::Upgraded { from: change.from })?;
        if failed {
            state.undo_to(before);
            return Ok(outcome);
        }
        state.position.manifest_since = self.height.next().next();
        state.position.failures_in_row = 0;
        let outputs = [vec![Body::ManifestChange(change)], outcome.outputs].concat();
        Ok(Outcome { outputs, ..outcome })
    }

    fn nothing(&self, state: &State) -> Outcome {
        Outcome {
            outputs: Vec::new(),
            blobs: Vec::new(),
            logs: Vec::new(),
            authorities: Vec::new(),
            spent: 0,
            cells: state.cells.mark(),
        }
    }

    /// Runs the program; a failure counts towards the manifest's policy.
    fn program(&self, state: &mut State, cause: Cause<'_>) -> Result<Outcome, LoadError> {
        let (outcome, failed) = self.attempt(state, cause)?;
        if !failed {
            state.position.failures_in_row = 0;
            return Ok(outcome);
        }
        state.position.failures_in_row = state.position.failures_in_row.saturating_add(1);
        if let OnFailure::PauseAfter(count) = state.active.manifest.manifest.on_failure {
            state.position.paused |= state.position.failures_in_row >= count;
        }
        Ok(outcome)
    }

    /// Runs the program, and undoes what it did if it failed. Says whether it failed.
    fn attempt(&self, state: &mut State, cause: Cause<'_>) -> Result<(Outcome, bool), LoadError> {
        let program = state.active.program.clone();
        self.attempt_by(&*program, state, cause)
    }

    /// As [`Self::attempt`], by another program than the world's.
    fn attempt_by(
        &self,
        program: &dyn Program,
        state: &mut State,
        cause: Cause<'_>,
    ) -> Result<(Outcome, bool), LoadError> {
        let before = state.savepoint();
        let cells = before.cells();
        let event = Event { seq: self.ingress.seq, origin: &self.ingress.item.origin, cause };
        let mut host = StepHost::new(state, self.objects, (&self.ingress.stamps, self.work.get()), self.height);
        // A panic leaves nothing behind: all that the program could touch is undone below.
        let result = catch_unwind(AssertUnwindSafe(|| program.handle(&mut host, &event)));
        let StepHost { meter, outputs, blobs, authorities, work, .. } = host;
        self.work.set(work);
        let spent = meter.spent(&state.active.manifest.manifest.limits);
        let failed = match (meter.fault, result) {
            (Some(Fault::Load(error)), _) => return Err(error),
            (_, Err(panic)) => StepFailed { code: Code::ProgramPanicked.to_string(), reason: panic_text(&*panic) },
            (Some(Fault::Exhausted(what)), _) => {
                StepFailed { code: Code::BudgetExhausted.to_string(), reason: format!("no {what} left") }
            }
            (Some(Fault::WorkExceeded(reason)), _) => StepFailed { code: Code::SchemaWorkExceeded.to_string(), reason },
            (Some(Fault::Refused(reason)), _) => StepFailed { code: Code::OutputRefused.to_string(), reason },
            (None, Ok(Err(Failure { code, reason }))) => StepFailed { code: code.to_string(), reason },
            (None, Ok(Ok(()))) => {
                return Ok((Outcome { outputs, blobs, logs: meter.logs, authorities, spent, cells }, false));
            }
        };
        let outputs = self.failed(state, before, failed);
        let (blobs, authorities) = (Vec::new(), Vec::new());
        Ok((Outcome { outputs, blobs, logs: meter.logs, authorities, spent, cells }, true))
    }

    /// The item is taken in, what it answers is closed, and the program does not see it.
    fn skipped(&self, state: &mut State) -> Outcome {
        if !planted(Mutant::SkipTakesTwo) || state.position.skip != Some(self.ingress.seq) {
            state.position.skip = None;
        }
        match &self.ingress.item.input {
            Input::Receipt(receipt) => {
                state.remember_closed(receipt.intent);
                state.intents.close(&receipt.intent);
            }
            Input::TimerFired { timer, .. } => {
                state.remember_closed(*timer);
                state.timers.close(timer);
            }
            Input::Event { .. } | Input::Message { .. } | Input::Control { .. } => {}
        }
        let reason = Code::StepSkipped.meaning().to_owned();
        let outputs = self.failure(StepFailed { code: Code::StepSkipped.to_string(), reason });
        Outcome { outputs, ..self.nothing(state) }
    }

    fn failed(&self, state: &mut State, before: Savepoint, failed: StepFailed) -> Vec<Body> {
        state.undo_to(before);
        self.failure(failed)
    }

    /// The records of a failure: for the caller that the step worked for, too.
    fn failure(&self, mut failed: StepFailed) -> Vec<Body> {
        failed.reason = bounded(&failed.reason);
        let reply = self.ingress.item.origin.call_at(self.ingress.seq).map(|to| {
            let outcome = ReplyOutcome::Failed(failed.code.clone(), failed.reason.clone(), Some(self.height));
            Body::Reply(Reply { to, outcome })
        });
        [Body::StepFailed(failed)].into_iter().chain(reply).collect()
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}

/// As much of a sentence as a record carries.
pub(crate) fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(limits::REASON_BYTES_MAX)].to_owned()
}

/// An output without the sentence for people, which may change with the compiler or a library, and without the height of a
/// failed step, which records of before do not tell.
pub(crate) fn essence(output: &Body) -> Cow<'_, Body> {
    let essence = match output {
        Body::StepFailed(failed) => Body::StepFailed(StepFailed { reason: String::new(), ..failed.clone() }),
        Body::Reply(Reply { to, outcome: ReplyOutcome::Failed(code, ..) }) => {
            Body::Reply(Reply { to: *to, outcome: ReplyOutcome::Failed(code.clone(), String::new(), None) })
        }
        other => return Cow::Borrowed(other),
    };
    Cow::Owned(essence)
}

/// The running hash over outcomes: the one before, the cells written (what they hold after the step),
/// the outputs.
fn digest(state: &State, outcome: &Outcome) -> Hash {
    let mut bytes = Vec::with_capacity(256);
    encode_outcome(state, outcome, &mut bytes);
    Hash::of(&bytes)
}

#[expect(clippy::expect_used, reason = "a `Vec` takes every write")]
fn encode_outcome(state: &State, outcome: &Outcome, bytes: &mut Vec<u8>) {
    let written = state.cells.written_since(outcome.cells);
    let mut e = Encoder::new(&mut *bytes);
    e.array(3).and_then(|e| e.bytes(state.position.digest.as_bytes())).expect("encoding into memory");
    e.map(written.len() as u64).expect("encoding into memory");
    for (key, value) in written {
        e.str(key).expect("encoding into memory");
        match value {
            Some(value) => e.bytes(value),
            None => e.null(),
        }
        .expect("encoding into memory");
    }
    e.array(outcome.outputs.len() as u64).expect("encoding into memory");
    for output in &outcome.outputs {
        cbor::encode_into(&*essence(output), bytes);
    }
}
