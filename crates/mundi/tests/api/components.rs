//! Components over HTTP: upload, wait, declare, run, refuse.

use crate::{
    guest::{adder, asker},
    process::{Answer, Server},
};
use mundi_model::Hash;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const U: &str = "/v1/u/default";

async fn put(server: &Server, code: &[u8]) -> Answer {
    let path = format!("{U}/programs/{}", Hash::of(code));
    Answer::of(server.request(Method::PUT, &path).body(code.to_vec()).send().await.unwrap()).await
}

/// Waits until the program is compiled, and says what it offers.
async fn offered(server: &Server, code: &[u8]) -> Value {
    loop {
        let state = server.get(&format!("{U}/programs/{}", Hash::of(code))).await.ok(200);
        match state["state"].as_str().unwrap() {
            "queued" | "compiling" => tokio::time::sleep(Duration::from_millis(10)).await,
            "ready" => return state["manifest"].clone(),
            _ => panic!("{state}"),
        }
    }
}

#[tokio::test]
async fn a_component_is_uploaded_declared_and_runs_also_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    put(&server, &adder()).await.ok(201);
    let manifest = offered(&server, &adder()).await;
    assert_eq!(manifest["wasm"]["engine"], mundi_wasm::ENGINE);
    let stored = server.post(&format!("{U}/manifests"), &manifest).await.ok(201);
    server.post(&format!("{U}/worlds"), &json!({ "world": "a", "manifest": stored["hash"] })).await.ok(201);
    assert_eq!(server.post(&format!("{U}/worlds/a/call/add"), &json!(3)).await.ok(200), json!(3));
    assert_eq!(server.post(&format!("{U}/worlds/a/call/add"), &json!(4)).await.ok(200), json!(7));
    server.post(&format!("{U}/worlds/a/call/add"), &json!("x")).await.refused(400, "EVENT_INVALID");
    server.kill();

    // Compiled code is found on disk, the component in the content store, and the world replays.
    let server = Server::start(folder.path());
    assert_eq!(server.post(&format!("{U}/worlds/a/call/add"), &json!(5)).await.ok(200), json!(12));
    assert_eq!(server.post(&format!("{U}/worlds/a/query/sum"), &Value::Null).await.ok(200), json!(12));
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_at_the_door() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let wasi = wat::parse_str(r#"(component (import "wasi:clocks/wall-clock@0.2.0" (instance)))"#).unwrap();
    let refused = put(&server, &wasi).await;
    assert!(refused.text.contains("wasm32-unknown-unknown"), "{}", refused.text);
    refused.refused(400, "PROGRAM_REFUSED");
    put(&server, &adder()[..1000]).await.refused(400, "PROGRAM_REFUSED");
    server.get(&format!("{U}/programs/{}", Hash::of(&wasi))).await.refused(404, "PROGRAM_UNKNOWN");

    put(&server, &adder()).await.ok(201);
    let mut manifest = offered(&server, &adder()).await;
    manifest["wasm"]["engine"] = json!("wasmtime-47/x86_64-v2/1");
    server.post(&format!("{U}/manifests"), &manifest).await.refused(503, "PROGRAM_ENGINE");
    manifest["wasm"] = json!({ "engine": mundi_wasm::ENGINE, "limits": { "memory_bytes_max": 1 } });
    server.post(&format!("{U}/manifests"), &manifest).await.refused(400, "PROGRAM_REFUSED");
    manifest["wasm"]["limits"]["memory_bytes_max"] = json!(1_u64 << 40);
    server.post(&format!("{U}/manifests"), &manifest).await.refused(400, "MANIFEST_INVALID");
}

/// Waits until an effect is asked for.
async fn open_effects(server: &Server) {
    while server.get(&format!("{U}/effects")).await.ok(200)["items"].as_array().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn manifest(server: &Server, code: &[u8]) -> String {
    put(server, code).await.ok(201);
    let manifest = offered(server, code).await;
    let stored = server.post(&format!("{U}/manifests"), &manifest).await.ok(201);
    stored["hash"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_upgrade_that_would_treat_open_work_differently_is_refused_unless_forced_and_the_force_is_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let write = "(call $put (i32.const 512) (i32.const 4) (i32.const 519) (i32.const 1))";
    let [first, writes, fails] = [
        manifest(&server, &asker("")).await,
        manifest(&server, &asker(write)).await,
        manifest(&server, &asker("unreachable")).await,
    ];
    server.post(&format!("{U}/worlds"), &json!({ "world": "a", "manifest": first })).await.ok(201);
    let upgrade = async |manifest: &str, forced: bool| {
        server.post(&format!("{U}/worlds/a/upgrade"), &json!({ "manifest": manifest, "forced": forced })).await
    };
    let manifest_now = async |expected: &str| loop {
        let world = server.get(&format!("{U}/worlds/a")).await.ok(200);
        if world["manifest"] == expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // Nothing is open: whatever it did before, it may do something else from now on.
    upgrade(&fails, false).await.ok(202);
    manifest_now(&fails).await;
    upgrade(&first, false).await.ok(202);
    manifest_now(&first).await;

    server.post(&format!("{U}/worlds/a/send/go"), &Value::Null).await.ok(202);
    open_effects(&server).await;
    let refused = upgrade(&fails, false).await;
    refused.refused(409, "UPGRADE_DIVERGES");
    manifest_now(&first).await;
    // Other cells are no other outcome to the outside.
    upgrade(&writes, false).await.ok(202);
    manifest_now(&writes).await;
    upgrade(&fails, true).await.ok(202);
    manifest_now(&fails).await;
    let journal = server.get(&format!("{U}/worlds/a/journal?limit=100")).await;
    let forced = journal.text.matches("\"forced\":true").count();
    assert!(forced >= 1, "{}", journal.text);
}

#[tokio::test]
async fn a_hostile_component_ends_on_record_and_its_neighbours_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let good = manifest(&server, &adder()).await;
    server.post(&format!("{U}/worlds"), &json!({ "world": "good", "manifest": good })).await.ok(201);
    for (world, then, code) in [
        ("endless", "(loop $again (br $again))", "BUDGET_EXHAUSTED"),
        ("talkative", "(call $handle (local.get $event)) drop", "BUDGET_EXHAUSTED"),
        ("trap", "unreachable", "PROGRAM_TRAPPED"),
    ] {
        let bad = manifest(&server, &asker(then)).await;
        server.post(&format!("{U}/worlds"), &json!({ "world": world, "manifest": bad })).await.ok(201);
        let (go, add) = (format!("{U}/worlds/{world}/call/go"), format!("{U}/worlds/good/call/add"));
        let one = json!(1);
        let (failed, added) = tokio::join!(server.post(&go, &Value::Null), server.post(&add, &one));
        assert!(failed.text.contains(code), "{}", failed.text);
        added.ok(200);
        let journal = server.get(&format!("{U}/worlds/{world}/journal?limit=100")).await;
        assert!(journal.text.contains(code), "{}", journal.text);
    }
    // What they asked for before they failed was never asked for.
    assert_eq!(server.get(&format!("{U}/effects")).await.ok(200)["items"], json!([]));
    assert_eq!(server.post(&format!("{U}/worlds/good/query/sum"), &Value::Null).await.ok(200), json!(3));
}
