//! `mundi world journal`: the records of a world.

use super::{
    super::{
        exit::Outcome,
        output::{Column, Out, print, time},
    },
    World,
};
use clap::Args;
use mundi_model::{Code, cbor, parse_hex_bytes};
use reqwest::Method;
use serde_json::{Value, json};

/// The pause before a broken tail is resumed.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// How much of a program's value is shown; `--format json` has all of it.
const VALUE_CHARS_MAX: usize = 160;

#[derive(Args)]
pub(crate) struct Journal {
    #[command(flatten)]
    of: World,
    /// The first height.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The most to list.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Also prints new records, until it is stopped; in JSON, one document per line.
    #[arg(long, short, conflicts_with = "limit")]
    follow: bool,
}

impl Journal {
    pub(super) async fn run(self, out: Out) -> Outcome {
        if self.follow {
            return self.tail(out).await;
        }
        let Self { of, from, limit, .. } = self;
        let (mut records, mut next) = (Vec::new(), json!(from));
        while !next.is_null() && records.len() < limit {
            let size = (limit - records.len()).min(1_000);
            let from = next.as_str().map_or_else(|| next.to_string(), str::to_owned);
            let page = of.get(&format!("/journal?from={from}&limit={size}")).await?;
            records.extend(page["items"].as_array().cloned().unwrap_or_default());
            next = page["next"].clone();
        }
        if out.is_json() {
            return out.rows(&[], &records, &next);
        }
        let rows: Vec<Value> = records.iter().map(row).collect();
        out.rows(&COLUMNS, &rows, &Value::Null)?;
        if let Some(next) = next.as_str() {
            eprintln!("{}", out.dim(&format!("more: --from {next}")));
        }
        Ok(())
    }

