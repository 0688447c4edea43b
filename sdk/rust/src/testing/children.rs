//! Children in tests: the test says what becomes of each.

use super::{Step, TestWorld};
use crate::{Cause, Failure, Program, Status, cbor, children::Budget};
use serde::Serialize;
use serde_json::{Value, json};

impl<P: Program> TestWorld<P> {
    /// The child that was spawned under this label starts.
    pub fn child_started(&mut self, label: &str) -> Result<Step, Failure> {
        self.require_child(label)?;
        let headers = vec![("child_id".to_owned(), child_id(label)), ("label".to_owned(), label.to_owned())];
        let payload = cbor::to_vec(&json!({ "child_id": child_id(label), "dispatch_seq": 1 }))?;
        self.step(Cause::Message { inbox: "child.started".to_owned(), payload, headers })
    }

    /// It passed, and used so much.
    pub fn child_passed(&mut self, label: &str, result: impl Serialize, spent: &Budget) -> Result<Step, Failure> {
        let result = serde_json::to_value(result)?;
        let rest = json!({ "outcome": "passed", "result": result, "spent": spent });
        self.child_ended(label, Status::Ok, rest)
    }

    /// It failed.
    pub fn child_failed(&mut self, label: &str, code: &str, reason: &str) -> Result<Step, Failure> {
        let rest = json!({ "outcome": "failed", "code": code, "reason": reason, "spent": {} });
        self.child_ended(label, Status::Error, rest)
    }

    /// It was cancelled.
    pub fn child_cancelled(&mut self, label: &str) -> Result<Step, Failure> {
        let code = "URM_CHILD_CANCELLED";
        let rest = json!({ "outcome": "cancelled", "code": code, "reason": "cancelled", "cancel_request_id": "test" });
        self.child_ended(label, Status::Error, rest)
    }

    fn child_ended(&mut self, label: &str, status: Status, mut fields: Value) -> Result<Step, Failure> {
        self.require_child(label)?;
        fields["child_id"] = json!(child_id(label));
        self.receipt(label, status, fields)
    }

    fn require_child(&self, label: &str) -> Result<(), Failure> {
        match self.state.intents.get(label) {
            Some(intent) if intent.kind == "child.spawn" => Ok(()),
            _ => Err(Failure::coded("RECEIPT_UNKNOWN", format!("no child runs under `{label}`"))),
        }
    }
}

/// Of a test: it follows from the label.
fn child_id(label: &str) -> String {
    format!("c_{label}")
}
