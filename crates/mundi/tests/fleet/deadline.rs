//! A request with a deadline, while the database is away.

use crate::member::Fleet;
use serde_json::{Value, json};
use std::time::Duration;

/// Far above the deadlines that are asked for, and far below the five minutes that such a call once took.
const MUCH_LATER: Duration = Duration::from_secs(90);

const WORLDS: &str = "/v1/u/default/worlds";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_with_its_deadline_while_the_database_is_away() {
    let _before = rustls::crypto::ring::default_provider().install_default();
    let fleet = Fleet::start(Duration::from_secs(3));
    let Some(database) = fleet.database.server() else {
        eprintln!("did not run: the cluster is not this test's to stop");
        return;
    };
    let mut one = fleet.member("api,world,adapter,timer,orchestrator");
    fleet.launch(&mut one);
    let http = reqwest::Client::builder().no_proxy().timeout(MUCH_LATER).build().unwrap();
    let post = async |path: &str, body: Value| {
        let answer = http.post(format!("{}{WORLDS}{path}", one.url)).body(body.to_string()).send().await;
        let answer = answer.expect("an answer, long before the client gives up");
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(post("", json!({ "world": "counted", "program": "counter" })).await.0, 201);
    assert_eq!(post("/counted/call/add?timeout=30s", json!(1)).await, (200, "1".to_owned()));

    database.down("immediate");
    // The first finds its world in memory, and waits for its commit; the second finds a world that nobody holds any more.
    for _ in 0..2 {
        let (status, said) = post("/counted/call/add?timeout=2s", json!(1)).await;
        let problem: Value = serde_json::from_str(&said).unwrap();
        let code = problem["code"].as_str().unwrap();
        assert!(["CALL_TIMEOUT", "DATABASE_UNAVAILABLE"].contains(&code), "{status} {said}");
    }
    database.up();
    // Each of the two was done once or not at all.
    let (status, said) = post("/counted/call/add?timeout=60s", json!(1)).await;
    assert_eq!(status, 200, "{said}");
    assert!((2..=4).contains(&said.parse::<u64>().unwrap()), "{said}");
}
