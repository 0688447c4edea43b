//! Evidence as lines of canonical JSON (NDJSON): what is whole in a file that a crash may have torn, and whether its events can have happened.

use super::{EVENT_SCHEMA, EventKind, Phase};
use crate::{Code, Coded, json};
use serde_json::Value;
use std::collections::BTreeMap;

const CANCELLED: &str = Code::UrmChildCancelled.as_str();

/// How many bytes of a file are whole lines. What follows was torn by a crash, and is cut before anything is appended.
pub fn whole_bytes(file: &[u8]) -> usize {
    file.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

/// The contents of a file of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    pub events: u64,
    /// The next `seq` of each stream.
    pub streams: BTreeMap<String, u64>,
    /// Streams whose child has ended.
    pub ended: u64,
    /// Bytes behind the last whole line.
    pub torn_bytes: usize,
}

/// Why a file is no evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct EvidenceInvalid {
    pub line: usize,
    pub code: Code,
    pub reason: String,
}

impl Coded for EvidenceInvalid {
    fn code(&self) -> Code {
        self.code
    }
}

/// Reads a file and changes nothing: every whole line is a canonical event with the least detail that an event has, each stream is complete from its
/// beginning and in order, all that follows a cancel names it, and no number of a parent is used by two children.
pub fn verify(file: &[u8]) -> Result<Verified, EvidenceInvalid> {
    let whole = whole_bytes(file);
    let mut reading = Reading::default();
    for (line, text) in (1..).zip(file[..whole].split_inclusive(|byte| *byte == b'\n')) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        reading.event(text).map_err(|(code, reason)| EvidenceInvalid { line, code, reason })?;
    }
    let streams: BTreeMap<_, _> = reading.streams.into_iter().collect();
    Ok(Verified {
        events: streams.values().map(|stream| stream.events).sum(),
        ended: streams.values().filter(|stream| stream.is_over).count() as u64,
        streams: streams.into_iter().map(|(name, stream)| (name, stream.events)).collect(),
        torn_bytes: file.len() - whole,
    })
}

#[derive(Default)]
struct Stream {
    events: u64,
    is_started: bool,
    is_over: bool,
    cancel: Option<String>,
    /// The number and the run of its dispatch.
    dispatch: Option<(u64, String)>,
}

#[derive(Default)]
struct Reading {
    streams: BTreeMap<String, Stream>,
    /// The stream that has a parent's number, and the one that has its run.
    dispatches: BTreeMap<(String, u64), String>,
    runs: BTreeMap<(String, String), String>,
}

type Refused = (Code, String);

fn shape(what: &str) -> Refused {
    (Code::JsonMalformed, format!("`{what}` is missing or is not what it should be"))
}

/// Checks the fields of every event. The number and the run of a dispatch are both present or both absent: a child that was never leased has none.
fn check_detail(stream: &str, detail: &Value) -> Result<(), Refused> {
    let text = |name: &str| detail[name].as_str().filter(|text| !text.is_empty()).ok_or_else(|| shape(name));
    if stream != format!("child:{}", text("child_id")?) {
        return Err(shape("stream_id"));
    }
    text("parent_stream_id")?;
    detail["parent_seq"].as_u64().ok_or_else(|| shape("parent_seq"))?;
    let phase = text("phase_at_event")?;
    if ![Phase::Started, Phase::Terminal].iter().any(|known| known.as_str() == phase) {
        return Err(shape("phase_at_event"));
    }
    for name in ["dispatch_seq", "lease_id"] {
        let is_one = if name == "lease_id" { text(name).is_ok() } else { detail[name].is_u64() };
        let is_none = detail["dispatch_seq"].is_null() && detail["lease_id"].is_null();
        if !is_one && !is_none {
            return Err(shape(name));
        }
    }
    Ok(())
}

