//! The server's side of the console: the page, the caller's identity, counts, and steps of the past.

use crate::process::Server;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn the_page_is_served_to_its_own_host_and_may_load_nothing_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for path in ["/", "/console", "/console/"] {
        let page = server.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(page.headers["content-encoding"], "gzip");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let tag = page.headers["etag"].to_str().unwrap();
        let again = server.send(Method::GET, path, &[("if-none-match", tag)], &Value::Null).await;
        assert_eq!(again.status, 304, "{path}");
    }
    server.get("/console/nothing.js").await.refused(404, "ROUTE_NOT_FOUND");
    for foreign in [("host", "evil.example"), ("origin", "http://evil.example")] {
        server.send(Method::GET, "/", &[foreign], &Value::Null).await.refused(403, "ORIGIN_DENIED");
    }
}

#[tokio::test]
async fn a_caller_is_told_what_its_token_allows() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let local = server.get("/v1/whoami").await.ok(200);
    assert_eq!((&local["name"], &local["universe"], &local["token"]), (&json!("local"), &Value::Null, &Value::Null));
    assert_eq!(local["can"], json!(["read", "send", "admin", "work", "metrics"]));
    let form = json!({ "universe": "default", "can": ["read"], "label": "reader" });
    let token = server.post("/v1/tokens", &form).await.ok(201);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let asked = server.send(Method::GET, "/v1/whoami", &[("authorization", &bearer)], &Value::Null).await.ok(200);
    assert_eq!((&asked["name"], &asked["universe"]), (&json!("reader"), &json!("default")));
    assert_eq!((&asked["can"], &asked["token"]), (&json!(["read"]), &token["id"]));
}

const U: &str = "/v1/u/default";

#[tokio::test]
async fn a_summary_counts_worlds_by_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for world in ["a", "b", "c"] {
        let form = json!({ "world": world, "program": "counter" });
        server.post(&format!("{U}/worlds"), &form).await.ok(201);
    }
    server.post(&format!("{U}/worlds/a/fork"), &json!({ "world": "d" })).await.ok(201);
    server.post(&format!("{U}/worlds/b/archive"), &json!({})).await.ok(204);
    server.delete(&format!("{U}/worlds/c")).await.ok(204);
    let found = server.get(&format!("{U}/summary")).await.ok(200);
    let worlds = &found["worlds"];
    assert_eq!((&worlds["forks"], &worlds["archived"], &worlds["more"]), (&json!(1), &json!(1), &json!(false)));
    assert_eq!((&worlds["on_hold"], &worlds["failed"]), (&json!(0), &json!(0)));
    assert_eq!(
        (&found["effects_pending"], &found["timers"], &found["dead_letters"]),
        (&json!(0), &json!(0), &json!(0))
    );
}

#[tokio::test]
async fn a_step_of_the_past_says_what_it_changed_and_what_was_open_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(&format!("{U}/worlds"), &json!({ "world": "w", "program": "kv" })).await.ok(201);
    let call =
        async |event: &str, value: Value| server.post(&format!("{U}/worlds/w/call/{event}"), &value).await.ok(200);
    call("put", json!({ "key": "a", "value": 1 })).await;
    call("put", json!({ "key": "a", "value": 2 })).await;
    call("delete", json!({ "key": "a" })).await;
    call("remind", json!({ "key": "later", "value": 1, "in_ms": 86_400_000 })).await;
    call("ask", json!({ "key": "b", "kind": "external.task", "params": { "n": 1 } })).await;
    let journal = server.get(&format!("{U}/worlds/w/journal")).await.ok(200);
    let items = journal["items"].as_array().unwrap();
    let heights: Vec<_> =
        items.iter().filter(|it| it["type"] == "ingress").map(|it| it["height"].as_u64().unwrap()).collect();
    let step =
        async |height: u64, query: &str| server.get(&format!("{U}/worlds/w/steps/{height}{query}")).await.ok(200);
    assert_eq!(step(heights[0], "").await["changes"], json!([{ "key": "a", "right": 1 }]));
    let second = step(heights[1], "?cells=10").await;
    assert_eq!(second["changes"], json!([{ "key": "a", "left": 1, "right": 2 }]));
    assert_eq!(second["cells"], json!([{ "key": "a", "value": 2 }]));
    assert_eq!(second["record"]["height"], heights[1]);
    assert_eq!(step(heights[1] + 1, "").await["changes"], json!([]), "a reply changes no cell");
    assert_eq!(step(heights[2], "").await["changes"], json!([{ "key": "a", "left": 2 }]));
    let reminded = step(heights[3], "").await;
    assert_eq!((&reminded["timers_total"], &reminded["open_intents_total"]), (&json!(1), &json!(0)));
    let asked = step(heights[4], "").await;
    assert_eq!((&asked["timers_total"], &asked["open_intents_total"]), (&json!(1), &json!(1)));
    assert_eq!(asked["open_intents"][0]["kind"], "external.task");
    assert_eq!(asked["open_intents"][0]["params"], json!({ "n": 1 }));
    assert_eq!(step(0, "").await["record"]["type"], "genesis");
    let head = items.len();
    server.get(&format!("{U}/worlds/w/steps/{head}")).await.refused(400, "HEIGHT_OUT_OF_RANGE");
    server.get(&format!("{U}/worlds/w/steps/x")).await.refused(400, "REQUEST_INVALID");
    server.get(&format!("{U}/worlds/w/steps/1?cells=1001")).await.refused(400, "REQUEST_INVALID");
}
