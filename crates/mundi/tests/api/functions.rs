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