    /// Streams of server-sent events end when the server stops, and after a while anyway; the next stream resumes.
    async fn tail(self, out: Out) -> Outcome {
        let mut next = self.from;
        let mut has_begun = false;
        loop {
            match self.stream(out, &mut next, &mut has_begun).await {
                // Nobody answers: it may come back, if it was there.
                Err(failed) if has_begun && failed.is_silent() => {}
                Err(failed) if has_begun && failed.code == Some(Code::NodeDraining) => {}
                ended => ended?,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn stream(&self, out: Out, next: &mut u64, has_begun: &mut bool) -> Outcome {
        let path = self.of.path(&format!("/journal?from={next}"));
        let accept = [("accept", "text/event-stream")];
        let answer = self.of.server.ask_with(Method::GET, &path, &accept, None).await;
        let mut answer = answer.map_err(|failed| self.of.told(failed))?;
        *has_begun = true;
        let mut waiting = Vec::new();
        while let Ok(Some(piece)) = answer.chunk().await {
            waiting.extend_from_slice(&piece);
            while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = waiting.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data:") else { continue };
                let record: Value = serde_json::from_slice(data)?;
                *next = record["height"].as_u64().map_or(*next, |height| height + 1);
                print(&if out.is_json() { record.to_string() } else { line_of(&record) })?;
            }
        }
        Ok(())
    }
}

/// The columns of a journal.
pub(super) const COLUMNS: [Column; 4] = [("HEIGHT", "height"), ("TIME", "time"), ("TYPE", "type"), ("WHAT", "what")];

/// A record as a row of them.
pub(super) fn row(record: &Value) -> Value {
    let [time, what] = [when(record), what(record)];
    json!({ "height": record["height"], "time": time, "type": record["type"], "what": what })
}

/// A record as one line with fixed widths, because later records are not known yet.
fn line_of(record: &Value) -> String {
    let kind = record["type"].as_str().unwrap_or_default();
    format!("{:>6}  {:<24}  {kind:<16}  {}", record["height"].to_string(), when(record), what(record))
        .trim_end()
        .to_owned()
}

/// The time of a record, if it has one: the results of an input have the input's time.
fn when(record: &Value) -> String {
    record["now_ns"].as_u64().map_or_else(String::new, time)
}

/// A summary of a record in one line, with the world that sent it.
fn what(record: &Value) -> String {
    let sender = &record["sender"];
    match sender["world_name"].as_str().or(sender["world"].as_str()) {
        Some(sender) => format!("{} from {sender}", of_type(record)),
        None => of_type(record),
    }
}

fn of_type(record: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let input = &record["input"];
    match record["type"].as_str().unwrap_or_default() {
        "ingress" if !input["event"].is_null() => format!("event {} {}", text(&input["event"]), brief(&input["value"])),
        "ingress" if !input["receipt"].is_null() => {
            format!("receipt {} {} {}", text(&input["status"]), text(&input["kind"]), brief(&input["payload"]))
        }
        "ingress" if !input["timer"].is_null() => format!("timer {}", brief(&input["payload"])),
        "ingress" if !input["message"].is_null() => {
            format!("message {} {}", text(&input["message"]), brief(&input["payload"]))
        }
        "ingress" if !input["operator"].is_null() => {
            let (control, by) = (text(&input["control"]), text(&input["operator"]["name"]));
            // A retry or a skip names the input that it is about.
            let about = input["input"].as_str().map_or_else(String::new, |input| format!(" {input}"));
            format!("control {control}{about} by {by}")
        }
        "ingress" => format!("control {}", text(&input["control"])),
        "intent" if record["kind"] == "timer.set" => {
            let due = record["params"]["due_ns"].as_u64().map_or_else(String::new, time);
            format!("timer.set for {due} {}", brief(&record["params"]["payload"]))
        }
        "intent" => format!("{} {}", text(&record["kind"]), brief(&record["params"])),
        "cancel" | "recording_ended" => text(&record["intent"]),
        "reply" => match record["outcome"].get("ok") {
            None => format!("failed {} {}", text(&record["outcome"]["code"]), text(&record["outcome"]["reason"])),
            Some(answer) => brief(answer),
        },
        "fork_genesis" => {
            let parent = record.get("parent_name").unwrap_or(&record["parent"]);
            format!("from {} at {}, {}", text(parent), record["forked_at"], text(&record["policy"]))
        }
        "manifest_change" => format!("to {}", text(&record["to"])),
        "outcome_digest" => text(&record["digest"]),
        "held" if !input.is_null() => {
            format!("at {}: {} {}", text(&input["what"]), text(&record["code"]), text(&record["reason"]))
        }
        "rejected" | "step_failed" | "held" => format!("{} {}", text(&record["code"]), text(&record["reason"])),
        "snapshot" | "baseline_snapshot" => format!("at {}", record["snapshot"]["height"]),
        "genesis" => format!("manifest {}", text(&record["manifest"])),
        "custom" => format!("{} {}", text(&record["kind"]), brief(&record["payload"])),
        _ => String::new(),
    }
}

/// A value for people: bytes that are UTF-8 as text, other bytes by their number, shortened.
pub(crate) fn brief(value: &Value) -> String {
    let mut shown = readable(value).to_string();
    if let Some((end, _)) = shown.char_indices().nth(VALUE_CHARS_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

fn readable(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(readable).collect(),
        Value::Object(fields) => match (fields.len(), fields.get("$bytes").and_then(Value::as_str)) {
            (1, Some(digits)) => bytes(digits),
            _ => Value::Object(fields.iter().map(|(name, value)| (name.clone(), member(name, value))).collect()),
        },
        plain => plain.clone(),
    }
}

/// A member of a value. A member whose name ends in `_cbor` contains an encoded value.
fn member(name: &str, value: &Value) -> Value {
    let encoded = value["$bytes"].as_str().filter(|_| name.ends_with("_cbor")).and_then(parse_hex_bytes);
    let decoded = encoded.and_then(|bytes| cbor::decode::<mundi_model::Value>(&bytes).ok()?.to_json().ok());
    decoded.unwrap_or_else(|| readable(value))
}

fn bytes(digits: &str) -> Value {
    let bytes = parse_hex_bytes(digits).unwrap_or_default();
    let printable = |text: &String| text.chars().all(|letter| !letter.is_control() || letter.is_whitespace());
    let count = bytes.len();
    String::from_utf8(bytes).ok().filter(printable).map_or_else(|| json!({ "$bytes": count }), Value::String)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_null_is_no_failure() {
        assert_eq!(what(&json!({ "type": "reply", "outcome": { "ok": null } })), "null");
        let failed = json!({ "type": "reply", "outcome": { "code": "PROGRAM_FAILED", "reason": "why" } });
        assert_eq!(what(&failed), "failed PROGRAM_FAILED why");
    }

    #[test]
    fn bodies_are_shown_as_text_where_they_are_text() {
        let receipt = json!({ "body": { "$bytes": "6869" }, "raw": { "$bytes": "ff00" } });
        assert_eq!(brief(&receipt), r#"{"body":"hi","raw":{"$bytes":2}}"#);
        let sent = json!({ "schema": "notice", "value_cbor": { "$bytes": "63746561" } });
        assert_eq!(brief(&sent), r#"{"schema":"notice","value_cbor":"tea"}"#, "not `ctea`, the encoded text");
        assert_eq!(brief(&json!("x".repeat(500))).chars().count(), VALUE_CHARS_MAX + 1);
    }

    #[test]
    fn a_timer_says_when_it_is_due() {
        let params = json!({ "due_ns": 1_767_225_599_123_000_000_u64, "payload": "x" });
        let set = json!({ "type": "intent", "kind": "timer.set", "params": params });
        assert_eq!(what(&set), "timer.set for 2025-12-31T23:59:59.123Z \"x\"");
    }

    #[test]
    fn worlds_that_a_record_names_have_their_names() {
        let mut record = json!({ "type": "ingress", "input": { "event": "add", "value": 5 },
                                 "sender": { "world": "w_1", "height": 3 } });
        assert_eq!(what(&record), "event add 5 from w_1");
        record["sender"]["world_name"] = json!("bob");
        assert_eq!(what(&record), "event add 5 from bob");
        let mut fork = json!({ "type": "fork_genesis", "parent": "w_1", "forked_at": 7, "policy": "suppress" });
        assert_eq!(what(&fork), "from w_1 at 7, suppress");
        fork["parent_name"] = json!("alice");
        assert_eq!(what(&fork), "from alice at 7, suppress");
    }

    #[test]
    fn a_record_that_is_followed_has_its_time() {
        let record = json!({ "type": "ingress", "height": 7, "now_ns": 1_767_225_599_123_000_000_u64,
                             "input": { "event": "add", "value": 5 } });
        assert_eq!(line_of(&record), "     7  2025-12-31T23:59:59.123Z  ingress           event add 5");
    }
}
