//! Admission: new work is refused early when a process has too much in memory, or a world is too far behind.

use crate::process::Server;
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

const W: &str = "/v1/u/default/worlds";

/// The value of a metric without labels.
async fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").await.text;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not in\n{text}"))
}

#[tokio::test]
async fn a_process_with_too_much_in_memory_takes_no_new_work_and_answers_all_else() {
    let folder = tempfile::tempdir().unwrap();
    let full = Server::start_with(folder.path(), &[("MUNDI_API__MEMORY_BYTES_MAX", "1")]);
    for path in [W.to_owned(), format!("{W}/c/send/add"), format!("{W}/c/call/add"), format!("{W}/c/events")] {
        let answer = full.post(&path, &json!({ "world": "c", "program": "counter" })).await;
        assert_eq!(answer.headers["retry-after"], "10");
        answer.refused(503, "NODE_OVERLOADED");
    }
    assert_eq!(metric(&full, "mundi_refused_memory_total").await, 4);
    assert!(metric(&full, "mundi_memory_bytes").await > 1 << 20);
    full.get(W).await.ok(200);
    drop(full);
    let other = Server::start_with(folder.path(), &[("MUNDI_API__MEMORY_BYTES_MAX", "0")]);
    other.post(W, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    assert_eq!(metric(&other, "mundi_refused_memory_total").await, 0);
}

/// Refused, they would keep in use what is to become free, and take leases from holders that are there.
#[tokio::test]
async fn a_process_with_too_much_in_memory_lets_holders_keep_and_release_what_they_have() {
    const P: &str = "/v1/u/default/pools";
    let folder = tempfile::tempdir().unwrap();
    let open = Server::start_with(folder.path(), &[("MUNDI_API__MEMORY_BYTES_MAX", "0")]);
    open.post(P, &json!({ "name": "gpus", "shards": 1, "config": {} })).await.ok(201);
    open.post(&format!("{P}/gpus/resources"), &json!({ "resources": [{ "resource": "a", "labels": [] }] }))
        .await
        .ok(200);
    let reserve = json!({ "resources": ["a"], "holder": "me", "ttl_slots": 1000 });
    let lease = open.post(&format!("{P}/gpus/reserve"), &reserve).await.ok(200);
    open.post(W, &json!({ "world": "f", "program": "counter" })).await.ok(201);
    drop(open);
    let full = Server::start_with(folder.path(), &[("MUNDI_API__MEMORY_BYTES_MAX", "1")]);
    full.post(&format!("{P}/gpus/reserve"), &reserve).await.refused(503, "NODE_OVERLOADED");
    let held = json!({ "lease_id": lease["lease_id"], "lease_epoch": lease["lease_epoch"], "holder": "me" });
    full.post(&format!("{P}/gpus/activate"), &held).await.ok(200);
    full.post(&format!("{P}/gpus/heartbeat"), &held).await.ok(204);
    full.post(&format!("{P}/gpus/release"), &held).await.ok(200);
    // The world has no functions: that is what it says, and not that it is busy.
    let function = format!("{W}/f/functions/order/17");
    full.delete(&function).await.refused(404, "FUNCTION_NOT_FOUND");
    let pause = full.send(Method::PUT, &format!("{function}?paused=true"), &[], &json!(null)).await;
    pause.refused(404, "FUNCTION_NOT_FOUND");
    full.post(&function, &json!(1)).await.refused(503, "NODE_OVERLOADED");
}

#[tokio::test]
async fn a_world_that_is_too_far_behind_takes_no_more_and_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let bound = [("MUNDI_API__INBOX_AGE_MS_MAX", "100")];
    let api = Server::start_as(folder.path(), &["server", "--roles", "api"], "API at ", &bound);
    for world in ["late", "fresh"] {
        api.post(W, &json!({ "world": world, "program": "counter" })).await.ok(201);
    }
    let mut sent = 0;
    let refused = loop {
        let answer = api.post(&format!("{W}/late/send/add"), &json!(1)).await; // nobody runs worlds: its inbox grows old
        if answer.status != 202 {
            break answer;
        }
        sent += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(refused.headers["retry-after"], "10");
    refused.refused(429, "WORLD_OVERLOADED");
    api.post(&format!("{W}/late/call/add"), &json!(1)).await.refused(429, "WORLD_OVERLOADED");
    api.post(&format!("{W}/late/events"), &json!([{ "event": "add" }])).await.refused(429, "WORLD_OVERLOADED");
    assert_eq!(metric(&api, "mundi_refused_inbox_age_total").await, 3);
    api.post(&format!("{W}/fresh/send/add"), &json!(1)).await.ok(202);
    drop(api);
    let all = Server::start_with(folder.path(), &bound);
    let value = loop {
        let answer = all.post(&format!("{W}/late/call/add"), &json!(1)).await;
        if answer.status == 200 {
            break answer.json;
        }
        answer.refused(429, "WORLD_OVERLOADED");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(value, sent + 1, "what was taken before was done, and what was refused was not stored");
}
