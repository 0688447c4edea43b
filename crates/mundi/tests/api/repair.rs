//! Failed steps in sight, worlds on hold at them, and what programs log: over HTTP, and over a kill.

use crate::{
    guest::superstitious,
    process::{Answer, Server},
};
use mundi_model::Hash;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const U: &str = "/v1/u/default";

async fn until(server: &Server, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let found = server.get(path).await.ok(200);
        if is_so(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Stores the program, and a manifest of it with this policy.
pub(crate) async fn store(server: &Server, on_failure: &Value) -> Value {
    let code = superstitious();
    let path = format!("{U}/programs/{}", Hash::of(&code));
    Answer::of(server.request(Method::PUT, &path).body(code).send().await.unwrap()).await.ok(201);
    let mut manifest = until(server, &path, |state| state["state"] == "ready").await["manifest"].clone();
    manifest["on_failure"] = on_failure.clone();
    server.post(&format!("{U}/manifests"), &manifest).await.ok(201)["hash"].clone()
}

#[tokio::test]
async fn a_world_stops_at_a_failed_input_over_a_kill_and_goes_on_when_it_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let manifest = store(&server, &json!("hold")).await;
    server.post(&format!("{U}/worlds"), &json!({ "world": "a", "manifest": manifest })).await.ok(201);
    assert_eq!(server.post(&format!("{U}/worlds/a/call/go"), &json!(1)).await.ok(200), 1);
    let failed = server.post(&format!("{U}/worlds/a/call/go"), &json!(13)).await;
    let problem: Value = serde_json::from_str(&failed.text).unwrap();
    assert!(problem["height"].is_u64() && problem["call"].is_string(), "{problem}");
    failed.refused(422, "PROGRAM_TRAPPED");
    server.post(&format!("{U}/worlds/a/send/go"), &json!(2)).await.ok(202);
    let held = until(&server, &format!("{U}/worlds/a"), |world| !world["hold"].is_null()).await;
    assert_eq!((&held["hold"]["failed_input"], &held["failures"]), (&json!("event go"), &json!(1)), "{held}");
    let heights = [&problem, &held["hold"], &held["failed"]].map(|said| said["height"].clone());
    assert!(heights.iter().all(|height| *height == heights[0]), "one failure, one height: {heights:?}");
    server.post(&format!("{U}/worlds/a/call/go"), &json!(3)).await.refused(409, "WORLD_ON_HOLD");
    let metrics = server.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let counted = metrics.lines().find(|line| line.starts_with("mundi_step_failures_total{")).unwrap();
    assert!(counted.contains("code=\"PROGRAM_TRAPPED\"") && counted.ends_with(" 1"), "{counted}");
    let logs = server.get(&format!("{U}/worlds/a/logs")).await.ok(200);
    let lines = logs["items"].as_array().unwrap();
    assert!(lines.len() == 2 && lines.iter().all(|line| line["text"] == "a number came"), "{logs}");
    server.kill();

    let server = Server::start(folder.path());
    assert_eq!(server.get(&format!("{U}/worlds/a/logs")).await.ok(200), logs, "they were stored with their turns");
    let listed = server.get(&format!("{U}/worlds?failed=true")).await.ok(200);
    assert_eq!(listed["items"][0]["hold"], held["hold"]);
    let skipped = server.post(&format!("{U}/worlds/a/skip"), &Value::Null).await.ok(202);
    assert_eq!(skipped["input"], held["hold"]["seq"]);
    let call = problem["call"].as_str().unwrap();
    server.get(&format!("{U}/worlds/a/calls/{call}")).await.refused(422, "STEP_SKIPPED");
    assert_eq!(server.post(&format!("{U}/worlds/a/call/go"), &json!(3)).await.ok(200), 3);
    server.post(&format!("{U}/worlds/a/skip"), &Value::Null).await.refused(409, "WORLD_NOT_ON_HOLD");
    let journal = server.get(&format!("{U}/worlds/a/journal?limit=100")).await.ok(200);
    let records = journal["items"].as_array().unwrap();
    let skip = records.iter().find(|record| record["input"]["control"] == "skip").unwrap();
    assert!(skip["input"]["operator"]["name"].is_string() && skip["input"]["input"] == held["hold"]["seq"], "{skip}");
    let world = server.get(&format!("{U}/worlds/a")).await.ok(200);
    assert_eq!((&world["hold"], &world["failures"]), (&Value::Null, &json!(0)));
    server.post(&format!("{U}/worlds/a/verify"), &Value::Null).await.ok(200);
}

#[tokio::test]
async fn lines_are_told_as_they_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let manifest = store(&server, &json!("continue")).await;
    server.post(&format!("{U}/worlds"), &json!({ "world": "a", "manifest": manifest })).await.ok(201);
    server.post(&format!("{U}/worlds/a/call/go"), &json!(1)).await.ok(200);
    let request = server.request(Method::GET, &format!("{U}/worlds/a/logs")).header("accept", "text/event-stream");
    let mut stream = request.send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\"number\":0") {
        seen.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    let failed = server.post(&format!("{U}/worlds/a/call/go"), &json!(13)).await;
    let problem: Value = serde_json::from_str(&failed.text).unwrap();
    failed.refused(422, "PROGRAM_TRAPPED");
    while !seen.contains("\"number\":1") {
        seen.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    assert!(seen.contains("event: log") && seen.contains("id: 1"), "{seen}");
    let after = server.get(&format!("{U}/worlds/a/logs?after=0&limit=1")).await.ok(200);
    assert_eq!((&after["items"][0]["number"], &after["next"]), (&json!(1), &Value::Null));
    let world = server.get(&format!("{U}/worlds/a")).await.ok(200);
    assert_eq!((&world["failed"]["code"], &world["hold"]), (&json!("PROGRAM_TRAPPED"), &Value::Null));
    let listed = server.get(&format!("{U}/worlds?failed=true")).await.ok(200);
    let heights =
        [&world["failed"], &listed["items"][0]["failed"], &after["items"][0]].map(|said| said["height"].clone());
    assert!(heights.iter().all(|height| *height == problem["height"]), "{problem} and {heights:?}");
    let taken = server.get(&format!("{U}/worlds/a/journal?from={}&limit=1", problem["height"])).await.ok(200);
    assert_eq!(taken["items"][0]["input"]["event"], "go", "what the step was about stands there");
}

#[tokio::test]
async fn a_caller_hears_at_once_that_an_output_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(&format!("{U}/worlds"), &json!({ "world": "k", "program": "kv" })).await.ok(201);
    let ask = json!({ "key": "x", "kind": "external.task", "params": {} });
    server.post(&format!("{U}/worlds/k/send/ask"), &ask).await.ok(202);
    let refused = server.post(&format!("{U}/worlds/k/call/ask"), &ask).await;
    let problem: Value = serde_json::from_str(&refused.text).unwrap();
    assert!(problem["height"].is_u64(), "the label is in use: {problem}");
    refused.refused(422, "OUTPUT_REFUSED");
}
