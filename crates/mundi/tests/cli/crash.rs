//! The real process, killed at random under load: every acknowledged event is in the journal exactly once, one whose fate
//! is unknown at most once, and every history proves itself.
//!
//! Six kills; `MUNDI_KILLS` asks for more (`cargo xtask soak-server` for fifty).

use crate::{
    process::{Server, client},
    program::{at, run},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const WORLDS: usize = 4;
const CLIENTS: usize = 6;
const W: &str = "/v1/u/default/worlds";

/// Where the server is at the moment, and what clients know: acknowledged or not.
struct Shared {
    url: Mutex<String>,
    stop: AtomicBool,
    known: Mutex<BTreeMap<String, bool>>,
}

/// Each event has a key of its own, is sent until it is acknowledged or the test ends, and under one idempotency key.
async fn load(shared: Arc<Shared>, number: usize) {
    let client = client();
    for event in 0.. {
        let key = format!("{number}-{event}");
        let body = json!({ "key": key, "value": event }).to_string();
        let verb = if event % 2 == 0 { "call" } else { "send" };
        shared.known.lock().unwrap().insert(key.clone(), false);
        loop {
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            let url = format!("{}{W}/w{}/{verb}/put", shared.url.lock().unwrap(), event % WORLDS);
            let request = client.post(url).header("idempotency-key", &key).body(body.clone());
            match request.timeout(Duration::from_secs(5)).send().await {
                Ok(answer) if answer.status().is_success() => break,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        shared.known.lock().unwrap().insert(key, true);
    }
}

/// How often each key was put, as the journals tell it.
fn journaled(url: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for world in 0..WORLDS {
        let name = format!("w{world}");
        let text = at(url, &["--format", "json", "world", "journal", &name, "--limit", "10000000"]).ok();
        let document: Value = serde_json::from_str(&text).unwrap();
        for record in document["items"].as_array().unwrap() {
            if let Some(key) = record["input"]["value"]["key"].as_str() {
                *counts.entry(key.to_owned()).or_insert(0) += 1;
            }
        }
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_events_are_journaled_once_over_random_kills_and_every_world_proves_itself() {
    let kills: u64 = std::env::var("MUNDI_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    for world in 0..WORLDS {
        server.post(W, &json!({ "world": format!("w{world}"), "program": "kv" })).await.ok(201);
    }
    let shared =
        Arc::new(Shared { url: Mutex::new(server.url.clone()), stop: AtomicBool::new(false), known: Mutex::default() });
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(load(shared.clone(), number))).collect();
    let mut dice = u64::from(std::process::id()) | 1;
    for _ in 0..kills {
        // xorshift: another moment each time, at times during recovery itself.
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        tokio::time::sleep(Duration::from_millis(dice % 600)).await;
        server.kill();
        server = Server::start(folder.path());
        *shared.url.lock().unwrap() = server.url.clone();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    shared.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    for world in 0..WORLDS {
        // What was sent before is taken in before this is answered.
        server.post(&format!("{W}/w{world}/call/put"), &json!({ "key": "last", "value": 0 })).await.ok(200);
    }
    let counts = journaled(&server.url);
    let known = shared.known.lock().unwrap().clone();
    for (key, acknowledged) in &known {
        match (acknowledged, counts.get(key).copied().unwrap_or(0)) {
            (true, 1) | (false, 0 | 1) => {}
            (_, count) => panic!("{key}: acknowledged {acknowledged}, journaled {count} times"),
        }
    }
    let acknowledged = known.values().filter(|acknowledged| **acknowledged).count();
    assert!(acknowledged > 50, "{acknowledged} events: this proves nothing");
    at(&server.url, &["verify", "--all"]).ok();
    server.kill();
    run(&["verify", "--data", folder.path().join("data").to_str().unwrap()]).ok();
    eprintln!("{kills} kills, {acknowledged} acknowledged events, each journaled once, all worlds proven");
}
