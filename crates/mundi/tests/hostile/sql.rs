//! Queries in SQL that never end, and readers that never read: they keep no place from other universes, and none for longer than their time.

use crate::process::Server;
use futures_util::future::join_all;
use mundi_model::limits::{SQL_AT_ONCE_MAX, SQL_OF_UNIVERSE_MAX};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

const LOUD: &str = "/v1/u/loud/sql";
const QUIET: &str = "/v1/u/default/sql";
const ENDLESS: &str = "with recursive t(n) as (select 1 union all select n + 1 from t)";

async fn start(folder: &std::path::Path) -> Server {
    let server = Server::start(folder);
    server.post("/v1/universes", &json!({ "name": "loud" })).await.ok(201);
    server
}

/// Returns when so many requests are being answered.
async fn in_flight(server: &Server, requests: usize) {
    let now = async || {
        let metrics = server.get("/metrics").await.text;
        let line = metrics.lines().find_map(|line| line.strip_prefix("mundi_http_requests_in_flight "));
        line.unwrap().parse::<usize>().unwrap()
    };
    while now().await < requests {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn queries_that_never_end_leave_places_to_others_and_end_with_their_readers() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let body = json!({ "query": format!("{ENDLESS} select count(*) from t"), "timeout_ms": 300_000 }).to_string();
    let ask = || tokio::spawn(server.request(Method::POST, LOUD).body(body.clone()).send());
    let endless: Vec<_> = (0..2 * SQL_AT_ONCE_MAX).map(|_| ask()).collect();
    in_flight(&server, endless.len()).await;
    let short = json!({ "query": "select count(*) from worlds" });
    assert_eq!(server.post(QUIET, &short).await.ok(200)["rows"], json!([[0]]));
    assert!(endless.iter().all(|query| !query.is_finished()), "they run, or wait for their place");
    endless.iter().for_each(tokio::task::JoinHandle::abort);
    join_all(endless).await;
    assert_eq!(server.post(LOUD, &short).await.ok(200)["rows"], json!([[0]]));
}

#[tokio::test]
async fn a_reader_that_does_not_read_keeps_a_place_no_longer_than_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let wide = format!("{ENDLESS} select n, hex(zeroblob(1000)) as zeros from t");
    let body = json!({ "query": wide, "timeout_ms": 2_000 }).to_string();
    let ask = async || {
        let request = server.request(Method::POST, LOUD).header("accept", "application/x-ndjson");
        request.body(body.clone()).send().await.unwrap()
    };
    let unread = join_all((0..SQL_OF_UNIVERSE_MAX).map(|_| ask())).await;
    server.post(LOUD, &json!({ "query": "select 1" })).await.ok(200);
    for answer in unread {
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        let last = text.lines().last().unwrap();
        assert!(last.contains("SQL_TIMEOUT"), "what is cut off says so: {}", &last[..last.len().min(200)]);
    }
}
