//! Replay of persisted dispatch: from tokens, events and totals to one canonical document, whose hash is the same on every machine.
//!
//! Nothing is scheduled again: the order is that of the persisted `dispatch_seq`. What contradicts itself is refused with a code.

use super::{Lane, TOKEN_SCHEMA, evidence};
use crate::{Code, Coded, Hash, json};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The schema of a persisted artifact: the rows of one parent.
pub const ARTIFACT_SCHEMA: &str = "mundi.dispatch_artifact@1";

/// Why an artifact cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ReplayInvalid {
    pub code: Code,
    pub reason: String,
}

impl Coded for ReplayInvalid {
    fn code(&self) -> Code {
        self.code
    }
}

fn refused<V>(code: Code, reason: impl Into<String>) -> Result<V, ReplayInvalid> {
    Err(ReplayInvalid { code, reason: reason.into() })
}

/// Replays an artifact, and gives the hash of what it leads to.
pub fn replay(artifact: &[u8]) -> Result<Hash, ReplayInvalid> {
    let malformed = |error: json::JsonError| ReplayInvalid { code: error.code(), reason: error.to_string() };
    let artifact = json::from_canonical(artifact).map_err(malformed)?;
    let outcome = materialize(&artifact)?;
    Ok(Hash::of(json::to_canonical(&outcome).as_bytes()))
}

/// The document that an artifact leads to: dispatches in their order, each child's life, and the budgets.
pub fn materialize(artifact: &Value) -> Result<Value, ReplayInvalid> {
    if artifact["schema"] != ARTIFACT_SCHEMA {
        return refused(Code::JsonMalformed, "that is no artifact of dispatches");
    }
    let tokens = tokens(artifact)?;
    let lives = lives(artifact)?;
    for (child, token) in &tokens {
        belong_together(child, token, lives.get(child))?;
    }
    if let Some(stranger) = lives.keys().find(|child| !tokens.contains_key(*child)) {
        return refused(Code::UrmSchedulerPhaseEventAtomicityViolation, format!("{stranger} has events and no token"));
    }
    let mut dispatched: Vec<_> =
        tokens.iter().filter_map(|(child, token)| Some((token.dispatch_seq?, child))).collect();
    dispatched.sort_unstable();
    let dispatches: Vec<_> =
        dispatched.iter().map(|(seq, child)| json!({"dispatch_seq": seq, "child_id": child})).collect();
    let children: Map<String, Value> = lives.into_iter().map(|(child, life)| (child, Value::Array(life))).collect();
    Ok(json!({"dispatches": dispatches, "children": children, "budgets": budgets(artifact)?}))
}

struct Row {
    queue_seq: u64,
    dispatch_seq: Option<u64>,
    phase: String,
}

/// The rows by child. They stand in the order of their numbers, and no number is there twice.
fn tokens(artifact: &Value) -> Result<BTreeMap<String, Row>, ReplayInvalid> {
    let (mut rows, mut runs) = (BTreeMap::new(), BTreeSet::new());
    let (mut queue, mut dispatches, mut last) = (BTreeSet::new(), BTreeSet::new(), None);
    for token in artifact["tokens"].as_array().map_or(&[][..], Vec::as_slice) {
        let shape =
            |what: &str| ReplayInvalid { code: Code::JsonMalformed, reason: format!("a token without `{what}`") };
        if token["schema"] != TOKEN_SCHEMA {
            return Err(shape("schema"));
        }
        let child = token["child_id"].as_str().ok_or_else(|| shape("child_id"))?;
        let row = Row {
            queue_seq: token["queue_seq"].as_u64().ok_or_else(|| shape("queue_seq"))?,
            dispatch_seq: token["dispatch_seq"].as_u64(),
            phase: token["phase"].as_str().ok_or_else(|| shape("phase"))?.to_owned(),
        };
        // By `dispatch_seq`, those without one last, by `queue_seq`.
        let place = (row.dispatch_seq.unwrap_or(u64::MAX), row.queue_seq);
        if last.is_some_and(|last| last >= place) {
            return refused(Code::UrmSchedulerReplayOrderInvalid, format!("the row of {child} is out of order"));
        }
        last = Some(place);
        if row.dispatch_seq.is_some_and(|seq| !dispatches.insert(seq)) {
            return refused(Code::UrmSchedulerReplayOrderInvalid, format!("the dispatch number of {child} is taken"));
        }
        let is_new_run = token["worker_run_id"].as_str().is_none_or(|run| runs.insert(run.to_owned()));
        if !queue.insert(row.queue_seq) || !is_new_run {
            return refused(Code::UrmDispatchLeaseConflict, format!("a number of {child} is taken"));
        }
        rows.insert(child.to_owned(), row);
    }
    Ok(rows)
}

