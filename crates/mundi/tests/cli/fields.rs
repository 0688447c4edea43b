//! The output of commands, as a user reads it.

#![expect(clippy::disallowed_methods, reason = "a process of its own is waited for")]

use crate::{
    process::Server,
    program::{at, mundi, run},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

fn document(server: &Server, arguments: &[&str]) -> Value {
    serde_json::from_str(&at(&server.url, &[&["--format", "json"], arguments].concat()).ok()).unwrap()
}

#[tokio::test]
async fn a_journal_has_times_and_says_what_was_replied_and_what_was_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    ask(&["world", "create", "alice", "--program", "kv"]).ok();
    assert_eq!(ask(&["world", "call", "alice", "put", r#"{"key": "a", "value": 1}"#]).ok(), "null\n");
    ask(&["world", "call", "alice", "remind", r#"{"key": "r", "value": "soon", "in_ms": 3600000}"#]).ok();
    ask(&["world", "call", "alice", "ask", r#"{"key": "b", "kind": "external.task", "params": {}}"#]).ok();
    let effect = document(&server, &["effect", "list"])["items"][0]["effect"].as_str().unwrap().to_owned();
    ask(&["effect", "answer", &effect, "--status", "ok", r#"{"body": {"$bytes": "6869"}}"#]).ok();
    let journal = loop {
        let journal = ask(&["world", "journal", "alice"]).ok();
        if journal.contains("receipt") {
            break journal;
        }
    };
    let line = |of: &str| journal.lines().find(|line| line.contains(of)).unwrap_or_else(|| panic!("{of}: {journal}"));
    assert!(line(" reply ").ends_with("null") && !journal.contains("failed"), "{journal}");
    assert!(line(" ingress ").contains(r#"event put {"key":"a","value":1}"#), "{journal}");
    assert!(line("receipt ok").ends_with(r#"external.task {"body":"hi"}"#), "{journal}");
    let timer = line("timer.set");
    assert!(timer.contains("timer.set for 20") && timer.ends_with(r#"Z "soon""#), "{journal}");
    let time = line(" ingress ").split_whitespace().nth(1).unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{journal}");
}

#[tokio::test]
async fn a_journal_is_followed_over_a_restart_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bind = format!("127.0.0.1:{port}");
    let server = Server::start_with(folder.path(), &[("MUNDI_API__BIND", &bind)]);
    let url = server.url.clone();
    at(&url, &["world", "create", "alice", "--program", "counter"]).ok();
    let mut follow = mundi();
    follow.args(["world", "journal", "alice", "--follow", "--format", "json", "--url", &url]).stdout(Stdio::piped());
    let mut follow = follow.spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut heights = Vec::new();
    let mut until = |value: i64| loop {
        let record: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        heights.push(record["height"].as_u64().unwrap());
        if record["input"]["value"] == value {
            return heights.clone();
        }
    };
    at(&url, &["world", "call", "alice", "add", "5"]).ok();
    until(5);
    server.kill();
    let _again = Server::start_with(folder.path(), &[("MUNDI_API__BIND", &bind)]);
    at(&url, &["world", "call", "alice", "add", "7"]).ok();
    let heights = until(7);
    follow.kill().unwrap();
    follow.wait().unwrap();
    assert_eq!(heights, (0..heights.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_negative_number_is_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    at(&server.url, &["world", "create", "alice", "--program", "counter"]).ok();
    assert_eq!(at(&server.url, &["world", "call", "alice", "add", "-3"]).ok(), "-3\n");
    at(&server.url, &["world", "send", "alice", "add", "-4", "--idempotency-key", "k"]).ok();
    assert_eq!(at(&server.url, &["world", "call", "alice", "add", "0"]).ok(), "-7\n");
}

#[tokio::test]
async fn an_event_with_a_key_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments).ok();
    ask(&["world", "create", "alice", "--program", "counter"]);
    let call = ["world", "call", "alice", "add", "5", "--idempotency-key", "k"];
    assert_eq!((ask(&call), ask(&call)), ("5\n".to_owned(), "5\n".to_owned()));
    let send = ["world", "send", "alice", "add", "10", "--idempotency-key", "k"];
    assert_eq!(ask(&send), ask(&send));
    assert_eq!(ask(&["world", "call", "alice", "add", "0"]), "15\n");
}

#[tokio::test]
async fn an_event_is_sent_with_the_key_that_its_program_sees() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    at(&server.url, &["world", "create", "alice", "--program", "counter"]).ok();
    at(&server.url, &["world", "send", "alice", "add", "5", "--key", "a/1 &b"]).ok();
    assert_eq!(at(&server.url, &["world", "call", "alice", "add", "0"]).ok(), "5\n");
    let journal = document(&server, &["world", "journal", "alice"]);
    assert!(journal.to_string().contains(r#""key":"a/1 &b""#), "{journal}");
}

#[tokio::test]
async fn a_world_says_what_it_does_and_errors_name_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    ask(&["world", "create", "alice", "--program", "counter"]).ok();
    ask(&["world", "call", "alice", "add", "5"]).ok();
    assert_eq!(document(&server, &["world", "describe", "alice"])["state"], "live");
    ask(&["world", "pause", "alice"]).ok();
    let paused = || document(&server, &["world", "list"])["items"][0]["state"] == "paused";
    while !paused() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(document(&server, &["world", "describe", "alice"])["state"], "paused");
    assert!(ask(&["world", "list"]).ok().contains("paused"));
    ask(&["world", "resume", "alice"]).ok();
    ask(&["world", "call", "alice", "add", "5"]).ok();
    assert_eq!(document(&server, &["world", "describe", "alice"])["state"], "live");

    let beyond = ask(&["world", "query", "alice", "count", "--at", "99"]);
    assert!(beyond.code == 3 && beyond.err.contains("HEIGHT_OUT_OF_RANGE"), "{}", beyond.err);
    assert!(beyond.err.contains("`alice`"), "{}", beyond.err);
    assert!(beyond.err.contains("`mundi explain HEIGHT_OUT_OF_RANGE`"), "{}", beyond.err);
    let missing = server.get("/v1/u/default/worlds/nobody").await.refused(404, "WORLD_NOT_FOUND");
    assert!(missing["detail"].as_str().unwrap().contains("`nobody`"), "{missing}");
    let missing = server.post("/v1/u/default/worlds/nobody/send/add", &json!(1)).await.refused(404, "WORLD_NOT_FOUND");
    assert!(missing["detail"].as_str().unwrap().contains("`nobody`"), "{missing}");
    let manifest = document(&server, &["manifest", "list"])["items"][0]["manifest"].as_str().unwrap().to_owned();
    ask(&["program", "describe", &manifest]).failed(4, "is a manifest");
    assert!(ask(&["world", "snapshots", "alice"]).ok().contains("LOGICAL TIME"));
}

#[test]
fn errors_and_settings_are_explained_without_a_server() {
    let page = run(&["explain", "effect_denied"]).ok();
    assert!(page.starts_with("# EFFECT_DENIED") && page.contains("http.private_hosts_allowed"), "{page}");
    assert!(run(&["explain"]).ok().contains("LEASE_FENCED"));
    run(&["explain", "NOPE"]).failed(3, "`mundi explain` lists the codes");
    let all = run(&["config", "show", "--all"]).ok();
    assert!(all.contains("http.private_hosts_allowed = []\n    MUNDI_HTTP__PRIVATE_HOSTS_ALLOWED\n"), "{all}");
    let json: Value = serde_json::from_str(&run(&["config", "show", "--all", "--format", "json"]).ok()).unwrap();
    assert!(json["items"].as_array().unwrap().iter().all(|setting| setting["what"] != ""));
}

/// An operator follows one effect by one name, from its first failure to its receipt.
#[tokio::test]
async fn an_effect_has_one_id_for_life_and_its_attempts_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    ask(&["world", "create", "alice", "--program", "kv"]).ok();
    let task = json!({ "key": "k", "kind": "external.task", "params": {} }).to_string();
    ask(&["world", "call", "alice", "ask", &task]).ok();
    let listed = document(&server, &["effect", "list"])["items"][0].clone();
    let effect = listed["effect"].as_str().unwrap().to_owned();
    assert!(effect.starts_with("i_") && listed["stage"] == "pending", "{listed}");

    let claim = async || {
        let kinds = json!({ "kinds": ["external.task"], "wait": "5s" });
        server.post("/v1/u/default/tasks/claim", &kinds).await.ok(200)[0]["claim"].clone()
    };
    let held = claim().await;
    assert_eq!(document(&server, &["effect", "describe", &effect])["stage"], "claimed");
    let why = json!({ "claim": held, "reason": "the printer is on fire", "retry_after_ms": 3_600_000 });
    server.post("/v1/u/default/tasks/fail", &why).await.ok(204);
    assert!(ask(&["effect", "list"]).ok().contains("EFFECT_FAILED: the printer is on fire"));
    let waiting = document(&server, &["effect", "describe", &effect]);
    let failed = &waiting["failed"][0];
    assert_eq!((&waiting["stage"], &failed["attempt"]), (&"waiting".into(), &1.into()), "{waiting}");
    assert_eq!((&failed["reason"], &failed["next"]), (&"the printer is on fire".into(), &waiting["not_before"]));
    assert!(failed["worker"].as_str().is_some_and(|worker| !worker.is_empty()) && failed["at"].is_string());
    let described = ask(&["effect", "describe", &effect]).ok();
    assert!(described.contains("REASON") && described.contains("the printer is on fire"), "{described}");

    assert_eq!(document(&server, &["effect", "retry", &effect])["changed"], true);
    let done = json!({ "claim": claim().await, "result": 7 });
    server.post("/v1/u/default/tasks/complete", &done).await.ok(204);
    while ask(&["world", "query", "alice", "get", "k"]).ok() == "null\n" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    ask(&["effect", "describe", &effect]).failed(4, "with the name of its world");
    let over = document(&server, &["effect", "describe", &effect, "--world", "alice"]);
    assert_eq!((&over["stage"], &over["receipt"]["status"]), (&"answered".into(), &"ok".into()), "{over}");
    assert_eq!(over["receipt"]["payload"], 7);
    assert_eq!(over["failed"][0]["reason"], "the printer is on fire", "{over}");
    ask(&["effect", "retry", &effect, "--world", "alice"]).failed(5, "RECEIPT_CLOSED");
    ask(&["effect", "cancel", &effect, "--world", "alice"]).failed(5, "RECEIPT_CLOSED");

    ask(&["world", "call", "alice", "ask", &task]).ok();
    let next = document(&server, &["effect", "list"])["items"][0]["effect"].as_str().unwrap().to_owned();
    assert_ne!(next, effect);
    assert_eq!(document(&server, &["effect", "cancel", &next, "--reason", "enough"])["changed"], true);
    let cancelled = || document(&server, &["effect", "describe", &next, "--world", "alice"]);
    while cancelled()["stage"] != "answered" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(cancelled()["receipt"]["payload"]["reason"], "enough");
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_with_what_would_allow_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    ask(&["world", "create", "alice", "--program", "kv"]).ok();
    for (key, host) in [("address", "127.0.0.1"), ("name", "localhost")] {
        let get = json!({ "key": key, "kind": "http.request", "params": { "url": format!("http://{host}:1/") } });
        ask(&["world", "call", "alice", "ask", &get.to_string()]).ok();
        let answer = loop {
            let answer = ask(&["world", "query", "alice", "get", key]).ok();
            if answer != "null\n" {
                break answer;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        assert!(answer.contains("EFFECT_DENIED") && answer.contains("http.private_hosts_allowed"), "{answer}");
        assert!(answer.contains(host), "{answer}");
    }
    let head = || document(&server, &["world", "describe", "alice"])["head"].clone();
    let before = head();
    ask(&["world", "call", "alice", "put", r#"{"nonsense": 1}"#]).failed(3, "EVENT_INVALID");
    ask(&["world", "call", "alice", "nope"]).failed(3, "EVENT_INVALID");
    ask(&["world", "send", "alice", "nope"]).failed(3, "EVENT_INVALID");
    assert_eq!(head(), before, "an invalid call is not journaled");
}
