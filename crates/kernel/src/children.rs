//! Children, as a program sees them: how it learns what becomes of one, and what its journal proves about their cost.

use crate::program::{Cause, EmitError, Event, Failure, Host, Program};
use minicbor::{Decode, Encode};
use mundi_model::{
    Code, Value, cbor,
    child::{CHILD_CANCEL, CHILD_INBOX, CHILD_SPAWN, ChildId, ChildOutcome, Lane, Spend},
    record::{Operator, Receipt, ReceiptStatus},
};
use std::collections::BTreeMap;

/// The lifecycle of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    Started,
    Passed,
    Failed,
    Cancelled,
}

impl From<ChildOutcome> for Lifecycle {
    fn from(outcome: ChildOutcome) -> Self {
        match outcome {
            ChildOutcome::Passed => Self::Passed,
            ChildOutcome::Failed => Self::Failed,
            ChildOutcome::Cancelled => Self::Cancelled,
        }
    }
}

/// A cause that is about a child of the world.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildCause<'a> {
    /// The program's own name for the child.
    pub label: &'a str,
    pub lifecycle: Lifecycle,
    /// `child_id`, `dispatch_seq` and `lease_id`; of an end also `outcome`, `result` or `code` and `reason`, `cancel_request_id` and `spent`.
    pub fields: BTreeMap<String, Value>,
}

impl<'a> Cause<'a> {
    /// The child that it is about, if it is about one.
    pub fn child(&self) -> Option<ChildCause<'a>> {
        match *self {
            Self::Message { inbox: CHILD_INBOX, payload, headers } => Some(ChildCause {
                label: headers.get("label").map_or("", String::as_str),
                lifecycle: Lifecycle::Started,
                fields: fields(payload),
            }),
            Self::Receipt { label, kind: CHILD_SPAWN, status, payload } => {
                let fields = fields(payload);
                Some(ChildCause { label, lifecycle: lifecycle(status, &fields), fields })
            }
            _ => None,
        }
    }
}

impl ChildCause<'_> {
    pub fn child(&self) -> Option<ChildId> {
        self.text("child_id").and_then(|id| id.parse().ok())
    }

    pub fn code(&self) -> Option<&str> {
        self.text("code")
    }

    pub fn reason(&self) -> Option<&str> {
        self.text("reason")
    }

    /// The result of a child that passed.
    pub fn result(&self) -> Option<&Value> {
        self.fields.get("result")
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.fields.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }
}

fn fields(payload: &[u8]) -> BTreeMap<String, Value> {
    match cbor::decode(payload) {
        Ok(Value::Map(fields)) => fields,
        _ => BTreeMap::new(),
    }
}

/// A child that a fork dropped, or that an operator answered for, was cancelled, too.
fn lifecycle(status: ReceiptStatus, fields: &BTreeMap<String, Value>) -> Lifecycle {
    let is = |name: &str, text: &str| matches!(fields.get(name), Some(Value::Text(found)) if found == text);
    match status {
        ReceiptStatus::Ok => Lifecycle::Passed,
        _ if is("outcome", "cancelled") || is("code", Code::EffectCancelled.as_str()) => Lifecycle::Cancelled,
        _ => Lifecycle::Failed,
    }
}

/// The cost of a child at its end, as its receipt proves.
pub(crate) fn spent(receipt: &Receipt, payload: &[u8]) -> Spend {
    if receipt.kind != CHILD_SPAWN {
        return Spend::default();
    }
    let Some(Value::Map(lanes)) = fields(payload).remove("spent") else { return Spend::default() };
    let mut spent = Spend::default();
    for lane in Lane::ALL {
        if let Some(Value::Integer(amount)) = lanes.get(lane.as_str()) {
            spent.set(lane, u64::try_from(i128::from(*amount)).ok());
        }
    }
    spent
}

/// The parameters of [`CHILD_CANCEL`].
pub fn cancel_params(child: ChildId) -> Vec<u8> {
    cbor::encode(&Value::Map([("child_id".to_owned(), Value::Text(child.to_string()))].into()))
}

/// Asks for the cancellation of a child of this world. Whether it was in time comes back as a receipt under the label.
pub fn cancel_child(host: &mut dyn Host, child: ChildId, label: &str) -> Result<(), EmitError> {
    host.emit(CHILD_CANCEL, &cancel_params(child), label)
}

/// The payload of the control command `spawn_child`: an operator asks for a child in place of the program.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SpawnChild {
    /// As [`spec_params`](mundi_model::child::spec_params) writes them.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub params: Vec<u8>,
    #[n(1)]
    pub label: String,
    #[n(2)]
    pub operator: Operator,
}

/// The command as a step: it replies the id of the child.
impl Program for SpawnChild {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let child = host.spawn_child(&self.params, &self.label)?;
        if event.origin.wants_reply {
            host.reply(event.seq, &cbor::encode(&Value::Text(child.to_string())))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(fields: &[(&str, &str)]) -> Vec<u8> {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), Value::Text((*value).to_owned()));
        cbor::encode(&Value::Map(fields.iter().map(text).collect()))
    }

    #[test]
    fn the_end_of_a_child_is_told_apart() {
        let end = |status, fields: &[(&str, &str)]| {
            let payload = payload(fields);
            let cause = Cause::Receipt { label: "it", kind: CHILD_SPAWN, status, payload: &payload };
            cause.child().unwrap().lifecycle
        };
        assert_eq!(end(ReceiptStatus::Ok, &[]), Lifecycle::Passed);
        assert_eq!(end(ReceiptStatus::Error, &[("outcome", "failed")]), Lifecycle::Failed);
        assert_eq!(end(ReceiptStatus::Error, &[("outcome", "cancelled")]), Lifecycle::Cancelled);
        assert_eq!(end(ReceiptStatus::Error, &[("code", "EFFECT_CANCELLED")]), Lifecycle::Cancelled);
    }

    #[test]
    fn other_causes_are_about_no_child() {
        let cause = Cause::Receipt { label: "", kind: "http.request", status: ReceiptStatus::Ok, payload: &[] };
        assert!(cause.child().is_none());
    }
}
