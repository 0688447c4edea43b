//! Names of programs over HTTP: given once, found everywhere, refused where they would lie.

use crate::process::Server;
use serde_json::{Value, json};

const U: &str = "/v1/u/default";

/// A manifest of the counter that differs by what it takes in.
async fn manifest(server: &Server, universe: &str, maximum: u32) -> Value {
    let programs = server.get(&format!("/v1/u/{universe}/programs")).await.ok(200);
    let counter = programs.as_array().unwrap().iter().find(|program| program["name"] == "counter").unwrap();
    let manifest = json!({ "program": counter["program"], "events": { "add": { "maximum": maximum } } });
    server.post(&format!("/v1/u/{universe}/manifests"), &manifest).await.ok(201)["hash"].clone()
}

#[tokio::test]
async fn a_version_stands_for_one_manifest_and_is_found_wherever_a_program_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (one, two) = (manifest(&server, "default", 10).await, manifest(&server, "default", 20).await);
    let versions = format!("{U}/programs/todo/versions");
    let given = server.post(&versions, &json!({ "manifest": one })).await.ok(201);
    assert_eq!(given, json!({ "name": "todo@1", "version": 1, "manifest": one, "before": false }));
    assert_eq!(server.post(&versions, &json!({ "manifest": one })).await.ok(200)["before"], true);
    server.post(&versions, &json!({ "manifest": two, "version": 1 })).await.refused(409, "PROGRAM_VERSION_TAKEN");
    assert_eq!(server.post(&versions, &json!({ "manifest": two })).await.ok(201)["version"], 2);
    assert_eq!(
        server.post(&versions, &json!({ "manifest": one })).await.ok(201)["version"],
        3,
        "it was not the newest"
    );
    let all = server.get(&versions).await.ok(200);
    let all: Vec<_> = all.as_array().unwrap().iter().map(|it| (&it["name"], &it["manifest"])).collect();
    assert_eq!(all, [(&json!("todo@3"), &one), (&json!("todo@2"), &two), (&json!("todo@1"), &one)]);

    let unknown = json!({ "manifest": format!("h_{}", "0".repeat(64)) });
    server.post(&versions, &unknown).await.refused(404, "BLOB_NOT_FOUND");
    server.post(&versions, &json!({ "manifest": one, "version": 0 })).await.refused(400, "NAME_INVALID");
    for name in ["To-Do", "counter", "h_00", "todo@4"] {
        let at = format!("{U}/programs/{name}/versions");
        server.post(&at, &json!({ "manifest": one })).await.refused(400, "NAME_INVALID");
    }
    // A blob that is a manifest is none that worlds may run.
    let text = json!({ "program": server.get(&format!("{U}/programs/counter")).await.ok(200)["hash"] }).to_string();
    let put = server.request(reqwest::Method::POST, &format!("{U}/blobs")).body(text).send().await.unwrap();
    let put: Value = serde_json::from_str(&put.text().await.unwrap()).unwrap();
    server.post(&versions, &json!({ "manifest": put["hash"] })).await.refused(400, "MANIFEST_NOT_REGISTERED");

    let world = |name: &str| format!("{U}/worlds/{name}");
    for (name, form) in [
        ("newest", json!({ "program": "todo" })),
        ("certain", json!({ "program": "todo@2" })),
        ("either", json!({ "manifest": "todo@2" })),
    ] {
        let mut form = form;
        form["world"] = name.into();
        server.post(&format!("{U}/worlds"), &form).await.ok(201);
    }
    assert_eq!(
        server.get(&world("newest")).await.ok(200)["program"],
        "todo@3",
        "of two versions that it is, the higher"
    );
    assert_eq!(server.get(&world("certain")).await.ok(200)["program"], "todo@2");
    server.post(&format!("{}/call/add", world("certain")), &json!(15)).await.ok(200);
    let rehearsed = server.post(&format!("{}/rehearse", world("certain")), &json!({ "program": "kv@2" })).await.ok(200);
    assert_eq!(rehearsed["divergence"]["height"], 1, "another program does something else");
    let open = json!({ "program": "todo@3", "open_work": true });
    let open = server.post(&format!("{}/rehearse", world("certain")), &open).await.ok(200);
    assert_eq!(open["divergence"], Value::Null, "nothing is open that it would treat differently");
    server.post(&format!("{}/upgrade", world("certain")), &json!({ "program": "todo@3" })).await.ok(202);
    let listed = async |program: &str| {
        let listed = server.get(&format!("{U}/worlds?program={program}")).await.ok(200);
        listed["items"].as_array().unwrap().len()
    };
    assert_eq!((listed("todo").await, listed("counter").await), (3, 0));
    server.get(&format!("{U}/worlds?program=nobody")).await.refused(404, "PROGRAM_UNKNOWN");

    server.delete(&format!("{U}/programs/todo@2")).await.ok(204);
    assert_eq!(
        server.post(&versions, &json!({ "manifest": two })).await.ok(201)["version"],
        4,
        "no number is given twice"
    );
}

#[tokio::test]
async fn many_that_name_at_once_get_a_version_each_and_universes_have_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    let mut manifests = Vec::new();
    for maximum in 0..8 {
        manifests.push(manifest(&server, "default", maximum).await);
    }
    let versions = format!("{U}/programs/todo/versions");
    let name = async |manifest: &Value| server.post(&versions, &json!({ "manifest": manifest })).await.ok(201);
    let given = futures_util::future::join_all(manifests.iter().map(name)).await;
    let mut numbers: Vec<_> = given.iter().map(|given| given["version"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    server.get("/v1/u/other/programs/todo").await.refused(404, "PROGRAM_UNKNOWN");
    let other = manifest(&server, "other", 3).await;
    let given = server.post("/v1/u/other/programs/todo/versions", &json!({ "manifest": other })).await.ok(201);
    assert_eq!(given["version"], 1);
    server.kill();

    let server = Server::start(folder.path());
    assert_eq!(server.get(&versions).await.ok(200).as_array().unwrap().len(), 8, "acknowledged is kept");
}
