//! An inbox whose content no turn can take.

use crate::process::Server;
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

const U: &str = "/v1/u/default";

/// Damages every object: what is in the engine itself stays as it was.
fn damage(folder: &Path) -> usize {
    let mut damaged = 0;
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            damaged += damage(&entry.path());
        } else {
            fs::write(entry.path(), b"damaged").unwrap();
            damaged += 1;
        }
    }
    damaged
}

async fn until_held(server: &Server, world: &str) -> Value {
    loop {
        let found = server.get(&format!("{U}/worlds/{world}")).await.ok(200);
        if !found["hold"].is_null() {
            return found["hold"].clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_world_whose_inbox_cannot_be_taken_is_held_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for (name, program) in [("broken", "kv"), ("whole", "counter")] {
        server.post(&format!("{U}/worlds"), &json!({ "world": name, "program": program })).await.ok(201);
    }
    server.post(&format!("{U}/worlds/broken/call/put"), &json!({ "key": "a", "value": 1 })).await.ok(200);
    server.post(&format!("{U}/worlds/broken/pause"), &Value::Null).await.ok(202);
    let large = json!({ "key": "b", "value": "x".repeat(200_000) });
    server.post(&format!("{U}/worlds/broken/send/put"), &large).await.ok(202);
    server.signal("-TERM");
    assert!(server.wait().success());
    assert!(damage(&folder.path().join("data/objects")) > 0);

    let server = Server::start(folder.path());
    server.post(&format!("{U}/worlds/broken/resume"), &Value::Null).await.ok(202);
    let hold = until_held(&server, "broken").await;
    assert_eq!(hold["code"], "BLOB_CORRUPT", "{hold}");
    assert!(hold["height"].as_u64() > Some(1) && hold["seq"].is_string() && hold["failures"] == 5, "{hold}");
    assert_eq!(server.post(&format!("{U}/worlds/whole/call/add"), &json!(1)).await.ok(200), 1);
    let listed = server.get(&format!("{U}/worlds?on_hold=true")).await.ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    server
        .post(&format!("{U}/worlds/broken/call/put"), &json!({ "key": "c", "value": 1 }))
        .await
        .refused(409, "WORLD_ON_HOLD");
    server.kill();

    let server = Server::start(folder.path());
    server.get("/readyz").await.ok(200);
    assert_eq!(server.get(&format!("{U}/worlds/broken")).await.ok(200)["hold"], hold, "a restart does not release it");
    assert_eq!(server.post(&format!("{U}/worlds/whole/call/add"), &json!(1)).await.ok(200), 2);
    server.post(&format!("{U}/worlds/broken/resume"), &Value::Null).await.ok(202);
    let again = until_held(&server, "broken").await;
    assert_eq!(again["code"], "BLOB_CORRUPT");
    assert_eq!(server.post(&format!("{U}/worlds/whole/call/add"), &json!(1)).await.ok(200), 3);
}