impl Reading {
    fn event(&mut self, text: &[u8]) -> Result<(), Refused> {
        let event = json::from_canonical(text).map_err(|error| (error.code(), error.to_string()))?;
        let kind = event["event"].as_str().and_then(|name| EventKind::ALL.into_iter().find(|it| it.as_str() == name));
        let kind = kind.ok_or_else(|| shape("event"))?;
        if event["schema"] != EVENT_SCHEMA {
            return Err(shape("schema"));
        }
        let stream = event["stream_id"].as_str().ok_or_else(|| shape("stream_id"))?.to_owned();
        let seq = event["seq"].as_u64().ok_or_else(|| shape("seq"))?;
        check_detail(&stream, &event["detail"])?;
        self.number(&stream, &event)?;
        self.streams
            .entry(stream.clone())
            .or_default()
            .take(kind, seq, &event["detail"])
            .map_err(|(code, reason)| (code, format!("{stream}: {reason}")))
    }

    /// A dispatch number and a run belong to one child of a parent.
    fn number(&mut self, stream: &str, event: &Value) -> Result<(), Refused> {
        let detail = &event["detail"];
        let parent = detail["parent_stream_id"].as_str().unwrap_or_default().to_owned();
        if let Some(dispatch_seq) = detail["dispatch_seq"].as_u64() {
            let of = self.dispatches.entry((parent.clone(), dispatch_seq)).or_insert_with(|| stream.to_owned());
            if of != stream {
                let reason = format!("the dispatch number {dispatch_seq} is used by {of} and {stream}");
                return Err((Code::UrmSchedulerReplayOrderInvalid, reason));
            }
        }
        if let Some(run) = detail["lease_id"].as_str() {
            let of = self.runs.entry((parent, run.to_owned())).or_insert_with(|| stream.to_owned());
            if of != stream {
                return Err((Code::UrmDispatchLeaseConflict, format!("{run} is used by {of} and {stream}")));
            }
        }
        Ok(())
    }
}

impl Stream {
    fn take(&mut self, kind: EventKind, seq: u64, detail: &Value) -> Result<(), Refused> {
        let order = |reason: &str| Err((Code::UrmSchedulerReplayOrderInvalid, reason.to_owned()));
        let broken = |reason: &str| Err((Code::UrmSchedulerPhaseEventAtomicityViolation, reason.to_owned()));
        if seq != self.events {
            return order(&format!("seq {seq} follows {} events", self.events));
        }
        if self.is_over {
            return order("an event follows the terminal one");
        }
        let is_terminal = detail["phase_at_event"] == "terminal";
        let cancel = detail["cancel_request_id"].as_str().map(str::to_owned);
        let dispatch = detail["dispatch_seq"].as_u64().zip(detail["lease_id"].as_str().map(str::to_owned));
        if self.events > 0 && dispatch != self.dispatch {
            return order("another dispatch than in the event before");
        }
        let is_caused = kind == EventKind::Fail && (self.cancel.is_some() || detail["code"] == CANCELLED);
        match kind {
            EventKind::Start | EventKind::Pass if dispatch.is_none() => return Err(shape("dispatch_seq")),
            EventKind::Start if self.is_started => return order("a second start"),
            EventKind::Start if detail["phase_at_event"] != "started" => return broken("a start in another phase"),
            EventKind::Start => self.is_started = true,
            EventKind::Pass | EventKind::Fail if !is_terminal => return broken("an end in another phase"),
            EventKind::Pass if !self.is_started => return broken("a child passed that was not started"),
            EventKind::Fail if !detail["code"].is_string() || !detail["reason"].is_string() => {
                return broken("a failure without its code and reason");
            }
            EventKind::Fail if is_caused && cancel.is_none() => {
                return order("an end because of a cancel that does not name its request");
            }
            EventKind::Cancel if cancel.is_none() => return broken("a cancel without its request"),
            EventKind::Cancel if !is_terminal && !self.is_started => return broken("a cancel in another phase"),
            _ => {}
        }
        match (&self.cancel, &cancel) {
            (None, Some(_)) if kind != EventKind::Cancel => return order("a cancel is named before it happened"),
            (Some(first), Some(other)) if first != other => return order("two cancel requests in one lineage"),
            _ => self.cancel = self.cancel.take().or(cancel),
        }
        self.events += 1;
        self.dispatch = dispatch;
        self.is_over = is_terminal;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChildEvent, ChildId, Phase, RunId};
    use super::*;
    use crate::{Height, UniverseId, WorldId};
    use proptest::prelude::*;

