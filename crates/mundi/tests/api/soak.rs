//! Steady load and random kills: nothing that was acknowledged is lost or doubled.
//!
//! Takes a few seconds; `MUNDI_SOAK_SECONDS` makes it longer (`cargo xtask soak-server` runs ten minutes).

use crate::process::{Server, client};
use reqwest::Method;
use serde_json::json;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const WORLDS: u64 = 8;
const CLIENTS: u64 = 8;
const W: &str = "/v1/u/default/worlds";

/// Where the server is at the moment; clients ask again after each failure.
type Place = Arc<Mutex<String>>;

/// Sends with a key until it is acknowledged, over any number of deaths of the server.
async fn insist(client: &reqwest::Client, place: &Place, verb: &str, world: u64, key: &str, stop: &AtomicBool) -> bool {
    loop {
        let url = format!("{}{W}/w{world}/{verb}/add", place.lock().unwrap());
        let request = client.post(url).header("idempotency-key", key).body("1").timeout(Duration::from_secs(5));
        match request.send().await {
            Ok(answer) if answer.status().is_success() => return true,
            _ if stop.load(Ordering::Relaxed) => return false,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "a soak lasts a time of the wall")]
async fn acknowledged_events_survive_random_kills_once_each() {
    let seconds = std::env::var("MUNDI_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    for world in 0..WORLDS {
        server.post(W, &json!({ "world": format!("w{world}"), "program": "counter" })).await.ok(201);
    }
    let place: Place = Arc::new(Mutex::new(server.url.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    // Per world: acknowledged, and given up on with its fate unknown.
    let counts: Arc<Vec<(AtomicU64, AtomicU64)>> = Arc::new((0..WORLDS).map(|_| Default::default()).collect());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let (place, stop, counts) = (place.clone(), stop.clone(), counts.clone());
            tokio::spawn(async move {
                let client = client();
                for event in 0u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (world, verb) = ((n + event) % WORLDS, if event % 2 == 0 { "call" } else { "send" });
                    let acknowledged = insist(&client, &place, verb, world, &format!("{n}-{event}"), &stop).await;
                    let count = &counts[usize::try_from(world).unwrap()];
                    let count = if acknowledged { &count.0 } else { &count.1 };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (end, mut kills) = (Instant::now() + Duration::from_secs(seconds), 0u64);
    while Instant::now() < end {
        // Not random numbers, but as good: whatever the load makes of it.
        tokio::time::sleep(Duration::from_millis(400 + kills * 7_919 % 1_100)).await;
        server.kill();
        server = Server::start(folder.path());
        *place.lock().unwrap() = server.url.clone();
        kills += 1;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let mut total = 0;
    for (world, (acknowledged, unknown)) in (0..WORLDS).zip(counts.iter()) {
        let (least, most) = (acknowledged.load(Ordering::Relaxed), unknown.load(Ordering::Relaxed));
        let last = server.send(Method::POST, &format!("{W}/w{world}/call/add"), &[], &json!(0)).await.ok(200);
        let counted = last.as_u64().unwrap();
        assert!((least..=least + most).contains(&counted), "w{world}: {counted} of {least} to {}", least + most);
        total += counted;
    }
    eprintln!("{kills} kills, {total} events, none lost, none doubled");
    assert!(kills > 1 && total > 100, "{kills} kills, {total} events: this proves nothing");
}
