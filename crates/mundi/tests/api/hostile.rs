//! Slow, oversized and malformed requests.

use crate::process::Server;
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// All that comes back until the other side closes.
fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut stream = connect(server);
    let _may_be_closed_already = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _or_reset = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn slow_clients_are_cut_off_and_others_do_not_notice() {
    let folder = tempfile::tempdir().unwrap();
    let limits = [("MUNDI_API__HEAD_TIMEOUT_MS", "500"), ("MUNDI_API__BODY_TIMEOUT_MS", "500")];
    let server = Server::start_with(folder.path(), &limits);
    server.post("/v1/u/default/worlds", &json!({ "world": "c", "program": "counter" })).await.ok(201);
    let mut slow_heads: Vec<_> = (0..50).map(|_| connect(&server)).collect();
    slow_heads.iter_mut().for_each(|stream| stream.write_all(b"GET /livez HT").unwrap());
    assert_eq!(server.post("/v1/u/default/worlds/c/call/add", &json!(1)).await.ok(200), 1);
    let mut rest = Vec::new();
    slow_heads[0].read_to_end(&mut rest).unwrap(); // ends because the server closes
    let half = b"POST /v1/u/default/worlds/c/call/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n1";
    assert!(exchange(&server, half).starts_with("HTTP/1.1 408"));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_until_one_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        folder.path(),
        &[("MUNDI_API__CONNECTIONS_MAX", "3"), ("MUNDI_API__CONNECTIONS_PER_ADDRESS_MAX", "3")],
    );
    let ask = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let answer = |stream: &mut TcpStream| {
        let mut head = [0; 12];
        stream.read_exact(&mut head).map(|()| String::from_utf8_lossy(&head).into_owned())
    };
    let mut within: Vec<_> = (0..3).map(|_| connect(&server)).collect();
    for stream in &mut within {
        stream.write_all(ask).unwrap();
        assert_eq!(answer(stream).unwrap(), "HTTP/1.1 200");
    }
    // The operating system takes it in; the server does not.
    let mut beyond = connect(&server);
    beyond.write_all(ask).unwrap();
    beyond.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let waiting = answer(&mut beyond).unwrap_err().kind();
    assert!(matches!(waiting, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{waiting}");
    // Those who were there first are served as before.
    let mut rest = [0; 4_096];
    let _rest_of_the_first_answer = within[2].read(&mut rest).unwrap();
    within[2].write_all(ask).unwrap();
    assert_eq!(answer(&mut within[2]).unwrap(), "HTTP/1.1 200");
    drop(within.pop());
    beyond.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(answer(&mut beyond).unwrap(), "HTTP/1.1 200");
}

#[tokio::test]
async fn what_is_not_http_or_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for garbage in
        [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    {
        let answer = exchange(&server, garbage);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    let long = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    assert!(exchange(&server, long.as_bytes()).starts_with("HTTP/1.1 431"));
    let many: String = (0..500).map(|n| format!("x{n}: y\r\n")).collect();
    let many = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    assert!(exchange(&server, many.as_bytes()).starts_with("HTTP/1.1 431"));
    // Both lengths at once is how requests are smuggled.
    let both = "POST /v1/universes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(!exchange(&server, both.as_bytes()).contains("HTTP/1.1 201"));
    let declared = "POST /v1/u/default/worlds HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 99999999999\r\nconnection: close\r\n\r\n";
    assert!(exchange(&server, declared.as_bytes()).contains("413"));
    for path in ["/v1/u/default/worlds/%ff", "/v1/u/%2e%2e/worlds", "/v1/u/default/worlds/a%2fb"] {
        assert!(server.get(path).await.status.is_client_error(), "{path}");
    }
    server.get("/nope").await.refused(404, "ROUTE_NOT_FOUND");
    server.delete("/livez").await.refused(404, "ROUTE_NOT_FOUND");
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test]
async fn deep_json_is_refused_and_the_server_lives() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/u/default/worlds", &json!({ "world": "k", "program": "kv" })).await.ok(201);
    for depth in [70, 100_000] {
        let deep = format!("{{\"key\":\"a\",\"value\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        let request = server.request(reqwest::Method::POST, "/v1/u/default/worlds/k/call/put").body(deep);
        assert_eq!(request.send().await.unwrap().status(), 400, "{depth}");
    }
    assert_eq!(server.get("/readyz").await.status, 200);
}