    fn event(child: u8, seq: u64, kind: EventKind, phase: Phase) -> ChildEvent {
        let parent = WorldId::from_bytes([1; 16]);
        let failed = kind == EventKind::Fail;
        ChildEvent {
            kind,
            seq,
            at_ns: seq,
            phase,
            parent_seq: Height::new(child.into()),
            dispatch_seq: Some(child.into()),
            run: Some(RunId::of_dispatch(parent, child.into())),
            code: failed.then(|| "URM_CHILD_FAILED".to_owned()),
            reason: failed.then(|| "why".to_owned()),
            cancel_request_id: (kind == EventKind::Cancel).then(|| "r".to_owned()),
        }
    }

    fn line(child: u8, event: &ChildEvent) -> String {
        let (universe, parent) = (UniverseId::from_bytes([9; 16]), WorldId::from_bytes([1; 16]));
        json::to_canonical(&event.evidence(universe, parent, ChildId::from_bytes([child; 16]))) + "\n"
    }

    fn life(child: u8) -> Vec<String> {
        let start = event(child, 0, EventKind::Start, Phase::Started);
        vec![line(child, &start), line(child, &event(child, 1, EventKind::Pass, Phase::Terminal))]
    }

    #[test]
    fn whole_streams_are_evidence_in_whatever_order_they_are_mixed() {
        let (a, b) = (life(1), life(2));
        let mixed = [&a[0], &b[0], &b[1], &a[1]].map(String::as_str).concat();
        let verified = verify(mixed.as_bytes()).unwrap();
        assert_eq!((verified.events, verified.ended, verified.torn_bytes), (4, 2, 0));
    }

    #[test]
    fn what_cannot_have_happened_has_a_code() {
        let code = |lines: &[String]| verify(lines.concat().as_bytes()).unwrap_err().code;
        let a = life(1);
        assert_eq!(code(&[a[1].clone(), a[0].clone()]), Code::UrmSchedulerReplayOrderInvalid, "swapped rows");
        assert_eq!(code(&[a[0].clone(), a[1].clone(), a[1].clone()]), Code::UrmSchedulerReplayOrderInvalid);
        let early = line(1, &event(1, 0, EventKind::Pass, Phase::Terminal));
        assert_eq!(code(&[early]), Code::UrmSchedulerPhaseEventAtomicityViolation);
        let stolen = ChildEvent { dispatch_seq: Some(1), ..event(2, 0, EventKind::Start, Phase::Started) };
        assert_eq!(code(&[a[0].clone(), line(2, &stolen)]), Code::UrmSchedulerReplayOrderInvalid);
        let run = event(1, 0, EventKind::Start, Phase::Started).run;
        let leased = ChildEvent { run, ..event(2, 0, EventKind::Start, Phase::Started) };
        assert_eq!(code(&[a[0].clone(), line(2, &leased)]), Code::UrmDispatchLeaseConflict);
        assert_eq!(code(&[a[0].replace(":0,", ": 0,")]), Code::JsonNotCanonical, "a changed byte");
    }

    /// The same event without one of its details, or with another value of it.
    fn changed(line: &str, name: &str, value: Option<Value>) -> String {
        let mut event: Value = serde_json::from_str(line).unwrap();
        let detail = event["detail"].as_object_mut().unwrap();
        match value {
            Some(value) => drop(detail.insert(name.to_owned(), value)),
            None => assert!(detail.remove(name).is_some(), "{name}"),
        }
        json::to_canonical(&event) + "\n"
    }

