//! More loops than there are places for steps that wait, beside worlds of the same universe whose steps are short.

use crate::{
    process::Server,
    shares::{SLOTS, create, store},
};
use futures_util::future::join_all;
use mundi_model::limits::{STEPS_LONG_OF_UNIVERSE_MAX, STEPS_WAITING_MAX, WASM_FUEL_MAX};
use serde_json::{Value, json};
use std::time::Duration;

const LOUD: &str = "/v1/u/loud";

/// Worlds whose steps take a few milliseconds: of so many called at once, all but one wait for the slot that loops leave free.
const SHORT: usize = 12;

const LOOPS: usize = STEPS_WAITING_MAX + STEPS_LONG_OF_UNIVERSE_MAX + 20;

/// Loops of each world, one after another: a world whose loop ends brings the next one, so that the places stay taken until the end.
const LOOPS_IN_A_ROW: usize = 8;

/// Rounds of calls, and how many of them in a row must find a place: on a busy machine a short step may be taken for a long one.
const ROUNDS: usize = 12;
const CALM_ROUNDS: usize = 3;

/// Returns when as many loops wait as may. A loop that has found out that it is long, with no room for one more, has been given up once and
/// is a long step from then on: whatever is given up beyond that met a full queue.
async fn crowd(server: &Server) {
    let given_up = async || {
        let metrics = server.get("/metrics").await.text;
        let line = metrics.lines().find_map(|line| line.strip_prefix("mundi_steps_crowded_total "));
        line.map_or(0, |count| count.parse::<usize>().unwrap())
    };
    while given_up().await <= LOOPS + 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A world that finds no place for its step is given back and acquired again: its epoch rises.
async fn epochs(server: &Server) -> Vec<Value> {
    let epoch = async |number| server.get(&format!("{LOUD}/worlds/s{number}")).await.ok(200)["lease"]["epoch"].clone();
    join_all((0..SHORT).map(epoch)).await
}

async fn call_all(server: &Server) {
    let call = async |number: usize| {
        for _ in 0..4 {
            server.post(&format!("{LOUD}/worlds/s{number}/call/work"), &json!(2_000_000)).await.ok(200);
        }
    };
    join_all((0..SHORT).map(call)).await;
}

#[tokio::test]
async fn short_steps_find_a_place_to_wait_beside_more_loops_than_there_are_places() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[SLOTS]);
    server.post("/v1/universes", &json!({ "name": "loud" })).await.ok(201);
    let manifest = store(&server, LOUD, WASM_FUEL_MAX).await;
    for number in 0..SHORT {
        create(&server, LOUD, &format!("s{number}"), &manifest).await;
    }
    for number in 0..LOOPS {
        let world = format!("w{number}");
        create(&server, LOUD, &world, &manifest).await;
        let loops = vec![json!({ "event": "endless", "value": null }); LOOPS_IN_A_ROW];
        server.post(&format!("{LOUD}/worlds/{world}/events"), &json!(loops)).await.ok(202);
    }
    crowd(&server).await;
    let (mut before, mut calm) = (epochs(&server).await, 0);
    for _ in 0..ROUNDS {
        call_all(&server).await;
        let after = epochs(&server).await;
        calm = if after == before { calm + 1 } else { 0 };
        before = after;
        if calm == CALM_ROUNDS {
            return;
        }
    }
    panic!("short steps were turned away in one of every {CALM_ROUNDS} rounds: {before:?}");
}
