//! Why a world does not move that a program or a lost worker holds up, of the real server.

use crate::{process::Server, repair::store};
use serde_json::{Value, json};
use std::time::Duration;

const W: &str = "/v1/u/default/worlds";

/// The causes of a world, as soon as one of them is this.
async fn why(server: &Server, world: &str, cause: &str) -> Value {
    loop {
        let why = server.get(&format!("{W}/{world}/why")).await.ok(200);
        let found = why["causes"].as_array().unwrap().iter().find(|found| found["cause"] == cause);
        if let Some(found) = found {
            return found.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_world_on_hold_waits_for_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let manifest = store(&server, &json!("hold")).await;
    server.post(W, &json!({ "world": "h", "manifest": manifest })).await.ok(201);
    server.post(&format!("{W}/h/call/go"), &json!(13)).await.refused(422, "PROGRAM_TRAPPED");
    let held = why(&server, "h", "person").await;
    assert_eq!((&held["code"], held["input"].is_string()), (&json!("PROGRAM_TRAPPED"), true), "{held}");
    server.post(&format!("{W}/h/send/go"), &json!(2)).await.ok(202);
    assert_eq!(why(&server, "h", "inbox").await["code"], "PROGRAM_TRAPPED");
    server.delete(&format!("{W}/h")).await.ok(204);
    why(&server, "h", "deleted").await;
}

#[tokio::test]
async fn a_world_that_nobody_can_run_says_whether_it_waits_for_a_lease_or_for_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "a", "program": "counter" })).await.ok(201);
    server.post(&format!("{W}/a/call/add"), &json!(1)).await.ok(200);
    server.kill();
    // Nobody runs worlds in this process; the lease of the one that was killed has not run out.
    let server = Server::start_as(folder.path(), &["server", "--roles", "api"], "API at ", &[]);
    server.post(&format!("{W}/a/send/add"), &json!(1)).await.ok(202);
    let lease = why(&server, "a", "lease").await;
    assert!(lease["by"].is_string() && lease["until"].is_string(), "{lease}");
    let new = json!({ "world": "b", "program": "counter", "labels": { "k": "v" } });
    server.post(W, &new).await.ok(201);
    let room = why(&server, "b", "room").await;
    assert_eq!(room["advice"], "start a worker, or raise node.worlds_max", "{room}");
}

#[tokio::test]
async fn an_effect_that_nobody_carries_out_names_the_setting_that_its_kind_needs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "k", "program": "kv" })).await.ok(201);
    let ask = |kind: &str| json!({ "key": kind, "kind": kind, "params": {} });
    for (kind, setting) in [("llm.chat", "llm.base_url"), ("process.run", "process.commands")] {
        server.post(&format!("{W}/k/call/ask"), &ask(kind)).await.ok(200);
        while !server.get(&format!("{W}/k/why")).await.ok(200).to_string().contains(setting) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn an_effect_that_waits_for_a_slot_of_the_process_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("MUNDI_PROCESS__COMMANDS", "{ rest = { program = \"/bin/sleep\", folder = \"/\", args = [\"60\"] } }"),
        ("MUNDI_EFFECTS__CALLS_MAX", "1"),
    ];
    let server = Server::start_with(folder.path(), &settings);
    server.post(W, &json!({ "world": "k", "program": "kv" })).await.ok(201);
    for key in ["a", "b"] {
        let ask = json!({ "key": key, "kind": "process.run", "params": { "command": "rest" } });
        server.post(&format!("{W}/k/call/ask"), &ask).await.ok(200);
    }
    let full = why(&server, "k", "budget").await;
    assert_eq!((&full["budget"], &full["limit"]), (&json!("calls_max"), &json!(1)), "{full}");
    assert_eq!(full["kind"], "process.run", "{full}");
}

#[tokio::test]
async fn the_command_line_prints_what_changes_in_a_universe() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let url = server.url.clone();
    let events = tokio::task::spawn_blocking(move || {
        let command = ["universe", "events", "--format", "json", "--count", "2", "--url", &url];
        std::process::Command::new(env!("CARGO_BIN_EXE_mundi")).args(command).output().unwrap()
    });
    // Until it has said it: the command may connect before or after a world is created.
    let mut number = 0;
    while !events.is_finished() {
        number += 1;
        server.post(W, &json!({ "world": format!("n{number}"), "program": "counter" })).await.ok(201);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let output = events.await.unwrap();
    let lines: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines[0]["changed"], json!(["worlds", "dead_letters", "workers", "timers"]));
    assert_eq!((&lines[0]["worlds"], &lines[0]["more_worlds"]), (&json!([]), &json!(true)));
    assert!(lines[1]["changed"].as_array().unwrap().contains(&json!("worlds")), "{lines:?}");
    let named = lines[1]["worlds"].as_array().unwrap();
    assert!(!named.is_empty(), "{lines:?}");
    for world in named {
        assert!(world["world"].as_str().unwrap().starts_with("w_"), "{world}");
        assert!(world["name"].as_str().unwrap().starts_with('n'), "{world}");
    }
}
