//! Code that was put into the content store by someone who may only send.

use crate::process::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};

const U: &str = "/v1/u/default";

async fn ask(server: &Server, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    let path = format!("{U}{path}");
    server.send(method, &path, &[("authorization", &format!("Bearer {token}"))], body).await
}

#[tokio::test]
async fn a_token_that_may_only_send_runs_nothing_that_was_not_registered() {
    let folder = tempfile::tempdir().unwrap();
    let open = Server::start(folder.path());
    let make = async |verbs: &[&str]| {
        let made = open.post("/v1/tokens", &json!({ "universe": "default", "can": verbs })).await.ok(201);
        made["token"].as_str().unwrap().to_owned()
    };
    let (tenant, admin) = (make(&["read", "send"]).await, make(&["read", "send", "admin"]).await);
    drop(open);
    let server = Server::start_with(folder.path(), &[("MUNDI_API__TOKENS_REQUIRED", "true")]);
    let programs = ask(&server, &tenant, Method::GET, "/programs", &Value::Null).await.ok(200);
    let counter = programs.as_array().unwrap().iter().find(|program| program["name"] == "counter").unwrap();
    let path = format!("/manifests/{}", counter["manifest"].as_str().unwrap());
    let mut manifest = ask(&server, &tenant, Method::GET, &path, &Value::Null).await.ok(200);
    manifest["events"]["mine"] = json!(true);

    // `send` alone cannot register, and what it stores is no manifest that a world may run.
    ask(&server, &tenant, Method::POST, "/manifests", &manifest).await.refused(403, "TOKEN_DENIED");
    let stored = ask(&server, &tenant, Method::POST, "/blobs", &manifest).await.ok(201);
    let hash = stored["hash"].as_str().unwrap();
    let new = json!({ "world": "w", "manifest": hash });
    ask(&server, &tenant, Method::POST, "/worlds", &new).await.refused(400, "MANIFEST_NOT_REGISTERED");
    ask(&server, &tenant, Method::POST, "/worlds", &json!({ "world": "c", "program": "counter" })).await.ok(201);
    let rehearse = json!({ "manifest": hash });
    ask(&server, &tenant, Method::POST, "/worlds/c/rehearse", &rehearse).await.refused(400, "MANIFEST_NOT_REGISTERED");
    let upgrade = json!({ "manifest": hash, "forced": true });
    ask(&server, &admin, Method::POST, "/worlds/c/upgrade", &upgrade).await.refused(400, "MANIFEST_NOT_REGISTERED");

    // Once an administrator has registered it, everyone may use it.
    let registered = ask(&server, &admin, Method::POST, "/manifests", &manifest).await.ok(201);
    assert_eq!(registered["hash"], hash);
    ask(&server, &tenant, Method::POST, "/worlds", &new).await.ok(201);
    ask(&server, &tenant, Method::POST, "/worlds/w/fork", &json!({ "world": "f" })).await.ok(201);
    ask(&server, &admin, Method::POST, "/worlds/c/upgrade", &upgrade).await.ok(202);
    server.kill();
    let server = Server::start_with(folder.path(), &[("MUNDI_API__TOKENS_REQUIRED", "true")]);
    ask(&server, &tenant, Method::POST, "/worlds", &json!({ "world": "w2", "manifest": hash })).await.ok(201);
}
