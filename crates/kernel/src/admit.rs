//! Taking an inbox item in: whether it may enter, and what its step needs.
//!
//! An item is checked once, when it is taken in. What is refused becomes a `Rejected` record. A replay
//! does not check bounds and schemas again; it asks only what the step depends on.

use crate::{
    children::SpawnChild,
    intents::check_headers,
    manifest::{CheckError, ManifestError},
    objects::{LoadError, Objects, load_checked},
    registry::Registry,
    schema::Work,
    state::{Active, State},
};
use minicbor::{Decode, Encode};
use mundi_model::{
    Code, Coded, Hash, InboxSeq, LabelChange, cbor,
    child::{CHILD_INBOX, CHILD_SPAWN},
    limits,
    record::{InboxItem, Input, Operator, Payload, Receipt},
};
use std::{borrow::Cow, collections::BTreeMap};

/// Why an item may not enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) code: Code,
    pub(crate) reason: String,
}

impl Rejection {
    pub(crate) fn new(code: Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

pub(crate) enum AdmitError {
    Load(LoadError),
    Rejected(Rejection),
}

impl From<LoadError> for AdmitError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<Rejection> for AdmitError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// The payload of the control command `upgrade`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Upgrade {
    #[n(0)]
    pub manifest: Hash,
    /// The operator insists although a rehearsal diverged.
    #[n(1)]
    pub forced: bool,
}

/// The payload of the control commands `retry` and `skip`: what is done about an input whose step failed, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Repair {
    /// The input that is meant.
    #[n(0)]
    pub seq: InboxSeq,
    #[n(1)]
    pub operator: Operator,
}

/// The inputs of an item's step beside the item.
pub(crate) struct Prepared<'i> {
    pub(crate) payload: Cow<'i, [u8]>,
    pub(crate) control: Option<Control>,
    /// The time before which the step may not happen: when its timer is due.
    pub(crate) not_before_ns: u64,
}

/// A control command, understood.
pub(crate) enum Control {
    Pause,
    Resume,
    Upgrade(Active, Upgrade),
    /// The item at this place passes without a step.
    Skip(InboxSeq),
    /// The labels of the world changed when the command was accepted; its program does not see them.
    Label,
    SpawnChild(SpawnChild),
}

impl Prepared<'_> {
    /// Of an item that has no step.
    pub(crate) fn skipped() -> Self {
        Self { payload: Cow::Borrowed(&[]), control: None, not_before_ns: 0 }
    }
}

/// Checks a new item and prepares its step. The check against its schema spends `work`, also if it rejects the item.
pub(crate) fn admit<'i>(
    state: &State,
    registry: &Registry,
    objects: &dyn Objects,
    item: &'i InboxItem,
    work: &mut Work,
) -> Result<Prepared<'i>, AdmitError> {
    check_bounds(item)?;
    let prepared = prepare(state, registry, objects, item)?;
    if let Input::Event { schema, .. } = &item.input {
        match state.active.manifest.check_event_within(schema, &prepared.payload, work) {
            Ok(()) => {}
            Err(CheckError::Crowded(crowded)) => return Err(LoadError::from(crowded).into()),
            Err(error) => return Err(Rejection::new(error.code_or(Code::EventInvalid), error.to_string()).into()),
        }
    }
    Ok(prepared)
}

/// Collects the inputs of the step, for an item that was admitted before or is being admitted now.
pub(crate) fn prepare<'i>(
    state: &State,
    registry: &Registry,
    objects: &dyn Objects,
    item: &'i InboxItem,
) -> Result<Prepared<'i>, AdmitError> {
    let plain = |payload| Prepared { payload, control: None, not_before_ns: 0 };
    Ok(match &item.input {
        Input::Message { inbox, headers, .. } if inbox == CHILD_INBOX && !is_of_child(state, headers) => {
            let reason = "it names no open child of this world";
            return Err(Rejection::new(Code::EventInvalid, reason).into());
        }
        Input::Event { value: payload, .. } | Input::Message { payload, .. } => plain(load(objects, payload)?),
        Input::Receipt(receipt) => {
            check_receipt(state, receipt)?;
            plain(load(objects, &receipt.payload)?)
        }
        Input::TimerFired { timer, .. } => {
            let unknown =
                || Rejection::new(Code::TimerUnknown, format!("this world does not wait for the timer {timer}"));
            let timer = state.timers.get(timer).and_then(|timer| timer.timer()).ok_or_else(unknown)?;
            let payload = load(objects, &timer.payload)?.into_owned();
            Prepared { payload: payload.into(), control: None, not_before_ns: timer.due_ns }
        }
        Input::Control { command, payload } => {
            let payload = load(objects, payload)?;
            let control = understand((state, registry), objects, command, &payload)?;
            Prepared { payload, control: Some(control), not_before_ns: 0 }
        }
    })
}

/// Whether a notice that a child started is about an intent that is open.
fn is_of_child(state: &State, headers: &BTreeMap<String, String>) -> bool {
    let intent = headers.get("intent").and_then(|intent| intent.parse().ok());
    intent.and_then(|intent| state.intents.get(&intent)).is_some_and(|open| open.kind == CHILD_SPAWN)
}

fn load<'p>(objects: &dyn Objects, payload: &'p Payload) -> Result<Cow<'p, [u8]>, LoadError> {
    Ok(match payload {
        Payload::Inline(bytes) => Cow::Borrowed(bytes),
        Payload::Blob(hash, _) => load_checked(objects, hash)?.to_vec().into(),
    })
}

