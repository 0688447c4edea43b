//! Every address that the served document names, with every wrong token.
//!
//! `verbs.txt` says which verb each operation asks for. It is found out by asking, so that an address that is new, or that asks
//! for less than before, shows up there: `MUNDI_BLESS=1` writes it again.

use crate::process::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

const VERBS: [&str; 4] = ["read", "send", "admin", "work"];

/// The routes that are open to an anonymous client.
const OPEN: [&str; 2] = ["/livez", "/readyz"];

/// The routes that are open to any token: counts, the names of the universes that the token is for, and its rights.
const ANY_TOKEN: [&str; 3] = ["GET /metrics", "GET /v1/universes", "GET /v1/whoami"];

/// All operations of the document, with an address that names nothing which exists, except for the universe.
async fn operations(server: &Server) -> Vec<(Method, String)> {
    let document = server.get("/openapi.json").await.ok(200);
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let methods =
            item.as_object().unwrap().keys().filter(|key| ["get", "post", "put", "delete"].contains(&&***key));
        methods.map(move |method| (Method::from_bytes(method.to_uppercase().as_bytes()).unwrap(), path.clone()))
    });
    each.filter(|(_, path)| !OPEN.contains(&&**path)).collect()
}

/// The address, in this universe.
fn filled(path: &str, universe: &str) -> String {
    let parts = path.replace("{universe}", universe);
    parts.split('/').map(|part| if part.starts_with('{') { "nobody" } else { part }).collect::<Vec<_>>().join("/")
}

async fn ask(server: &Server, token: Option<&str>, method: &Method, path: &str) -> Answer {
    let authorization = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = authorization.iter().map(|value| ("authorization", value.as_str())).collect();
    server.send(method.clone(), path, &headers, &json!({})).await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_operation_of_the_document_asks_for_one_verb_and_takes_no_wrong_token() {
    let folder = tempfile::tempdir().unwrap();
    let open = Server::start(folder.path());
    open.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    let make = async |form: Value| open.post("/v1/tokens", &form).await.ok(201);
    let (mut own, mut everywhere) = (Vec::new(), Vec::new());
    for verb in VERBS {
        own.push((verb, text(&make(json!({ "universe": "default", "can": [verb] })).await["token"])));
        everywhere.push((verb, text(&make(json!({ "can": [verb] })).await["token"])));
    }
    let of_other = text(&make(json!({ "universe": "other", "can": VERBS })).await["token"]);
    let revoked = make(json!({ "can": VERBS })).await;
    open.delete(&format!("/v1/tokens/{}", text(&revoked["id"]))).await.ok(204);
    let mut forged = everywhere[0].1.clone();
    let last = if forged.pop() == Some('0') { '1' } else { '0' };
    forged.push(last);
    drop(open);
    let server = Server::start_with(folder.path(), &[("MUNDI_API__TOKENS_REQUIRED", "true")]);
    let all = operations(&server).await;
    assert!(all.len() > 55, "only {} operations: the document lacks some", all.len());

    let mut found = String::new();
    for (method, path) in &all {
        let (operation, address) = (format!("{method} {path}"), filled(path, "default"));
        let unknown = [None, Some(""), Some("x"), Some(&*forged), revoked["token"].as_str()];
        for token in unknown {
            ask(&server, token, method, &address).await.refused(401, "TOKEN_MISSING");
        }
        if ANY_TOKEN.contains(&&*operation) {
            found += &format!("any   {operation}\n");
            continue;
        }
        let in_universe = path.contains("{universe}");
        let mut allowed = Vec::new();
        for (verb, token) in if in_universe { &own } else { &everywhere } {
            let answer = ask(&server, Some(token), method, &address).await;
            assert_ne!(answer.status, 401, "{operation}: {}", answer.text);
            match answer.status.as_u16() {
                403 => drop(answer.refused(403, "TOKEN_DENIED")),
                _ => allowed.push(*verb),
            }
        }
        let [verb] = allowed[..] else { panic!("{operation} is open to {allowed:?}: expected one verb") };
        found += &format!("{verb:<5} {operation}\n");
        // The right verbs for another universe, and for one that does not exist: it is told the same.
        let denied = ask(&server, Some(&of_other), method, &address).await.refused(403, "TOKEN_DENIED");
        if in_universe {
            let nowhere = ask(&server, Some(&of_other), method, &filled(path, "nowhere")).await;
            assert_eq!(nowhere.refused(403, "TOKEN_DENIED")["detail"], denied["detail"], "{operation}");
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/verbs.txt");
    if std::env::var_os("MUNDI_BLESS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&file).unwrap(), "which verb an operation asks for has changed");
}

#[tokio::test]
async fn the_document_names_every_address_that_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    // The other way round: an address of the document is served, so it never says that there is nothing.
    for (method, path) in operations(&server).await {
        let answer = ask(&server, None, &method, &filled(&path, "default")).await;
        assert_ne!(answer.json["code"], "ROUTE_NOT_FOUND", "{method} {path}");
    }
    // And what is served is in the sources once per operation of the document.
    let routes = include_str!("../../../server/src/api/routes.rs");
    let served = ["get(", "post(", "put(", "delete("].iter().map(|call| {
        let from = routes.find("pub fn router").unwrap()..routes.find("pub fn health_router").unwrap();
        let rest = routes.find("fn in_universe").unwrap();
        routes[from].matches(call).count() + routes[rest..].matches(call).count()
    });
    let alone = 1; // the document itself
    assert_eq!(served.sum::<usize>() - alone, operations(&server).await.len() + OPEN.len());
}
