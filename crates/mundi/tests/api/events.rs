//! Sending and calling.

use crate::process::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const U: &str = "/v1/u/default/worlds";

async fn counter(server: &Server, name: &str) {
    server.post(U, &json!({ "world": name, "program": "counter" })).await.ok(201);
}

async fn count(server: &Server, world: &str) -> Value {
    server.post(&format!("{U}/{world}/query/count"), &Value::Null).await.ok(200)
}

/// Until a count is reached: what was sent is taken in soon.
async fn until(server: &Server, world: &str, expected: i64) {
    for _ in 0..500 {
        if count(server, world).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{world} has {} and not {expected}", count(server, world).await);
}

#[tokio::test]
async fn a_call_answers_with_the_reply_and_can_be_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    let answer = server.post(&format!("{U}/c/call/add"), &json!(5)).await;
    let call = answer.headers["mundi-call"].to_str().unwrap().to_owned();
    assert_eq!(answer.ok(200), 5);
    assert_eq!(server.get(&format!("{U}/c/calls/{call}")).await.ok(200), 5);
    // Nobody was ever called there.
    let never = "s_000000000000ffff00000000";
    let problem = server.get(&format!("{U}/c/calls/{never}?timeout=50ms")).await.refused(504, "CALL_TIMEOUT");
    assert_eq!(problem["call"], never);
    server.get(&format!("{U}/nobody/calls/{never}?timeout=50ms")).await.refused(404, "WORLD_NOT_FOUND");
    server.get(&format!("{U}/c/calls/x")).await.refused(400, "ID_INVALID");
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_a_call_finds_the_reply_later() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    server.post(&format!("{U}/c/pause"), &Value::Null).await.ok(202);
    let key = [("idempotency-key", "k")];
    let path = format!("{U}/c/call/add");
    let left = server.request(Method::POST, &path).header("idempotency-key", "k").body("7");
    assert!(left.timeout(Duration::from_millis(300)).send().await.unwrap_err().is_timeout());
    // Why there is no reply is said, too, unless a busy server takes too long to find out.
    let mut is_told = false;
    for _ in 0..100 {
        let late = server.send(Method::POST, &format!("{path}?timeout=50ms"), &key, &json!(7)).await;
        is_told = late.refused(504, "CALL_TIMEOUT")["detail"].as_str().unwrap().contains("it is paused by ");
        if is_told {
            break;
        }
    }
    assert!(is_told);
    server.post(&format!("{U}/c/resume"), &Value::Null).await.ok(202);
    assert_eq!(server.send(Method::POST, &path, &key, &json!(7)).await.ok(200), 7, "taken in once");
    assert_eq!(count(&server, "c").await, 7);
}

#[tokio::test]
async fn an_idempotency_key_makes_a_repeated_send_harmless_also_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    let (path, key) = (format!("{U}/c/send/add"), [("idempotency-key", "order-1")]);
    let first = server.send(Method::POST, &path, &key, &json!(2)).await.ok(202);
    assert_eq!(first["before"], false);
    drop(server); // killed
    let server = Server::start(folder.path());
    let again = server.send(Method::POST, &path, &key, &json!(2)).await.ok(202);
    assert_eq!((&again["before"], &again["seq"]), (&json!(true), &first["seq"]));
    until(&server, "c", 2).await;
    // A call of the same key is another one, else it would wait for a reply that nobody was asked for.
    let call = server.send(Method::POST, &format!("{U}/c/call/add"), &key, &json!(2)).await;
    assert_eq!(call.ok(200), 4);
}

#[tokio::test]
async fn a_delayed_event_survives_a_kill_and_arrives_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    let sent = server.post(&format!("{U}/c/send/add?delay=400ms"), &json!(3)).await.ok(202);
    assert_eq!(sent["seq"], Value::Null);
    assert_eq!(count(&server, "c").await, 0);
    drop(server);
    let server = Server::start(folder.path());
    until(&server, "c", 3).await;
    server.post(&format!("{U}/c/send/add?delay=soon"), &json!(3)).await.refused(400, "REQUEST_INVALID");
}

