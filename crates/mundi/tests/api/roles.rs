//! Chosen roles: what a process does that has only some.

use crate::process::{Server, client};
use serde_json::json;
use std::{path::Path, process::Command, time::Duration};

const W: &str = "/v1/u/default/worlds";

fn with_roles(folder: &Path, roles: &str) -> Server {
    Server::start_as(folder, &["server", "--roles", roles], "API at ", &[])
}

#[tokio::test]
async fn an_api_alone_takes_events_in_and_leaves_them_to_who_runs_worlds() {
    let folder = tempfile::tempdir().unwrap();
    let api = with_roles(folder.path(), "api");
    api.post(W, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    api.post(&format!("{W}/c/send/add"), &json!(5)).await.ok(202);
    let late = api.post(&format!("{W}/c/call/add?timeout=200ms"), &json!(1)).await;
    late.refused(504, "CALL_TIMEOUT");
    assert_eq!(api.get(&format!("{W}/c/journal")).await.ok(200)["items"].as_array().unwrap().len(), 1, "its genesis");
    assert_eq!(api.get("/v1/u/default/workers").await.ok(200), json!([]));
    drop(api);
    let all = with_roles(folder.path(), "api,world,orchestrator");
    assert_eq!(all.post(&format!("{W}/c/call/add"), &json!(10)).await.ok(200), 16, "nothing was lost meanwhile");
}

#[tokio::test]
async fn timers_wait_for_a_process_that_fires_them() {
    let folder = tempfile::tempdir().unwrap();
    let remind = json!({ "key": "k", "value": "ring", "in_ms": 1 });
    let worlds = with_roles(folder.path(), "api,world,orchestrator,adapter");
    worlds.post(W, &json!({ "world": "k", "program": "kv" })).await.ok(201);
    worlds.post(&format!("{W}/k/call/remind"), &remind).await.ok(200);
    assert_eq!(worlds.get("/v1/u/default/timers").await.ok(200)["items"].as_array().unwrap().len(), 1);
    drop(worlds);
    let all = with_roles(folder.path(), "api,world,orchestrator,timer");
    while all.post(&format!("{W}/k/query/get"), &json!("k")).await.ok(200) != "ring" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_process_without_an_api_still_says_how_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let health = [("MUNDI_API__HEALTH_BIND", "127.0.0.1:0"), ("MUNDI_API__BIND", "127.0.0.1:1")];
    let node = Server::start_as(folder.path(), &["server", "--roles", "world,timer"], "metrics at ", &health);
    assert_eq!(node.get("/livez").await.status, 200);
    assert_eq!(node.get("/readyz").await.status, 200);
    assert!(node.get("/metrics").await.text.contains("mundi_resident_worlds 0"));
    for nothing in ["/v1/universes", "/openapi.json", W] {
        node.get(nothing).await.refused(404, "ROUTE_NOT_FOUND");
    }
    let elsewhere = client().get(format!("{}/metrics", node.url)).header("host", "evil.example").send().await.unwrap();
    assert_eq!(elsewhere.status(), 403);
}

#[test]
fn a_role_that_does_not_exist_is_refused_with_those_that_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mundi"));
    let ended = command.args(["server", "--roles", "world,king", "--data"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    for word in ["king", "world", "adapter", "timer", "orchestrator", "api", "CONFIG_INVALID"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
}