    #[test]
    fn an_event_without_one_of_its_least_details_is_no_evidence() {
        let code = |lines: &[&str]| verify(lines.concat().as_bytes()).map_err(|error| error.code);
        let start = line(1, &event(1, 0, EventKind::Start, Phase::Started));
        let fail = line(1, &event(1, 1, EventKind::Fail, Phase::Terminal));
        assert!(code(&[&start, &fail]).is_ok());
        for name in ["child_id", "parent_seq", "parent_stream_id", "dispatch_seq", "lease_id", "phase_at_event"] {
            assert_eq!(code(&[&changed(&start, name, None)]), Err(Code::JsonMalformed), "{name}");
            assert_eq!(code(&[&changed(&start, name, Some(Value::Bool(true)))]), Err(Code::JsonMalformed), "{name}");
        }
        assert_eq!(code(&[&changed(&start, "child_id", Some("c_other".into()))]), Err(Code::JsonMalformed));
        for name in ["code", "reason"] {
            let lacking = changed(&fail, name, None);
            let found = code(&[&start, &lacking]);
            assert_eq!(found, Err(Code::UrmSchedulerPhaseEventAtomicityViolation), "{name}");
        }
        let moved = changed(&fail, "dispatch_seq", Some(9.into()));
        assert_eq!(code(&[&start, &moved]), Err(Code::UrmSchedulerReplayOrderInvalid));
    }

    #[test]
    fn a_child_that_was_never_leased_has_no_dispatch_and_a_started_one_has_one() {
        let queued = |kind| ChildEvent { dispatch_seq: None, run: None, ..event(1, 0, kind, Phase::Terminal) };
        for kind in [EventKind::Cancel, EventKind::Fail] {
            assert_eq!(verify(line(1, &queued(kind)).as_bytes()).unwrap().ended, 1);
        }
        let started = ChildEvent { phase: Phase::Started, ..queued(EventKind::Start) };
        assert_eq!(verify(line(1, &started).as_bytes()).unwrap_err().code, Code::JsonMalformed);
    }

    #[test]
    fn an_end_after_a_cancel_names_the_request() {
        let start = line(1, &event(1, 0, EventKind::Start, Phase::Started));
        let cancel = line(1, &event(1, 1, EventKind::Cancel, Phase::Started));
        let code = |lines: &[&str]| verify(lines.concat().as_bytes()).map_err(|error| error.code);
        for code_of_end in ["URM_CHILD_CANCELLED", "URM_CHILD_BUDGET_EXCEEDED", "URM_CHILD_TERMINATED_ON_RESTART"] {
            let end = |request: Option<&str>| {
                let end = event(1, 2, EventKind::Fail, Phase::Terminal);
                let request = request.map(str::to_owned);
                line(1, &ChildEvent { code: Some(code_of_end.to_owned()), cancel_request_id: request, ..end })
            };
            assert!(code(&[&start, &cancel, &end(Some("r"))]).is_ok());
            for lost in [None, Some("other")] {
                let found = code(&[&start, &cancel, &end(lost)]);
                assert_eq!(found, Err(Code::UrmSchedulerReplayOrderInvalid), "{code_of_end} {lost:?}");
            }
        }
        let end = event(1, 1, EventKind::Fail, Phase::Terminal);
        let unasked = line(1, &ChildEvent { code: Some(CANCELLED.to_owned()), ..end });
        assert_eq!(code(&[&start, &unasked]), Err(Code::UrmSchedulerReplayOrderInvalid), "nobody asked for it");
        let passed = line(1, &event(1, 2, EventKind::Pass, Phase::Terminal));
        assert!(code(&[&start, &cancel, &passed]).is_ok(), "it passed before it was stopped");
    }

    proptest! {
        /// However far a write came before the crash, cutting what is torn and appending the rest gives the whole file again.
        #[test]
        fn a_file_that_was_torn_anywhere_is_repaired_by_cutting_and_appending(children in 1..6u8, at in 0..10_000usize) {
            let lines: Vec<_> = (1..=children).flat_map(life).collect();
            let file = lines.concat().into_bytes();
            let torn = &file[..at % (file.len() + 1)];
            let verified = verify(torn).unwrap();
            let whole = whole_bytes(torn);
            prop_assert_eq!(whole + verified.torn_bytes, torn.len());
            let kept = usize::try_from(verified.events).unwrap();
            let repaired = [&torn[..whole], lines[kept..].concat().as_bytes()].concat();
            prop_assert_eq!(repaired, file);
        }
    }
}
