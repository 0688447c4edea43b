//! Telemetry of the process: metrics, and traces to a collector.

use crate::process::Server;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    time::Duration,
};

const W: &str = "/v1/u/default/worlds";

/// A collector of OTLP over HTTP in JSON: the address, and what it was sent.
fn collector() -> (SocketAddr, mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Some(sent) = take(stream.as_ref().unwrap()) {
                    drop(sender.send(sent));
                }
            });
        }
    });
    (address, receiver)
}

/// One request: its path and its body, answered with an empty object.
fn take(mut stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim() {
            "" => break,
            line => lines.push(line.to_lowercase()),
        }
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length:")).unwrap().trim().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}").ok()?;
    let path = lines[0].split(' ').nth(1).unwrap().to_owned();
    Some((path, serde_json::from_slice(&body).unwrap()))
}

fn spans(body: &Value) -> impl Iterator<Item = &Value> {
    fn lists<'a>(value: &'a Value, name: &str) -> std::slice::Iter<'a, Value> {
        value[name].as_array().unwrap().iter()
    }
    lists(body, "resourceSpans").flat_map(|of| lists(of, "scopeSpans")).flat_map(|of| lists(of, "spans"))
}

fn attribute<'a>(of: &'a Value, name: &str) -> &'a Value {
    let all = of["attributes"].as_array().unwrap();
    all.iter().find(|found| found["key"] == name).map_or(&Value::Null, |found| &found["value"])
}

#[tokio::test]
async fn one_trace_goes_from_the_request_to_the_effects_that_followed_from_it() {
    let (address, sent) = collector();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("http://{address}");
    let server = Server::start_with(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=1"),
            ("OTEL_SERVICE_NAME", "my-mundi"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
            ("NO_PROXY", "127.0.0.1"),
        ],
    );
    for world in ["a", "b"] {
        server.post(W, &json!({ "world": world, "program": "kv" })).await.ok(201);
    }
    let other = server.get(&format!("{W}/b")).await.ok(200)["world"].as_str().unwrap().to_owned();
    let (trace, client) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let unsampled = format!("00-{}-{client}-00", "e".repeat(32));
    let tell = json!({ "world": other, "key": "k", "value": 1 });
    for traceparent in [&format!("00-{trace}-{client}-01"), &unsampled] {
        server.send(Method::POST, &format!("{W}/a/send/tell"), &[("traceparent", traceparent)], &tell).await.ok(202);
    }
    // Two worlds take a turn each, and one asks for an effect.
    let wanted =
        [format!("POST {}/send/{{event}}", "/v1/u/{universe}/worlds/{world}"), "intent".into(), "effect".into()];
    let (mut found, mut turns, mut metrics, mut roots) = (BTreeMap::new(), 0, Value::Null, 0);
    while found.len() < wanted.len() || turns < 2 || metrics.is_null() || roots == 0 {
        let (path, body) = sent.recv_timeout(Duration::from_secs(30)).expect("all of it arrives");
        if path == "/v1/metrics" {
            metrics = body;
            continue;
        }
        if path == "/v1/logs" {
            continue;
        }
        assert_eq!(path, "/v1/traces");
        assert_eq!(attribute(&body["resourceSpans"][0]["resource"], "service.name")["stringValue"], "my-mundi");
        for span in spans(&body) {
            assert_ne!(span["traceId"], "e".repeat(32), "nobody records that one");
            let name = span["name"].as_str().unwrap().to_owned();
            roots += u32::from(name.starts_with("POST") && span["parentSpanId"].as_str().is_none_or(str::is_empty));
            if span["traceId"] == trace {
                turns += u32::from(name == "turn");
                if wanted.contains(&name) {
                    found.insert(name, span.clone());
                }
            }
        }
    }
    let [request, intent, effect] = wanted.map(|name| found[&name].clone());
    assert_eq!((&request["parentSpanId"], &request["kind"]), (&json!(client), &json!(2)));
    assert_eq!(attribute(&request, "http.response.status_code")["intValue"], "202");
    assert_eq!(intent["parentSpanId"], request["spanId"], "what a request leads to follows from it");
    assert_eq!(effect["parentSpanId"], intent["spanId"]);
    assert_eq!(attribute(&effect, "kind")["stringValue"], "fabric.send");
    assert!(metrics.to_string().contains("mundi_turns_total"), "{metrics}");
    server.signal("-TERM");
    assert!(server.wait().success());
}

