//! JSON Schemas that take exponential time, and values that make them do so.

use crate::{process::Server, scaled};
use serde_json::{Value, json};

const U: &str = "/v1/u/default";

/// The manifest of `kv`, with another schema for `put`.
async fn manifest(server: &Server, put: Value) -> Value {
    let programs = server.get(&format!("{U}/programs")).await.ok(200);
    let kv = programs.as_array().unwrap().iter().find(|program| program["name"] == "kv").unwrap();
    let path = format!("{U}/manifests/{}", kv["manifest"].as_str().unwrap());
    let mut manifest = server.get(&path).await.ok(200);
    manifest["events"]["put"] = put;
    manifest
}

async fn register(server: &Server, put: Value) -> String {
    let manifest = manifest(server, put).await;
    server.post(&format!("{U}/manifests"), &manifest).await.ok(201)["hash"].as_str().unwrap().to_owned()
}

/// `put` with a value that satisfies this.
fn put_of(value: &Value, defs: &Value) -> Value {
    let properties = json!({ "key": { "type": "string" }, "value": value });
    json!({ "$defs": defs, "type": "object", "properties": properties, "required": ["key", "value"] })
}

fn fanned_out(count: usize) -> Value {
    let mut defs = json!({ (format!("d{count}")): { "type": "integer" } });
    for n in 0..count {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        defs[format!("d{n}")] = json!({ "allOf": [next, next] });
    }
    put_of(&json!({ "$ref": "#/$defs/d0" }), &defs)
}

fn tried_twice() -> Value {
    let items = json!({ "type": "array", "items": { "$ref": "#/$defs/x" } });
    put_of(&json!({ "$ref": "#/$defs/x" }), &json!({ "x": { "anyOf": [items, items, { "const": "right" }] } }))
}

fn nested(depth: usize, inner: &str) -> Value {
    (0..depth).fold(json!(inner), |value, _| json!([value]))
}

/// Many branches for each of many items: more work than a check may take.
fn wide() -> (Value, Value) {
    let branches: Vec<Value> = (0..2_000).map(|n| json!({ "required": [format!("p{n}")] })).collect();
    let mut items = vec![json!({ "p1999": 1 }); 20_000];
    items.push(json!({}));
    (put_of(&json!({ "items": { "anyOf": branches } }), &json!({})), Value::Array(items))
}

#[tokio::test]
async fn a_schema_that_expands_without_bound_is_refused_when_it_is_registered() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for put in [
        fanned_out(40),
        put_of(&json!({ "type": "string", "pattern": "^([abcdefgh]{0,100}){0,100}$" }), &json!({})),
        put_of(&json!({ "$ref": "#/$defs/a" }), &json!({ "a": { "allOf": [{ "$ref": "#/$defs/a" }] } })),
    ] {
        let manifest = manifest(&server, put).await;
        let refused = server.post(&format!("{U}/manifests"), &manifest).await.refused(400, "MANIFEST_INVALID");
        assert!(refused["detail"].as_str().unwrap().contains("event `put`"), "{refused}");
    }
    server.get("/livez").await.ok(200);
}

#[tokio::test]
async fn values_that_take_a_schema_exponential_time_stop_neither_the_server_nor_its_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    server.post("/v1/u/other/worlds", &json!({ "world": "c", "program": "counter" })).await.ok(201);
    let (wide, large) = wide();
    for (name, put) in [("twice", tried_twice()), ("wide", wide)] {
        let manifest = register(&server, put).await;
        server.post(&format!("{U}/worlds"), &json!({ "world": name, "manifest": manifest })).await.ok(201);
    }
    server.post(&format!("{U}/worlds"), &json!({ "world": "sender", "program": "kv" })).await.ok(201);
    let id = async |name: &str| server.get(&format!("{U}/worlds/{name}")).await.ok(200)["world"].clone();

    // From outside: refused before it is enqueued.
    let put = |value: &Value| json!({ "key": "k", "value": value });
    let twice = format!("{U}/worlds/twice/call/put");
    server.post(&twice, &put(&nested(22, "wrong"))).await.refused(400, "EVENT_INVALID");
    server.post(&twice, &put(&nested(22, "right"))).await.ok(200);
    server.post(&format!("{U}/worlds/wide/call/put"), &put(&large)).await.refused(400, "SCHEMA_WORK_EXCEEDED");

    // From another world.
    for _ in 0..scaled(1) {
        for (to, value) in [("twice", nested(22, "wrong")), ("wide", large.clone()), ("twice", nested(22, "wrong"))] {
            let told = json!({ "world": id(to).await, "key": "k", "value": value });
            server.post(&format!("{U}/worlds/sender/send/tell"), &told).await.ok(202);
        }
    }
    let calls = scaled(20);
    for n in 1..=calls {
        assert_eq!(server.post("/v1/u/other/worlds/c/call/add", &json!(1)).await.ok(200), n);
        server.get("/livez").await.ok(200);
    }
    server.signal("-TERM");
    assert!(server.wait().success());

    let server = Server::start(folder.path());
    server.get("/readyz").await.ok(200);
    assert_eq!(server.post("/v1/u/other/worlds/c/call/add", &json!(1)).await.ok(200), calls + 1);
    server.post(&twice, &put(&nested(3, "right"))).await.ok(200);
    server.kill();
    let server = Server::start(folder.path());
    assert_eq!(server.post("/v1/u/other/worlds/c/call/add", &json!(1)).await.ok(200), calls + 2);
    server.post(&twice, &put(&nested(3, "right"))).await.ok(200);
}
