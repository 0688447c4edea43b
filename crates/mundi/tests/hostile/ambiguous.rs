//! Requests that two readers understand in two ways, and answers that reach further than they should.

use crate::process::{Answer, Server};
use reqwest::Method;
use serde_json::json;

const W: &str = "/v1/u/default/worlds";

async fn post(server: &Server, path: &str, body: &str, content_type: &str) -> Answer {
    let request = server.request(Method::POST, path).body(body.to_owned()).header("content-type", content_type);
    Answer::of(request.send().await.unwrap()).await
}

#[tokio::test]
async fn json_that_says_two_things_is_refused_wherever_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "k", "program": "kv" })).await.ok(201);
    let cloud = r#"{"specversion":"1.0","id":"1","source":"s","type":"put","data":VALUE}"#;
    let batch = r#"[{"event":"put","value":VALUE}]"#;
    let plain = "application/json";
    let twice = r#"{"key":"a","value":{"x":1,"x":2}}"#;
    let large = r#"{"key":"a","value":[1.5,1000000000000000000000000000000]}"#;
    for (value, code) in [(twice, "JSON_KEY_REPEATED"), (large, "INTEGER_TOO_LARGE")] {
        for (path, body, content_type) in [
            ("/k/send/put", "VALUE", plain),
            ("/k/call/put", "VALUE", plain),
            ("/k/send/put?delay=1h", "VALUE", plain),
            ("/k/query/get", "VALUE", plain),
            ("/k/events", batch, plain),
            ("/k/events", cloud, "application/cloudevents+json"),
            ("/k/events", &format!("[{cloud}]"), "application/cloudevents-batch+json"),
        ] {
            let answer = post(&server, &format!("{W}{path}"), &body.replace("VALUE", value), content_type).await;
            answer.refused(400, code);
        }
        let task = format!(r#"{{"claim":"c_00","result":{value}}}"#);
        post(&server, "/v1/u/default/tasks/complete", &task, plain).await.refused(400, code);
        let manifest = format!(r#"{{"program":{value}}}"#);
        post(&server, "/v1/u/default/manifests", &manifest, plain).await.refused(400, code);
    }
    let world = r#"{"world":"one","program":"kv","world":"other"}"#;
    post(&server, W, world, plain).await.refused(400, "JSON_KEY_REPEATED");
    let form = post(&server, W, r#"{"world":1}"#, plain).await.refused(400, "REQUEST_INVALID");
    assert!(form["detail"].as_str().unwrap().contains("line 1"), "{form}");
    let binary = server.request(Method::POST, &format!("{W}/k/events")).body(twice);
    let binary = [("ce-id", "1"), ("ce-source", "s"), ("ce-type", "put"), ("ce-specversion", "1.0")]
        .into_iter()
        .fold(binary, |request, (name, value)| request.header(name, value));
    Answer::of(binary.send().await.unwrap()).await.refused(400, "JSON_KEY_REPEATED");
    assert_eq!(server.post(&format!("{W}/k/query/get"), &json!("a")).await.ok(200), json!(null), "nothing was taken");
}

#[tokio::test]
async fn a_reminder_in_a_time_without_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "k", "program": "kv" })).await.ok(201);
    let remind = |in_ms: &str| format!(r#"{{"key":"a","value":1,"in_ms":{in_ms}}}"#);
    for (in_ms, status, code) in [
        ("1000000000000000000000000000000", 400, "INTEGER_TOO_LARGE"),
        ("1e30", 400, "EVENT_INVALID"),
        ("18446744073709551615", 400, "EVENT_INVALID"),
        ("-1", 400, "EVENT_INVALID"),
        ("1000.0", 422, "PROGRAM_FAILED"),
    ] {
        post(&server, &format!("{W}/k/call/remind"), &remind(in_ms), "application/json").await.refused(status, code);
    }
    server.post(&format!("{W}/k/call/remind"), &json!({ "key": "b", "value": 1, "in_ms": 3_600_000 })).await.ok(200);
    let timers = server.get("/v1/u/default/timers").await.ok(200);
    assert_eq!(timers["items"].as_array().unwrap().len(), 1, "{timers}");
    assert_eq!(server.post(&format!("{W}/k/query/get"), &json!("a")).await.ok(200), json!(null), "none fired");
}

#[tokio::test]
async fn a_world_has_a_name_that_an_address_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for name in [".", ".."] {
        let form = json!({ "world": name, "program": "counter" });
        server.post(W, &form).await.refused(400, "NAME_INVALID");
    }
    server.post(W, &json!({ "world": "...", "program": "counter" })).await.ok(201);
    server.post(&format!("{W}/.../fork"), &json!({ "world": ".." })).await.refused(400, "NAME_INVALID");
    assert_eq!(server.post(&format!("{W}/.../call/add"), &json!(1)).await.ok(200), 1);
}

#[tokio::test]
async fn the_metrics_of_a_process_are_not_for_the_tokens_of_one_universe() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let make = async |form: serde_json::Value| {
        server.post("/v1/tokens", &form).await.ok(201)["token"].as_str().unwrap().to_owned()
    };
    let all = ["read", "send", "admin", "work"];
    let scoped = make(json!({ "universe": "default", "can": all })).await;
    let given = make(json!({ "universe": "default", "can": ["metrics"] })).await;
    let everywhere = make(json!({ "can": ["read"] })).await;
    let sender = make(json!({ "can": ["send", "admin", "work"] })).await;
    let ask = async |scheme: &str, token: &str, path: &str| {
        let authorization = format!("{scheme} {token}");
        server.send(Method::GET, path, &[("authorization", &authorization)], &json!(null)).await
    };
    for denied in [&scoped, &sender] {
        ask("Bearer", denied, "/metrics").await.refused(403, "TOKEN_DENIED");
    }
    for allowed in [&given, &everywhere] {
        assert_eq!(ask("Bearer", allowed, "/metrics").await.status, 200);
    }
    ask("Bearer", &given, "/v1/u/default/worlds").await.refused(403, "TOKEN_DENIED");
    // The name of a scheme has no case.
    for scheme in ["bearer", "BEARER"] {
        ask(scheme, &scoped, "/v1/u/default/worlds").await.ok(200);
    }
    ask("Basic", &scoped, "/v1/u/default/worlds").await.refused(401, "TOKEN_MISSING");
}

#[tokio::test]
async fn no_cache_that_many_share_keeps_a_blob_or_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let stored = server.post("/v1/u/default/blobs", &json!("mine")).await.ok(201);
    let blob = server.get(&format!("/v1/u/default/blobs/{}", stored["hash"].as_str().unwrap())).await;
    assert_eq!(blob.headers["cache-control"], "private, max-age=31536000, immutable");
    let token = server.post("/v1/tokens", &json!({ "can": ["read"] })).await;
    assert_eq!(token.headers["cache-control"], "no-store");
}