#[tokio::test]
async fn concurrent_callers_of_one_world_are_each_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = std::sync::Arc::new(Server::start(folder.path()));
    counter(&server, "c").await;
    let calls = (0..100).map(|_| {
        let server = server.clone();
        tokio::spawn(async move { server.post(&format!("{U}/c/call/add"), &json!(1)).await.ok(200).as_i64().unwrap() })
    });
    let mut sums = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        sums.push(call.await.unwrap());
    }
    sums.sort_unstable();
    assert_eq!(sums, (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn batches_and_cloud_events_are_taken_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    let path = format!("{U}/c/events");
    let batch = json!([{"event": "add", "value": 1}, {"event": "add", "value": 2, "idempotency_key": "k"}]);
    assert_eq!(server.post(&path, &batch).await.ok(202).as_array().unwrap().len(), 2);
    let bad = json!([{"event": "add", "value": 1}, {"event": "add", "value": "x"}]);
    server.post(&path, &bad).await.refused(400, "EVENT_INVALID");
    server.post(&path, &json!([])).await.refused(400, "BATCH_INVALID");
    let many: Vec<_> = (0..2_000).map(|_| json!({"event": "add"})).collect();
    server.post(&path, &json!(many)).await.refused(413, "REQUEST_TOO_LARGE");

    let cloud = json!({"specversion": "1.0", "id": "1", "source": "/s", "type": "add", "data": 10});
    let structured = [("content-type", "application/cloudevents+json; charset=utf-8")];
    for before in [false, true] {
        let sent = server.send(Method::POST, &path, &structured, &cloud).await.ok(202);
        assert_eq!(sent[0]["before"], before);
    }
    let binary = [
        ("ce-specversion", "1.0"),
        ("ce-id", "2"),
        ("ce-source", "/s"),
        ("ce-type", "add"),
        ("content-type", "application/json"),
    ];
    server.send(Method::POST, &path, &binary, &json!(100)).await.ok(202);
    let batch = [("content-type", "application/cloudevents-batch+json")];
    server.send(Method::POST, &path, &batch, &json!([cloud])).await.ok(202);
    let old = json!({"specversion": "0.3", "id": "3", "source": "/s", "type": "add"});
    server.send(Method::POST, &path, &structured, &old).await.refused(400, "REQUEST_INVALID");
    until(&server, "c", 113).await;
}

#[tokio::test]
async fn what_a_world_does_not_take_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    for verb in ["send", "call"] {
        let at = |event: &str| format!("{U}/c/{verb}/{event}");
        server.post(&at("add"), &json!("x")).await.refused(400, "EVENT_INVALID");
        server.post(&at("nope"), &json!(1)).await.refused(400, "EVENT_INVALID");
        let malformed = server.request(Method::POST, &at("add")).body("{").send().await.unwrap();
        Answer::of(malformed).await.refused(400, "JSON_MALFORMED");
        server.post(&format!("{U}/nobody/{verb}/add"), &json!(1)).await.refused(404, "WORLD_NOT_FOUND");
        server.post(&format!("/v1/u/nowhere/worlds/c/{verb}/add"), &json!(1)).await.refused(404, "UNIVERSE_NOT_FOUND");
        let large = "x".repeat(5 << 20);
        server.post(&at("add"), &json!(large)).await.refused(413, "REQUEST_TOO_LARGE");
        let long = server.send(Method::POST, &at("add"), &[("idempotency-key", &"k".repeat(300))], &json!(1)).await;
        long.refused(400, "REQUEST_INVALID");
    }
    server.post(&format!("{U}/c/call/add"), &json!(i64::MAX)).await.ok(200);
    server.post(&format!("{U}/c/call/add"), &json!(1)).await.refused(422, "PROGRAM_FAILED");
    assert_eq!(count(&server, "c").await, json!({ "$integer": i64::MAX.to_string() }));
}

#[tokio::test]
async fn cbor_goes_in_and_comes_out_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    let call = |body: &'static [u8]| {
        let request = server.request(Method::POST, &format!("{U}/c/call/add")).body(body);
        request.header("content-type", "application/cbor").header("accept", "application/cbor").send()
    };
    let answer = call(&[0x18, 0x2a]).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/cbor");
    assert_eq!(&answer.bytes().await.unwrap()[..], [0x18, 0x2a]);
    let loose = call(&[0x19, 0x00, 0x2a]).await.unwrap();
    Answer::of(loose).await.refused(400, "CBOR_NOT_CANONICAL");
}

#[tokio::test]
async fn a_full_inbox_asks_for_patience_and_takes_more_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    counter(&server, "c").await;
    server.post(&format!("{U}/c/pause"), &Value::Null).await.ok(202);
    let batch: Vec<_> = (0..1_000).map(|_| json!({"event": "add", "value": 1})).collect();
    let (batch, mut sent) = (json!(batch), 0);
    let refused = loop {
        let answer = server.post(&format!("{U}/c/events"), &batch).await;
        if answer.status != 202 {
            break answer;
        }
        sent += 1_000;
        assert!(sent <= 200_000, "an inbox has a bound");
    };
    refused.refused(429, "INBOX_FULL");
    server.post(&format!("{U}/c/resume"), &Value::Null).await.ok(202);
    while server.post(&format!("{U}/c/send/add"), &json!(1)).await.status != 202 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