/// The events of each child without their times.
fn lives(artifact: &Value) -> Result<BTreeMap<String, Vec<Value>>, ReplayInvalid> {
    let events = artifact["events"].as_array().map_or(&[][..], Vec::as_slice);
    let lines: String = events.iter().map(|event| json::to_canonical(event) + "\n").collect();
    evidence::verify(lines.as_bytes())
        .map_err(|error| ReplayInvalid { code: error.code, reason: error.to_string() })?;
    let mut lives = BTreeMap::<_, Vec<_>>::new();
    for event in events {
        let (name, detail) = (event["event"].clone(), event["detail"].clone());
        let child = detail["child_id"].as_str().unwrap_or_default().to_owned();
        lives.entry(child).or_default().push(json!({"event": name, "detail": detail}));
    }
    Ok(lives)
}

/// A phase is the one that the last event left.
fn belong_together(child: &str, token: &Row, life: Option<&Vec<Value>>) -> Result<(), ReplayInvalid> {
    let last = life.and_then(|life| life.last()).map(|event| &event["detail"]["phase_at_event"]);
    let agree = match token.phase.as_str() {
        "queued" | "leased" => last.is_none(),
        phase => last.is_some_and(|last| last == phase),
    };
    if agree {
        return Ok(());
    }
    let reason = format!("{child} is {}, and its last event says {last:?}", token.phase);
    refused(Code::UrmSchedulerPhaseEventAtomicityViolation, reason)
}

/// Totals, none beyond its limit.
fn budgets(artifact: &Value) -> Result<Value, ReplayInvalid> {
    let mut totals = Map::new();
    for line in artifact["budgets"].as_array().map_or(&[][..], Vec::as_slice) {
        let lane = line["lane"].as_str().and_then(Lane::from_name);
        let (Some(lane), Some(total)) = (lane, line["total"].as_u64()) else {
            return refused(Code::JsonMalformed, "a budget without a lane and a total");
        };
        if line["accounting"] != super::ACCOUNTING_MODE {
            return refused(
                Code::UrmDispatchAccountingModeInvalid,
                format!("{} is accounted otherwise", lane.as_str()),
            );
        }
        if line["limit"].as_u64().is_some_and(|limit| total > limit) {
            return refused(Code::UrmChildBudgetExceeded, format!("{} is beyond its limit", lane.as_str()));
        }
        totals.insert(lane.as_str().to_owned(), total.into());
    }
    Ok(Value::Object(totals))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(child: &str, queue: u64, dispatch: Option<u64>, phase: &str) -> Value {
        let mut token = json!({"schema": TOKEN_SCHEMA, "child_id": child, "queue_seq": queue, "phase": phase});
        if let Some(dispatch) = dispatch {
            token["dispatch_seq"] = dispatch.into();
            token["worker_run_id"] = format!("run {dispatch}").into();
        }
        token
    }

    fn code(tokens: &[Value]) -> Option<Code> {
        let artifact = json!({"schema": ARTIFACT_SCHEMA, "tokens": tokens, "events": [], "budgets": []});
        materialize(&artifact).err().map(|error| error.code)
    }

    #[test]
    fn rows_out_of_order_twice_or_without_their_events_are_refused() {
        let (a, b) = (token("a", 1, Some(1), "leased"), token("b", 2, Some(2), "leased"));
        assert_eq!(code(&[a.clone(), b.clone(), token("c", 3, None, "queued")]), None);
        assert_eq!(code(&[b, a.clone()]), Some(Code::UrmSchedulerReplayOrderInvalid));
        assert_eq!(code(&[a.clone(), token("b", 1, Some(2), "leased")]), Some(Code::UrmDispatchLeaseConflict));
        let ended = token("a", 1, Some(1), "terminal");
        assert_eq!(code(&[ended]), Some(Code::UrmSchedulerPhaseEventAtomicityViolation));
    }

    #[test]
    fn the_hash_is_that_of_what_the_artifact_leads_to() {
        let artifact = json!({"schema": ARTIFACT_SCHEMA, "tokens": [token("a", 1, Some(1), "leased")], "events": [],
            "budgets": [{"lane": "tokens", "total": 3, "limit": 4, "accounting": "running_total_v1"}]});
        let bytes = json::to_canonical(&artifact);
        assert_eq!(replay(bytes.as_bytes()), replay(bytes.as_bytes()));
        let more = bytes.replace("\"total\":3", "\"total\":4");
        assert_ne!(replay(bytes.as_bytes()).unwrap(), replay(more.as_bytes()).unwrap());
        let beyond = bytes.replace("\"total\":3", "\"total\":5");
        assert_eq!(replay(beyond.as_bytes()).unwrap_err().code, Code::UrmChildBudgetExceeded);
    }
}
