//! Tokens: every verb with every wrong token.

use crate::process::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};

const VERBS: [&str; 4] = ["read", "send", "admin", "work"];

/// One request per verb, in a universe.
fn requests(universe: &str) -> [(&'static str, Method, String, Value); 6] {
    let at = |path: &str| format!("/v1/u/{universe}{path}");
    [
        ("read", Method::GET, at("/worlds"), Value::Null),
        ("read", Method::POST, at("/worlds/c/query/count"), Value::Null),
        ("send", Method::POST, at("/worlds/c/send/add"), json!(1)),
        ("send", Method::POST, at("/worlds"), json!({ "program": "counter" })),
        ("admin", Method::POST, at("/worlds/c/resume"), Value::Null),
        ("work", Method::POST, at("/tasks/claim"), json!({ "kinds": ["k"] })),
    ]
}

async fn ask(server: &Server, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    server.send(method, path, &[("authorization", &format!("Bearer {token}"))], body).await
}

#[tokio::test]
async fn a_token_does_what_it_is_for_in_its_universe_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let open = Server::start(folder.path());
    let make = async |form: Value| open.post("/v1/tokens", &form).await.ok(201);
    open.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    for universe in ["default", "other"] {
        let path = format!("/v1/u/{universe}/worlds");
        open.post(&path, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    }
    let mut tokens = Vec::new();
    for verb in VERBS {
        let made = make(json!({ "universe": "default", "can": [verb] })).await;
        tokens.push((verb, made["token"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned()));
    }
    let root = make(json!({ "can": VERBS, "label": "root" })).await["token"].as_str().unwrap().to_owned();
    open.post("/v1/tokens", &json!({ "can": [] })).await.refused(400, "REQUEST_INVALID");
    open.post("/v1/tokens", &json!({ "can": ["fly"] })).await.refused(400, "REQUEST_INVALID");
    open.post("/v1/tokens", &json!({ "universe": "nope", "can": ["read"] })).await.refused(404, "UNIVERSE_NOT_FOUND");
    drop(open);

    let server = Server::start_with(folder.path(), &[("MUNDI_API__TOKENS_REQUIRED", "true")]);
    for (needs, method, path, body) in requests("default") {
        server.send(method.clone(), &path, &[], &body).await.refused(401, "TOKEN_MISSING");
        for (verb, token, _) in &tokens {
            let answer = ask(&server, token, method.clone(), &path, &body).await;
            match *verb == needs {
                true => assert!(answer.status.is_success(), "{verb} {path}: {}", answer.text),
                false => assert!(answer.refused(403, "TOKEN_DENIED")["detail"].as_str().unwrap().contains(needs)),
            }
        }
        assert!(ask(&server, &root, method, &path, &body).await.status.is_success());
    }
    // Another universe answers the same, whether it is there or not.
    for universe in ["other", "nowhere"] {
        for (needs, method, path, body) in requests(universe) {
            let (_, token, _) = tokens.iter().find(|(verb, ..)| *verb == needs).unwrap();
            let denied = ask(&server, token, method, &path, &body).await.refused(403, "TOKEN_DENIED");
            assert_eq!(denied["detail"], "the token is for another universe");
        }
    }
    let (_, admin, _) = tokens.iter().find(|(verb, ..)| *verb == "admin").unwrap();
    for path in ["/v1/tokens", "/v1/universes"] {
        let form = json!({ "name": "x", "can": ["read"] });
        ask(&server, admin, Method::POST, path, &form).await.refused(403, "TOKEN_DENIED");
    }
    let seen = ask(&server, admin, Method::GET, "/v1/universes", &Value::Null).await.ok(200);
    assert_eq!(seen.as_array().unwrap().len(), 1);

    let (_, read, id) = &tokens[0];
    let worlds = "/v1/u/default/worlds";
    let mut forged = read.clone();
    let last = if forged.pop() == Some('0') { '1' } else { '0' };
    forged.push(last);
    for wrong in ["", "x", &forged, &read.replace("mundi_", "mundi_0")] {
        ask(&server, wrong, Method::GET, worlds, &Value::Null).await.refused(401, "TOKEN_MISSING");
    }
    let listed = ask(&server, &root, Method::GET, "/v1/tokens", &Value::Null).await;
    assert!(!listed.text.contains(read.rsplit('_').next().unwrap()), "no secret is shown again");
    ask(&server, &root, Method::DELETE, &format!("/v1/tokens/{id}"), &Value::Null).await.ok(204);
    ask(&server, &root, Method::DELETE, &format!("/v1/tokens/{id}"), &Value::Null)
        .await
        .refused(404, "TOKEN_NOT_FOUND");
    ask(&server, read, Method::GET, worlds, &Value::Null).await.refused(401, "TOKEN_MISSING");
    assert_eq!(server.get("/livez").await.status, 200, "life is no secret");
}

#[tokio::test]
async fn a_web_page_cannot_drive_a_server_without_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let create = json!({ "program": "counter" });
    for header in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")] {
        let answer = server.send(Method::POST, "/v1/u/default/worlds", &[header], &create).await;
        answer.refused(403, "ORIGIN_DENIED");
    }
    assert_eq!(server.get("/v1/u/default/worlds").await.ok(200)["items"], json!([]));
}

#[test]
fn the_first_token_is_made_on_a_folder_or_on_what_a_configuration_names() {
    for by_config in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (data, config) = (folder.path().join("data"), folder.path().join("mundi.toml"));
        std::fs::write(
            &config,
            format!("[engine]\nurl = \"file://{0}/engine\"\n[data]\nfolder = \"{0}\"", data.display()),
        )
        .unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mundi"));
        command.args(["token", "create", "--can", "read,admin"]);
        match by_config {
            true => command.arg("--config").arg(&config),
            false => command.arg("--data").arg(&data),
        };
        let made = command.output().unwrap();
        let token = String::from_utf8(made.stdout).unwrap();
        assert!(made.status.success() && token.starts_with("mundi_"), "{}", String::from_utf8_lossy(&made.stderr));
        let server = Server::start_with(folder.path(), &[("MUNDI_API__TOKENS_REQUIRED", "true")]);
        let mut list = std::process::Command::new(env!("CARGO_BIN_EXE_mundi"));
        let list = list.args(["world", "list", "--url", &server.url, "--token", token.trim()]).output().unwrap();
        assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    }
}
