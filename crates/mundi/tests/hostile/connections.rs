//! Clients that hold connections: by never reading their answers, or by opening too many.

use crate::{
    process::{Answer, Server},
    scaled,
};
use reqwest::{Client, Method};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    time::Duration,
};
use tokio::net::TcpSocket;

/// Far beyond what anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn address(server: &Server) -> SocketAddr {
    server.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// A connection from another address of this machine.
async fn connect_from(server: &Server, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let stream = socket.connect(address(server)).await.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn client_at(from: [u8; 4]) -> Client {
    Client::builder().no_proxy().local_address(IpAddr::from(from)).timeout(LONG).build().unwrap()
}

/// The head of the next answer, and as much of its body as came with it.
fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4_096];
    let length = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

const OPENAPI: &[u8] = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
const LIVEZ: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn clients_that_never_read_do_not_keep_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let limits = [
        ("MUNDI_API__CONNECTIONS_MAX", "64"),
        ("MUNDI_API__CONNECTIONS_PER_ADDRESS_MAX", "64"),
        ("MUNDI_API__WRITE_TIMEOUT_MS", "500"),
    ];
    let server = Server::start_with(folder.path(), &limits);
    for _ in 0..scaled(1) {
        let mut sockets = Vec::new();
        for _ in 0..64 {
            let mut socket = connect_from(&server, [127, 0, 0, 1]).await;
            // Far more bytes than the buffers between the two hold.
            socket.write_all(&OPENAPI.repeat(200)).unwrap();
            sockets.push(socket);
        }
        // All places are taken. So many others are served at a time only when each of them was cut off.
        let mut honest = Vec::new();
        for _ in 0..64 {
            let mut socket = connect_from(&server, [127, 0, 0, 1]).await;
            socket.write_all(LIVEZ).unwrap();
            assert!(answer(&mut socket).starts_with("HTTP/1.1 200"));
            honest.push(socket);
        }
        drop(sockets);
    }
    let metrics = server.get("/metrics").await.text;
    let cut = metrics.lines().find_map(|line| line.strip_prefix("mundi_cut_slow_total ")).unwrap();
    assert!(cut.parse::<usize>().unwrap() >= scaled(64), "{cut}");
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[("MUNDI_API__CONNECTIONS_MAX", "8")]);
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut socket = connect_from(&server, [127, 0, 0, 2]).await;
        socket.write_all(LIVEZ).unwrap();
        assert!(answer(&mut socket).starts_with("HTTP/1.1 200"));
        held.push(socket);
    }
    for _ in 0..scaled(100) {
        let mut beyond = connect_from(&server, [127, 0, 0, 2]).await;
        beyond.write_all(LIVEZ).unwrap();
        let refused = answer(&mut beyond);
        assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{refused}");
        assert!(refused.contains("\"CONNECTIONS_FULL\"") && refused.contains("retry-after: 1\r\n"), "{refused}");
    }
    let metrics =
        client_at([127, 0, 0, 3]).get(format!("{}/metrics", server.url)).send().await.unwrap().text().await.unwrap();
    let refused = format!("mundi_refused_address_connections_total {}", scaled(100));
    assert!(metrics.lines().any(|line| line == refused), "{metrics}");
    // Those that do not even ask are as many as they like.
    let mut silent = Vec::new();
    for _ in 0..1_000 {
        silent.push(connect_from(&server, [127, 0, 0, 2]).await);
    }
    drop(silent);
    // As an HTTP client sees it, once there is time for it again.
    let beyond = loop {
        if let Ok(answer) = client_at([127, 0, 0, 2]).get(format!("{}/livez", server.url)).send().await {
            break answer;
        }
    };
    Answer::of(beyond).await.refused(429, "CONNECTIONS_FULL");
    let elsewhere = client_at([127, 0, 0, 3]).get(format!("{}/livez", server.url)).send().await.unwrap();
    assert_eq!(elsewhere.status(), 200);
    drop(held.pop());
    // Its end may take a moment to be noticed.
    let served = async || {
        let answer = client_at([127, 0, 0, 2]).get(format!("{}/livez", server.url)).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    };
    while !served().await {}
}

#[tokio::test]
async fn one_token_cannot_take_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[("MUNDI_API__CONNECTIONS_PER_TOKEN_MAX", "2")]);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let made = server.post("/v1/tokens", &json!({ "can": ["read"] })).await.ok(201);
        tokens.push(made["token"].as_str().unwrap().to_owned());
    }
    let ask = |token: &str| {
        format!("GET /v1/u/default/worlds HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n")
            .into_bytes()
    };
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut socket = connect_from(&server, [127, 0, 0, 1]).await;
        for _ in 0..3 {
            socket.write_all(&ask(&tokens[0])).unwrap();
            assert!(answer(&mut socket).starts_with("HTTP/1.1 200"), "the same connection counts once");
        }
        held.push(socket);
    }
    let mut beyond = connect_from(&server, [127, 0, 0, 1]).await;
    beyond.write_all(&ask(&tokens[0])).unwrap();
    let refused = answer(&mut beyond);
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("CONNECTIONS_FULL"), "{refused}");
    assert_eq!(beyond.read(&mut [0; 16]).unwrap(), 0, "it is closed");
    let mut other = connect_from(&server, [127, 0, 0, 1]).await;
    other.write_all(&ask(&tokens[1])).unwrap();
    assert!(answer(&mut other).starts_with("HTTP/1.1 200"));
    // A connection that continues with another token is not the first one's any more.
    held[0].write_all(&ask(&tokens[1])).unwrap();
    assert!(answer(&mut held[0]).starts_with("HTTP/1.1 200"));
    let mut next = connect_from(&server, [127, 0, 0, 1]).await;
    next.write_all(&ask(&tokens[0])).unwrap();
    assert!(answer(&mut next).starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn the_document_of_the_api_is_served_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let one = server.get("/openapi.json").await;
    assert_eq!((one.status.as_u16(), &one.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    assert_eq!(one.json["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    assert_eq!(server.request(Method::POST, "/openapi.json").send().await.unwrap().status(), 404);
}
