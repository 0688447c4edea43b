//! Bodies that fill the memory: sent all but the last byte, and held.

use crate::{
    process::{Answer, Server},
    scaled,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{io::Write, net::TcpStream};

const MB: usize = 1 << 20;
const W: &str = "/v1/u/default/worlds";

/// A request whose body never ends: so many bytes of one that is a byte longer.
fn hold(server: &Server, path: &str, token: Option<&str>, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{token}content-length: {}\r\n\r\n", bytes + 1);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b' '; bytes]).unwrap();
    stream
}

/// A large body that asks for nothing in particular.
async fn large(server: &Server, universe: &str, token: Option<&str>) -> Answer {
    let body = format!("{}1", " ".repeat(4 * MB - 1));
    let mut request = server.request(Method::POST, &format!("/v1/u/{universe}/worlds/c/send/add")).body(body);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    Answer::of(request.send().await.unwrap()).await
}

/// Holds bodies until no other is taken. What was sent may not have arrived yet, so one is added each time.
async fn fill(server: &Server, path: &str, token: Option<&str>) -> (Vec<TcpStream>, Value) {
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(hold(server, path, token, 3 * MB));
        let answer = large(server, "default", token).await;
        if answer.status != 202 {
            return (held, answer.refused(503, "BODIES_FULL"));
        }
    }
    panic!("bodies are taken without end");
}

async fn taken_at_last(server: &Server, universe: &str) {
    for _ in 0..1_000 {
        if large(server, universe, None).await.status == 202 {
            return;
        }
    }
    panic!("what was held is never given back");
}

async fn start(folder: &std::path::Path, budget: (&str, usize)) -> Server {
    let bytes = budget.1.to_string();
    let server = Server::start_with(folder, &[(budget.0, &bytes), ("MUNDI_API__BODY_TIMEOUT_MS", "600000")]);
    server.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    for universe in ["default", "other"] {
        let path = format!("/v1/u/{universe}/worlds");
        server.post(&path, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    }
    server
}

#[tokio::test]
async fn bodies_together_take_no_more_than_the_process_has_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), ("MUNDI_API__BODIES_BYTES_MAX", 12 * MB)).await;
    assert_eq!(large(&server, "default", None).await.status, 202);
    let blobs = "/v1/u/default/blobs";
    let (send, events) = (format!("{W}/c/send/add"), format!("{W}/c/events"));
    for path in [&*send, W, "/v1/tokens", &events, blobs].repeat(scaled(1)) {
        let (held, problem) = fill(&server, path, None).await;
        assert!(problem["detail"].as_str().unwrap().contains("this process"), "{path}: {problem}");
        // What is small is taken all the same.
        server.post(&format!("{W}/c/call/add"), &json!(1)).await.ok(200);
        drop(held);
        taken_at_last(&server, "default").await;
    }
    // Who only says that it will send much holds nothing.
    let announced: Vec<_> =
        (0..scaled(100).min(1_000)).map(|_| hold(&server, &format!("{W}/c/send/add"), None, 0)).collect();
    assert_eq!(large(&server, "default", None).await.status, 202);
    drop(announced);
}

#[tokio::test]
async fn the_bodies_of_one_universe_leave_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), ("MUNDI_API__BODIES_PER_UNIVERSE_BYTES_MAX", 8 * MB)).await;
    let (held, problem) = fill(&server, &format!("{W}/c/send/add"), None).await;
    assert!(problem["detail"].as_str().unwrap().contains("a universe"), "{problem}");
    assert_eq!(large(&server, "other", None).await.status, 202);
    drop(held);
    taken_at_last(&server, "default").await;
}

#[tokio::test]
async fn the_bodies_of_one_token_leave_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), ("MUNDI_API__BODIES_PER_TOKEN_BYTES_MAX", 8 * MB)).await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let made = server.post("/v1/tokens", &json!({ "universe": "default", "can": ["send"] })).await.ok(201);
        tokens.push(made["token"].as_str().unwrap().to_owned());
    }
    let (_held, problem) = fill(&server, &format!("{W}/c/send/add"), Some(&tokens[0])).await;
    assert!(problem["detail"].as_str().unwrap().contains("a token"), "{problem}");
    assert_eq!(large(&server, "default", Some(&tokens[1])).await.status, 202);
}