#[tokio::test]
async fn what_programs_log_is_exported_with_world_and_height() {
    let (address, sent) = collector();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("http://{address}");
    let server = Server::start_with(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &format!("{endpoint}/v1/logs")),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "50"),
            ("NO_PROXY", "127.0.0.1"),
        ],
    );
    let manifest = crate::repair::store(&server, &json!("continue")).await;
    let world = server.post(W, &json!({ "world": "a", "manifest": manifest })).await.ok(201)["world"].clone();
    let failed = server.post(&format!("{W}/a/call/go"), &json!(13)).await;
    let problem: Value = serde_json::from_str(&failed.text).unwrap();
    failed.refused(422, "PROGRAM_TRAPPED");
    let (mut said, mut warned) = (false, false);
    while !said || !warned {
        let (path, body) = sent.recv_timeout(Duration::from_secs(30)).expect("both arrive");
        assert_eq!(path, "/v1/logs", "nothing else was asked for");
        let scopes = body["resourceLogs"].as_array().unwrap().iter().flat_map(|of| of["scopeLogs"].as_array().unwrap());
        for record in scopes.flat_map(|of| of["logRecords"].as_array().unwrap()) {
            let is_of_world =
                attribute(record, "world")["stringValue"] == world && attribute(record, "name")["stringValue"] == "a";
            let height = attribute(record, "height");
            let failed_at = problem["height"].to_string();
            let has_height = [&height["intValue"], &height["stringValue"]]
                .into_iter()
                .any(|said| said.as_str() == Some(&failed_at) || *said == problem["height"]);
            said |= record["body"]["stringValue"] == "a number came" && is_of_world && has_height;
            warned |= record["body"]["stringValue"] == "a step failed"
                && attribute(record, "code")["stringValue"] == "PROGRAM_TRAPPED"
                && is_of_world
                && has_height;
        }
    }
}

#[tokio::test]
async fn a_collector_that_is_gone_or_silent_stops_nobody() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = format!("http://{address}");
        // A queue of one span, and no time to wait for: all that can be full is full.
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "1"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
            ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ];
        let server = Server::start_with(folder.path(), &variables);
        server.post(W, &json!({ "world": "c", "program": "counter" })).await.ok(201);
        for count in 1..=100 {
            assert_eq!(server.post(&format!("{W}/c/call/add"), &json!(1)).await.ok(200), count);
        }
        server.signal("-TERM");
        assert!(server.wait().success());
    }
}

#[test]
fn a_protocol_that_is_not_spoken_is_said_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mundi"));
    command.args(["dev", "--bind", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
    command.envs([("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(3) && said.contains("http/protobuf"), "{said}");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_what_clients_make_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "my-name", "program": "counter" })).await.ok(201);
    for _ in 0..3 {
        server.post(&format!("{W}/my-name/call/add"), &json!(1)).await.ok(200);
    }
    server.get(&format!("{W}/my-other-name")).await.refused(404, "WORLD_NOT_FOUND");
    server.get("/my-path").await.refused(404, "ROUTE_NOT_FOUND");
    let brew = server.request(Method::from_bytes(b"MYBREW").unwrap(), "/livez").send().await.unwrap();
    assert_eq!(brew.status(), 404);
    let text = server.get("/metrics").await.text;
    let of = |method: &str, route: &str| format!("method=\"{method}\",route=\"{route}\"");
    let world = "/v1/u/{universe}/worlds/{world}";
    for line in [
        format!("mundi_http_requests_total{{{},status=\"200\"}} 3", of("POST", &format!("{world}/call/{{event}}"))),
        format!("mundi_http_request_seconds_count{{{}}} 3", of("POST", &format!("{world}/call/{{event}}"))),
        format!("mundi_http_requests_total{{{},status=\"404\"}} 1", of("GET", world)),
        format!("mundi_http_requests_total{{{},status=\"404\"}} 1", of("GET", "none")),
        format!("mundi_http_requests_total{{{},status=\"404\"}} 1", of("other", "/livez")),
        "mundi_http_requests_in_flight 1".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("my-") && !text.contains("MYBREW"), "{text}");
}
