//! Messages and calls to a world of another universe, by someone who has a right in the universe of the sender only.

use crate::{
    components::{settled, upload},
    guest::component,
    process::{Answer, Server},
};
use mundi_model::cbor;
use reqwest::Method;
use serde_json::{Value, json};
use std::{fmt::Write, time::Duration};

const OWN: &str = "/v1/u/mallory";
const OTHER: &str = "/v1/u/default";

/// Where the parts of the effects stand in the memory of the component.
const OPTIONS_AT: usize = 4_096;
const PARTS_AT: usize = 4_352;

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "\\{byte:02x}").unwrap();
        text
    })
}

/// Sends `add` to a world of another universe on each event, and calls it with the same.
fn intruder(universe: &str, world: &str) -> Vec<u8> {
    let text = |text: &str| mundi_model::Value::Text(text.to_owned());
    let call = [("world", text(world)), ("universe", text(universe)), ("event", text("add"))];
    let call = call.map(|(name, value)| (name.to_owned(), value));
    let one = mundi_model::Value::Integer(1.into());
    let call = cbor::encode(&mundi_model::Value::Map(call.into_iter().chain([("value".to_owned(), one)]).collect()));
    let parts: [&[u8]; 6] = [world.as_bytes(), universe.as_bytes(), b"add", b"\x01", b"world.call", &call];
    let mut at = PARTS_AT;
    let [world, universe, event, one, kind, call] = parts.map(|part| {
        let place = [at, part.len()];
        at += part.len();
        place
    });
    // The parameters of `send-with`, as its types lay them out: whereto, the case and the fields of the event, the universe, no correlation id,
    // no headers, no message id, an empty label.
    let (none, some, nothing) = ([0; 3], |[at, len]: [usize; 2]| [1, at, len], [0; 2]);
    let words = [&world[..], &[0], &event, &one, &nothing, &some(universe), &none, &nothing, &none, &nothing];
    let words: Vec<u8> =
        words.concat().into_iter().flat_map(|word| u32::try_from(word).unwrap().to_le_bytes()).collect();
    let functions = format!(
        r#"
      (data (i32.const {OPTIONS_AT}) "{}")
      (data (i32.const {PARTS_AT}) "{}")
      (func (export "handle") (param $event i32) (result i32)
        ;; Only on an event, and not on a receipt: the case of the cause stands behind the origin.
        (if (i32.eqz (i32.load8_u offset=72 (local.get $event))) (then
          (call $send (i32.const {OPTIONS_AT}) (i32.const 256))
          (call $emit (i32.const {}) (i32.const {}) (i32.const {}) (i32.const {}) (i32.const 0) (i32.const 0) (i32.const 256))))
        (i32.const 0))
      (func (export "query") (param i32 i32 i32 i32) (result i32) (i32.const 0))"#,
        escaped(&words),
        escaped(&parts.concat()),
        kind[0],
        kind[1],
        call[0],
        call[1],
    );
    let imports = r#"
    (import "mundi:program/host@1.1.0" "send-with" (func $send (param i32 i32)))
    (import "mundi:program/host@1.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32 i32 i32)))"#;
    let schema = r#"{"events":{"go":true},"effects":{"fabric.send":{},"world.call":{}}}"#;
    component(imports, "", schema, &functions)
}

async fn receipts(server: &Server, count: usize) -> Vec<Value> {
    loop {
        let journal = server.get(&format!("{OWN}/worlds/m/journal?limit=1000")).await.ok(200);
        let records = journal["items"].as_array().unwrap();
        let receipts: Vec<_> =
            records.iter().filter(|record| record.to_string().contains("\"receipt\"")).cloned().collect();
        if receipts.len() >= count {
            return receipts;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_token_without_a_right_in_another_universe_reaches_none_of_its_worlds() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/universes", &json!({ "name": "mallory" })).await.ok(201);
    let made = server.post(&format!("{OTHER}/worlds"), &json!({ "world": "c", "program": "counter" })).await.ok(201);
    let universes = server.get("/v1/universes").await.ok(200);
    let other = universes.as_array().unwrap().iter().find(|universe| universe["name"] == "default").unwrap();
    let other = other["universe"].as_str().unwrap();
    let form = json!({ "universe": "mallory", "can": ["read", "send", "admin"] });
    let token = server.post("/v1/tokens", &form).await.ok(201)["token"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let ask = async |server: &Server, method: Method, path: &str, body: &Value| -> Answer {
        server.send(method, path, &[("authorization", &bearer)], body).await
    };
    let head = async |server: &Server| server.get(&format!("{OTHER}/worlds/c")).await.ok(200)["head"].clone();
    let before = head(&server).await;
    assert!(before.is_u64(), "{before}");
    // By the API.
    let world = made["world"].as_str().unwrap();
    for path in [format!("{OTHER}/worlds/c/send/add"), format!("/v1/u/{other}/worlds/{world}/call/add")] {
        ask(&server, Method::POST, &path, &json!(1)).await.refused(403, "TOKEN_DENIED");
    }

    // By a program that the token may register and run in the universe that is its own.
    let code = intruder(other, world);
    upload(&server, OWN, &code).await;
    let manifest = settled(&server, OWN, &code).await["manifest"].clone();
    let manifest = ask(&server, Method::POST, &format!("{OWN}/manifests"), &manifest).await.ok(201)["hash"].clone();
    let new = json!({ "world": "m", "manifest": manifest });
    ask(&server, Method::POST, &format!("{OWN}/worlds"), &new).await.ok(201);
    ask(&server, Method::POST, &format!("{OWN}/worlds/m/send/go"), &Value::Null).await.ok(202);
    for receipt in receipts(&server, 2).await {
        assert!(receipt.to_string().contains("UNIVERSE_DENIED"), "{receipt}");
    }
    let count =
        async |server: &Server| server.post(&format!("{OTHER}/worlds/c/query/count"), &Value::Null).await.ok(200);
    assert_eq!(count(&server).await, json!(0));
    assert_eq!(head(&server).await, before, "nothing is on record there");
    drop(server);

    // Not for a mistake in what it sent: the universe that accepts it gets both.
    let server = Server::start_with(folder.path(), &[("MUNDI_UNIVERSES__DEFAULT__ACCEPTS_FROM", "[\"mallory\"]")]);
    ask(&server, Method::POST, &format!("{OWN}/worlds/m/send/go"), &Value::Null).await.ok(202);
    receipts(&server, 4).await;
    // The receipt of a send says that its message is in the inbox.
    while count(&server).await != json!(2) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
