//! Durable functions over HTTP, as far as no component is needed: what is read from cells, and what is refused.

use crate::process::Server;
use reqwest::Method;
use serde_json::json;

const W: &str = "/v1/u/default/worlds";

#[tokio::test]
async fn a_world_without_functions_lists_none_and_refuses_commands_about_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    let functions = format!("{W}/c/functions");
    let listed = server.get(&functions).await.ok(200);
    assert_eq!((&listed["items"], &listed["next"]), (&json!([]), &json!(null)));
    server.get(&format!("{functions}/order/17")).await.refused(404, "FUNCTION_NOT_FOUND");
    for (method, query) in [(Method::DELETE, ""), (Method::PUT, "?paused=true")] {
        let command = server.send(method, &format!("{functions}/order/17{query}"), &[], &json!(null)).await;
        command.refused(404, "FUNCTION_NOT_FOUND");
    }
    server.post(&format!("{functions}/order"), &json!(1)).await.refused(400, "FUNCTION_KEY_INVALID");
    server.post(&format!("{functions}/order/17"), &json!(1)).await.refused(400, "EVENT_INVALID");
    server.get(&format!("{W}/nobody/functions")).await.refused(404, "WORLD_NOT_FOUND");
}

#[tokio::test]
async fn an_instance_is_described_with_the_awaits_of_its_pages_and_its_cells() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "cells", "program": "kv" })).await.ok(201);
    let head =
        json!({ "format": 2, "function": "order", "key": "17", "state": "running", "run": 0, "asked": 3, "waits": [] });
    let cells = [
        ("$fn/i/order/17", head),
        ("$fn/l/order/17/000000", json!(r#"[0,"start","order","ok",null,null,{"cents":8},10,1,"900",3]"#)),
        ("$fn/l/order/17/000002", json!(r#"[2,"timer","sleep","open",null,null,null,5,9,"900",3]"#)),
        (
            "$fn/p/order/17/000000",
            json!(
                r#"[1,"effect","pay","ok",0,"1000",{"id":7},10,99,"900",3,4,2],[3,"effect","check","error",1,"1000",{"code":"NO"},10,99,"900",4,6,1]"#
            ),
        ),
    ];
    for (key, value) in cells {
        server.post(&format!("{W}/cells/call/put"), &json!({ "key": key, "value": value })).await.ok(200);
    }
    let found = server.get(&format!("{W}/cells/functions/order/17")).await.ok(200);
    assert_eq!(found["input"], json!({ "cents": 8 }));
    let log = found["log"].as_array().unwrap();
    let seen: Vec<_> = log.iter().map(|it| json!([it["number"], it["name"], it["state"], it["ended_at"]])).collect();
    assert_eq!(seen, [json!([1, "pay", "ok", 4]), json!([2, "sleep", "open", null]), json!([3, "check", "error", 6])]);
    assert_eq!((&log[0]["value"], &log[0]["attempts"]), (&json!({ "id": 7 }), &json!(2)));
    forks_begin_at_awaits(&server).await;
}

/// The fork has the command of its await as its first input, once; the same request finds it again, another result does not.
async fn forks_begin_at_awaits(server: &Server) {
    let fork = format!("{W}/cells/fork");
    let thief = json!({ "world": "thief", "at_await": "order/17/3", "with": { "fraud": true } });
    let made = server.post(&fork, &thief).await.ok(201);
    assert_eq!(made["forked_at"], 6, "the height of the record that ended the await");
    assert_eq!(server.post(&fork, &thief).await.ok(200)["before"], true);
    let other = json!({ "world": "thief", "at_await": "order/17/3", "with": { "fraud": false } });
    server.post(&fork, &other).await.refused(409, "WORLD_EXISTS");
    server.post(&fork, &json!({ "world": "thief", "at_await": "order/17/3" })).await.refused(409, "WORLD_EXISTS");
    server.post(&format!("{W}/thief/call/put"), &json!({ "key": "a", "value": 1 })).await.ok(200);
    let journal = server.get(&format!("{W}/thief/journal?from=7")).await.ok(200);
    assert_eq!(journal.to_string().matches("\"$fn\"").count(), 1, "it is told once: {journal}");
    assert!(journal["items"][0].to_string().contains("\"$fn\""), "before anything else: {journal}");
    let failed = json!({ "world": "no", "at_await": "order/17/1", "with_error": { "code": "CARD", "reason": "no" } });
    assert_eq!(server.post(&fork, &failed).await.ok(201)["forked_at"], 4);
    let open = json!({ "world": "open", "at_await": "order/17/2", "with": null });
    let head = server.get(&format!("{W}/cells")).await.ok(200)["head"].clone();
    assert_eq!(server.post(&fork, &open).await.ok(201)["forked_at"], head, "an await that is open: the newest height");
    let wrong = [
        (json!({ "at_await": "order/17/9" }), 404, "FUNCTION_NOT_FOUND"),
        (json!({ "at_await": "order/18/1" }), 404, "FUNCTION_NOT_FOUND"),
        (json!({ "at_await": "order/17" }), 400, "REQUEST_INVALID"),
        (json!({ "at_await": "order/17/1", "at": 3 }), 400, "REQUEST_INVALID"),
        (json!({ "with": 1 }), 400, "REQUEST_INVALID"),
        (json!({ "at_await": "order/17/1", "with": 1, "with_error": { "code": "NO" } }), 400, "REQUEST_INVALID"),
        (json!({ "at_await": "order/17/1", "with_error": { "code": "" } }), 400, "REQUEST_INVALID"),
        (json!({ "at_await": "order/17/1", "with": "x".repeat(70_000) }), 413, "INBOX_ITEM_TOO_LARGE"),
    ];
    for (request, status, code) in wrong {
        server.post(&fork, &request).await.refused(status, code);
    }
}

#[tokio::test]
async fn running_a_function_gives_its_event_and_its_key_to_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    // A handler of the event answers as a function would.
    let answer = server.post(&format!("{W}/c/functions/add/17"), &json!(5)).await.ok(200);
    assert_eq!(answer, json!(5));
    let journal = server.get(&format!("{W}/c/journal")).await.ok(200);
    assert!(journal.to_string().contains("\"17\""), "{journal}");
}
