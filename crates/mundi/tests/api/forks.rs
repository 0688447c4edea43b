//! Forks of a world with an open effect, a timer and messages, under each policy, in the real server.

use crate::process::Server;
use serde_json::{Value, json};
use std::time::Duration;

const T: &str = "/v1/u/default/tasks";
const W: &str = "/v1/u/default/worlds";

const POLICIES: [&str; 5] = ["suppress", "sandbox", "recorded", "recorded-then-live", "live"];

async fn call(server: &Server, world: &str, event: &str, value: &Value) {
    server.post(&format!("{W}/{world}/call/{event}"), value).await.ok(200);
}

async fn ask(server: &Server, world: &str, key: &str, n: u64) {
    call(server, world, "ask", &json!({ "key": key, "kind": "external.task", "params": { "n": n } })).await;
}

/// The value that a world holds under a key, as soon as there is one.
async fn found(server: &Server, world: &str, key: &str) -> Value {
    loop {
        let found = server.post(&format!("{W}/{world}/query/get"), &json!(key)).await.ok(200);
        if found != Value::Null {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn hold_of(server: &Server, world: &str) -> Value {
    loop {
        let hold = server.get(&format!("{W}/{world}")).await.ok(200)["hold"].clone();
        if !hold.is_null() {
            return hold;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Does the tasks that wait for a moment, each with this result; says of which worlds they were.
async fn work(server: &Server, wait: &str, result: &str) -> Vec<Value> {
    let mut worlds = Vec::new();
    loop {
        let form = json!({ "kinds": ["external.task"], "wait": wait, "ttl": "30s" });
        let tasks = server.post(&format!("{T}/claim"), &form).await.ok(200);
        let Some(task) = tasks.as_array().unwrap().first().cloned() else { return worlds };
        for task in tasks.as_array().unwrap() {
            worlds.push(task["world"].clone());
            server.post(&format!("{T}/complete"), &json!({ "claim": task["claim"], "result": result })).await.ok(204);
        }
        assert!(task["world"].is_string(), "{task}");
    }
}

/// A parent whose effect `open` is open at the height that is returned, and answered since; then it asks for `b` and is told.
async fn parent(server: &Server) -> u64 {
    for world in ["p", "other"] {
        server.post(W, &json!({ "world": world, "program": "kv" })).await.ok(201);
    }
    ask(server, "p", "open", 1).await;
    call(server, "p", "remind", &json!({ "key": "reminded", "value": true, "in_ms": 3_000 })).await;
    let head = server.get(&format!("{W}/p")).await.ok(200)["head"].as_u64().unwrap();
    assert_eq!(work(server, "1s", "late").await.len(), 1);
    assert_eq!(found(server, "p", "open").await, json!("late"));
    ask(server, "p", "b", 2).await;
    assert_eq!(work(server, "1s", "B").await.len(), 1);
    assert_eq!(found(server, "p", "b").await, json!("B"));
    head
}

async fn id_of(server: &Server, world: &str) -> Value {
    server.get(&format!("{W}/{world}")).await.ok(200)["world"].clone()
}

#[tokio::test]
async fn each_policy_does_with_effects_messages_and_timers_what_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let at = parent(&server).await;
    for policy in POLICIES {
        let form = json!({ "world": policy, "at": at, "effects": policy });
        let fork = server.post(&format!("{W}/p/fork"), &form).await.ok(201);
        assert_eq!(fork["effects"], policy);
        assert_eq!(server.post(&format!("{W}/p/fork"), &form).await.ok(200)["before"], true);
        assert_eq!(server.get(&format!("{W}/{policy}")).await.ok(200)["effects"], policy);
    }
    // Open effects: only a live fork carries them out again.
    assert_eq!(work(&server, "1s", "again").await, [id_of(&server, "live").await]);
    assert_eq!(found(&server, "live", "open").await, json!("again"));
    assert_eq!(found(&server, "suppress", "open").await["code"], "EFFECT_CANCELLED");
    for policy in ["sandbox", "recorded", "recorded-then-live"] {
        assert_eq!(found(&server, policy, "open").await, json!("late"), "{policy}");
    }
    // What the parent asked for next.
    for policy in POLICIES {
        ask(&server, policy, "b", 2).await;
    }
    let mut done = work(&server, "1s", "own").await;
    let mut live = [id_of(&server, "live").await, id_of(&server, "suppress").await];
    done.sort_by_key(Value::to_string);
    live.sort_by_key(Value::to_string);
    assert_eq!(done, live);
    for policy in POLICIES {
        let answer = if ["suppress", "live"].contains(&policy) { "own" } else { "B" };
        assert_eq!(found(&server, policy, "b").await, json!(answer), "{policy}");
        assert_eq!(found(&server, policy, "reminded").await, json!(true), "the timer of {policy}");
    }
    // A message that the parent never sent.
    for policy in POLICIES {
        let tell = json!({ "world": id_of(&server, "other").await, "key": policy, "value": policy });
        server.post(&format!("{W}/{policy}/send/tell"), &tell).await.ok(202);
    }
    for policy in ["suppress", "recorded-then-live", "live"] {
        assert_eq!(found(&server, "other", policy).await, json!(policy));
    }
    let hold = hold_of(&server, "recorded").await;
    assert_eq!(hold["code"], "FORK_DIVERGED");
    for part in ["at height", "`fabric.send`", "i_"] {
        assert!(hold["reason"].as_str().unwrap().contains(part), "{hold}");
    }
    for policy in ["sandbox", "recorded"] {
        let got = server.post(&format!("{W}/other/query/get"), &json!(policy)).await.ok(200);
        assert_eq!(got, Value::Null, "{policy} wrote to another world");
    }
    for world in POLICIES {
        server.post(&format!("{W}/{world}/verify"), &Value::Null).await.ok(200);
    }
    // A restart releases nobody.
    server.kill();
    let server = Server::start(folder.path());
    assert_eq!(hold_of(&server, "recorded").await, hold);
    ask(&server, "sandbox", "after", 9).await;
    assert_eq!(found(&server, "sandbox", "after").await["code"], "EFFECT_SANDBOXED");
    assert!(work(&server, "0s", "x").await.is_empty());
}

#[tokio::test]
async fn a_sandbox_is_answered_by_its_script_and_stays_one_wherever_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    parent(&server).await;
    let script = json!([
        { "kind": "external.task", "params": { "n": 7 }, "payload": { "$bytes": "00ff" } },
        { "kind": "external.task", "nth": 2, "status": "error", "payload": "second" },
    ]);
    let form = json!({ "world": "s", "effects": "sandbox", "answers": script });
    server.post(&format!("{W}/p/fork"), &form).await.ok(201);
    for (key, n) in [("one", 7), ("two", 8), ("three", 9)] {
        ask(&server, "s", key, n).await;
    }
    let said = |world: &'static str| {
        let server = &server;
        async move {
            let (one, two) = (found(server, world, "one").await, found(server, world, "two").await);
            (one, two, found(server, world, "three").await["code"].clone())
        }
    };
    let expected = (json!({ "$bytes": "00ff" }), json!("second"), json!("EFFECT_SANDBOXED"));
    assert_eq!(said("s").await, expected);
    // Its forks have its policy and its script.
    assert_eq!(server.post(&format!("{W}/s/fork"), &json!({ "world": "t" })).await.ok(201)["effects"], "sandbox");
    ask(&server, "t", "four", 7).await;
    assert_eq!(found(&server, "t", "four").await, json!({ "$bytes": "00ff" }));
    let seeded = server.post(W, &json!({ "world": "seeded", "seed": { "world": "s" } })).await;
    assert!([200, 201].contains(&seeded.status.as_u16()));
    assert_eq!(server.get(&format!("{W}/seeded")).await.ok(200)["effects"], "sandbox");
    for policy in POLICIES.into_iter().filter(|policy| *policy != "sandbox") {
        let form = json!({ "world": "out", "effects": policy });
        server.post(&format!("{W}/s/fork"), &form).await.refused(400, "FORK_SANDBOXED");
    }
    // It is the same in a bundle, and elsewhere.
    let bundle = server.request(reqwest::Method::GET, &format!("{W}/s/bundle")).send().await.unwrap();
    let bundle = bundle.bytes().await.unwrap();
    let import = server.request(reqwest::Method::POST, "/v1/u/default/bundles?world=moved&effects=live");
    assert_eq!(import.body(bundle).send().await.unwrap().status(), 201);
    assert_eq!(server.get(&format!("{W}/moved")).await.ok(200)["effects"], "sandbox");
    ask(&server, "moved", "five", 7).await;
    assert_eq!(found(&server, "moved", "five").await, json!({ "$bytes": "00ff" }));
    server.post(&format!("{W}/moved/verify"), &Value::Null).await.ok(200);
    assert!(work(&server, "0s", "x").await.is_empty(), "nothing of all this was carried out");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_and_makes_no_fork() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "p", "program": "kv" })).await.ok(201);
    let fork = |form: Value| {
        let server = &server;
        async move { server.post(&format!("{W}/p/fork"), &form).await }
    };
    fork(json!({ "world": "f", "effects": "kept" })).await.refused(400, "REQUEST_INVALID");
    fork(json!({ "world": "f", "answers": [] })).await.refused(400, "ANSWERS_INVALID");
    for bad in [
        json!({ "kind": "" }),
        json!({ "kind": "http.request", "nth": 0 }),
        json!({ "kind": "http.request", "params": 1 }),
        json!({ "kind": "http.request", "payload": { "$bytes": "0" } }),
        json!({ "kind": "http.request", "payload": "x".repeat(20_000) }),
    ] {
        let form = json!({ "world": "f", "effects": "sandbox", "answers": [bad] });
        let refused = fork(form).await.refused(400, "ANSWERS_INVALID");
        assert!(refused["detail"].as_str().unwrap().contains("answer 0"), "{refused}");
    }
    server.get(&format!("{W}/f")).await.refused(404, "WORLD_NOT_FOUND");
    let document = server.get("/openapi.json").await.ok(200);
    let description = &document["paths"]["/v1/u/{universe}/worlds/{world}/fork"]["post"]["description"];
    assert!(description.as_str().unwrap().contains(mundi_model::FORK_POLICIES));
}
