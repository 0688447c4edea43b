//! The process: start, drain, stop, kill.

use crate::process::Server;
use serde_json::{Value, json};
use std::process::Command;

const U: &str = "/v1/u/default/worlds";

/// Waits until a request has arrived, beside the one that asks.
async fn until_one_is_under_way(server: &Server) {
    let in_flight = |text: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix("mundi_http_requests_in_flight "));
        value.unwrap().parse().unwrap()
    };
    while in_flight(&server.get("/metrics").await.text) < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn sigterm_drains_and_nothing_is_lost_by_it_or_by_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(U, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    assert_eq!(server.post(&format!("{U}/c/call/add"), &json!(1)).await.ok(200), 1);
    server.signal("-TERM");
    assert!(server.wait().success());

    let server = Server::start(folder.path());
    let described = server.get(&format!("{U}/c")).await.ok(200);
    assert!(described["baseline"]["height"].as_u64().unwrap() > 0, "a drain takes a snapshot");
    assert_eq!(server.post(&format!("{U}/c/call/add"), &json!(1)).await.ok(200), 2);
    server.signal("-KILL");
    assert!(!server.wait().success());

    let server = Server::start(folder.path());
    assert_eq!(server.post(&format!("{U}/c/call/add"), &json!(1)).await.ok(200), 3);
}

#[tokio::test]
async fn a_second_signal_stops_a_drain() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    server.post(U, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    server.post(&format!("{U}/c/pause"), &Value::Null).await.ok(202);
    // A call that is never answered holds the drain.
    let call = server.request(reqwest::Method::POST, &format!("{U}/c/call/add")).body("1").send();
    let waiting = tokio::spawn(call);
    until_one_is_under_way(&server).await;
    server.signal("-TERM");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(server.is_running(), "it drains");
    server.signal("-TERM");
    assert!(server.wait().success());
    waiting.abort();
}

#[tokio::test]
async fn who_only_waits_does_not_hold_a_drain() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(U, &json!({ "world": "c", "program": "counter" })).await.ok(201);
    let tail = server.request(reqwest::Method::GET, &format!("{U}/c/journal")).header("accept", "text/event-stream");
    let tail = tail.send().await.unwrap();
    let form = json!({ "kinds": ["k"], "wait": "30s" }).to_string();
    let claim = server.request(reqwest::Method::POST, "/v1/u/default/tasks/claim").body(form).send();
    let claim = tokio::spawn(claim);
    until_one_is_under_way(&server).await;
    server.signal("-TERM");
    assert!(tail.text().await.unwrap().contains("genesis"), "the tail ends in good order");
    assert_eq!(claim.await.unwrap().unwrap().text().await.unwrap(), "[]");
    assert!(server.wait().success());
}

#[tokio::test]
async fn tls_is_spoken_with_the_files_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "1"];
    let leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-out", &certificate])
        .args(subject)
        .args(leaf);
    let Ok(made) = make.output() else {
        eprintln!("openssl is not installed: TLS was not tried");
        return;
    };
    assert!(made.status.success());
    let files = [("MUNDI_API__TLS__CERTIFICATES", &*certificate), ("MUNDI_API__TLS__KEY", &*key)];
    let server = Server::start_with(folder.path(), &files);
    let root = reqwest::Certificate::from_pem(&std::fs::read(&certificate).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let url = server.url.replace("127.0.0.1", "localhost");
    let answer = client.get(format!("{url}/v1/universes")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let plain = url.replace("https", "http");
    assert!(server.client.get(plain).send().await.is_err(), "nothing is said in the clear");
}

#[tokio::test]
async fn one_folder_belongs_to_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path());
    let mut second = Command::new(env!("CARGO_BIN_EXE_mundi"));
    let second = second.args(["dev", "--bind", "127.0.0.1:0", "--data"]).arg(folder.path().join("data")).output();
    let second = second.unwrap();
    assert_eq!(second.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&second.stderr).contains("error: "));
}

#[tokio::test]
async fn the_server_says_how_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_eq!(server.get("/livez").await.text, "ok\n");
    assert_eq!(server.get("/readyz").await.text, "ok\n");
    let metrics = server.get("/metrics").await;
    assert!(metrics.text.contains("# TYPE mundi_turns counter\nmundi_turns_total "), "{}", metrics.text);
    let document = server.get("/openapi.json").await.ok(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert!(document["paths"].as_object().unwrap().len() > 40);
}

#[test]
fn the_configuration_that_holds_can_be_shown_and_a_wrong_one_is_refused() {
    let show = |variable: (&str, &str)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mundi"));
        command.args(["config", "show", "--bind", "127.0.0.1:9"]).env(variable.0, variable.1).output().unwrap()
    };
    let shown = show(("MUNDI_LLM__API_KEY", "hush"));
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success() && text.contains("127.0.0.1:9") && !text.contains("hush"), "{text}");
    let wrong = show(("MUNDI_API__NOPE", "1"));
    assert_eq!(wrong.status.code(), Some(3));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("MUNDI_API__NOPE"));
}