fn check_receipt(state: &State, receipt: &Receipt) -> Result<(), Rejection> {
    let intent = receipt.intent;
    let Some(open) = state.intents.get(&intent) else {
        let (code, how) = match state.was_closed(&intent) {
            true => (Code::ReceiptClosed, "is closed"),
            false => (Code::ReceiptUnknown, "was never open in this world"),
        };
        return Err(Rejection::new(code, format!("the intent {intent} {how}")));
    };
    if open.kind == receipt.kind {
        return Ok(());
    }
    let reason = format!("the intent {intent} is of kind `{}`, the receipt of kind `{}`", open.kind, receipt.kind);
    Err(Rejection::new(Code::ReceiptMismatch, reason))
}

/// The command that ends a pause.
pub(crate) const RESUME: &str = "resume";
/// The command that takes an input again whose step failed.
pub(crate) const RETRY: &str = "retry";
/// The command that passes it.
pub(crate) const SKIP: &str = "skip";
/// The command that spawns a child in place of the program.
pub const SPAWN_CHILD: &str = "spawn_child";

fn understand(
    (state, registry): (&State, &Registry),
    objects: &dyn Objects,
    command: &str,
    payload: &[u8],
) -> Result<Control, AdmitError> {
    let invalid = |reason: String| Rejection::new(Code::ControlInvalid, reason);
    match command {
        "pause" => Ok(Control::Pause),
        RESUME => Ok(Control::Resume),
        RETRY => {
            let Repair { seq, .. } = cbor::decode(payload).map_err(|error| invalid(error.to_string()))?;
            // One that comes twice must not end a later hold, nor an operator's pause.
            let stands_there = match state.position.held {
                Some(held) => held.seq == seq,
                None => !state.position.paused || state.expects(seq),
            };
            if !stands_there {
                return Err(invalid(format!("the world does not stand at the input {seq}")).into());
            }
            Ok(Control::Resume)
        }
        SKIP => {
            let Repair { seq, .. } = cbor::decode(payload).map_err(|error| invalid(error.to_string()))?;
            let held = state.position.held.map(|held| held.seq);
            if !state.position.paused || !state.expects(seq) || held.is_some_and(|held| held != seq) {
                return Err(invalid(format!("the world does not stand at the input {seq}")).into());
            }
            Ok(Control::Skip(seq))
        }
        SPAWN_CHILD => {
            let spawn: SpawnChild = cbor::decode(payload).map_err(|error| invalid(error.to_string()))?;
            Ok(Control::SpawnChild(spawn))
        }
        "upgrade" => {
            let upgrade: Upgrade = cbor::decode(payload).map_err(|error| invalid(error.to_string()))?;
            match Active::load(objects, registry, upgrade.manifest) {
                Ok(active) => Ok(Control::Upgrade(active, upgrade)),
                Err(ManifestError::Load(error)) => Err(error.into()),
                Err(error) => Err(Rejection::new(error.code(), error.to_string()).into()),
            }
        }
        LabelChange::COMMAND => {
            let decoded = cbor::decode::<LabelChange>(payload);
            decoded.map(|_| Control::Label).map_err(|error| invalid(error.to_string()).into())
        }
        other => Err(invalid(format!("no command `{other}`")).into()),
    }
}

/// Every part of an item has its bound, and together they fit into one record.
fn check_bounds(item: &InboxItem) -> Result<(), Rejection> {
    let name = |what: &'static str, text: &str| (what, text.len(), limits::NAME_BYTES_MAX);
    let inline = |payload: &Payload| match payload {
        Payload::Inline(bytes) => ("payload", bytes.len(), limits::PAYLOAD_INLINE_BYTES_MAX),
        Payload::Blob(_, len) => ("payload", usize::try_from(*len).unwrap_or(usize::MAX), limits::PAYLOAD_BYTES_MAX),
    };
    let origin = &item.origin;
    let correlation = name("correlation id", origin.correlation_id.as_deref().unwrap_or(""));
    let trace = name("trace", origin.trace.as_deref().unwrap_or(""));
    let of_message = match &item.input {
        Input::Message { headers, .. } => Some(headers),
        _ => None,
    };
    for headers in [&origin.headers].into_iter().chain(of_message) {
        check_headers(headers).map_err(|reason| Rejection::new(Code::ItemTooLarge, reason))?;
    }
    let parts = match &item.input {
        Input::Event { schema, value, key } => {
            vec![name("schema", schema), inline(value), name("key", key.as_deref().unwrap_or(""))]
        }
        Input::Receipt(receipt) => vec![
            name("kind", &receipt.kind),
            name("adapter", &receipt.adapter),
            inline(&receipt.payload),
            ("signature", receipt.signature.as_ref().map_or(0, Vec::len), limits::REASON_BYTES_MAX),
            name("operator", receipt.operator.as_ref().map_or("", |operator| &operator.name)),
        ],
        Input::Message { inbox, payload, .. } => vec![name("inbox", inbox), inline(payload)],
        Input::TimerFired { payload, .. } => vec![inline(payload)],
        Input::Control { command, payload } => vec![name("command", command), inline(payload)],
    };
    match parts.into_iter().chain([correlation, trace]).find(|(_, len, max)| len > max) {
        Some((what, len, max)) => {
            Err(Rejection::new(Code::ItemTooLarge, format!("the {what} has {len} bytes, at most {max} are allowed")))
        }
        None => Ok(()),
    }
}
const _: () = assert!(
    limits::PAYLOAD_INLINE_BYTES_MAX + 2 * limits::HEADERS_BYTES_MAX + 10 * limits::NAME_BYTES_MAX
        < limits::RECORD_BYTES_MAX
);
