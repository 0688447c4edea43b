//! A universe's share of the processors beside another one that takes all it can, counted by the work that each got done; and queries that fail again
//! and again.

use crate::{
    components::{settled, upload},
    guest::component,
    process::{Answer, Server},
    scaled,
};
use mundi_model::limits::{QUERY_FAILURES_MAX, WASM_FUEL_MAX};
use serde_json::{Value, json};
use std::time::Duration;

const LOUD: &str = "/v1/u/loud";
const QUIET: &str = "/v1/u/default";

/// Fuel of one step or query: a loop ends after a few slices. Five times as much is the most that a step may use by default.
const FUEL: u64 = 20_000_000;

/// Two slots, whatever machine this is: one of them is for short steps.
pub(crate) const SLOTS: (&str, &str) = ("MUNDI_PROGRAMS__SLOTS", "2");

/// Counts down from the number that `work` brings (a CBOR integer of four bytes), and replies with it; `endless` never comes to an end. The
/// query `short` counts for less than a millisecond, and `endless` for ever.
fn counting() -> Vec<u8> {
    let functions = r#"
      (func $count (param $left i32)
        (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
      (func $for_ever (loop $again (call $count (i32.const 1000)) (br $again)))
      ;; A CBOR integer: one of up to 23 is a byte, and one of four bytes follows its head, the highest byte first.
      (func $number (param $at i32) (result i32)
        (if (result i32) (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x1a))
          (then (i32.or
            (i32.or (i32.shl (i32.load8_u offset=1 (local.get $at)) (i32.const 24)) (i32.shl (i32.load8_u offset=2 (local.get $at)) (i32.const 16)))
            (i32.or (i32.shl (i32.load8_u offset=3 (local.get $at)) (i32.const 8)) (i32.load8_u offset=4 (local.get $at)))))
          (else (i32.load8_u (local.get $at)))))
      (func (export "handle") (param $event i32) (result i32)
        ;; The name of the event has its length at 80, its value a pointer at 84 and a length at 88.
        (if (i32.eq (i32.load offset=80 (local.get $event)) (i32.const 7)) (then (call $for_ever)))
        (call $count (call $number (i32.load offset=84 (local.get $event))))
        (call $reply (i32.load (local.get $event)) (i32.load offset=4 (local.get $event))
          (i32.load offset=84 (local.get $event)) (i32.load offset=88 (local.get $event)))
        (i32.const 0))
      (func (export "query") (param $name i32) (param $length i32) (param i32 i32) (result i32)
        (if (i32.eq (local.get $length) (i32.const 7)) (then (call $for_ever)))
        (call $count (i32.const 100000))
        (i32.store (i32.const 260) (i32.const 512)) (i32.store (i32.const 264) (i32.const 1))
        (i32.store8 (i32.const 256) (i32.const 0)) (i32.const 256))"#;
    let imports = r#"(import "mundi:program/host@1.1.0" "reply" (func $reply (param i32 i32 i32 i32)))"#;
    let schema = r#"{"events":{"work":true,"endless":true},"queries":{"short":true,"endless":true}}"#;
    component(imports, r"\f6", schema, functions)
}

/// The program that counts, stored in a universe with so much fuel. Says by which manifest it runs.
pub(crate) async fn store(server: &Server, universe: &str, fuel: u64) -> Value {
    upload(server, universe, &counting()).await;
    let mut manifest = settled(server, universe, &counting()).await["manifest"].clone();
    manifest["wasm"]["limits"]["fuel_max"] = json!(fuel);
    server.post(&format!("{universe}/manifests"), &manifest).await.ok(201)["hash"].clone()
}

pub(crate) async fn create(server: &Server, universe: &str, world: &str, manifest: &Value) {
    server.post(&format!("{universe}/worlds"), &json!({ "world": world, "manifest": manifest })).await.ok(201);
}

/// Worlds of the loud universe, each with so many loops in its inbox.
pub(crate) async fn start_loops(server: &Server, manifest: &Value, worlds: usize, loops: usize) {
    for number in 0..worlds {
        let world = format!("w{number}");
        create(server, LOUD, &world, manifest).await;
        for _ in 0..loops {
            server.post(&format!("{LOUD}/worlds/{world}/send/endless"), &Value::Null).await.ok(202);
        }
    }
}

/// How many loops of these worlds were stopped because their fuel was spent.
async fn stopped(server: &Server, worlds: usize) -> usize {
    let mut stopped = 0;
    for number in 0..worlds {
        let journal = server.get(&format!("{LOUD}/worlds/w{number}/journal?limit=1000")).await;
        stopped += journal.text.matches("BUDGET_EXHAUSTED").count();
    }
    stopped
}

/// One world against many of another universe, all with long steps: the universes get the same, not the worlds.
#[tokio::test]
async fn a_universe_with_one_long_step_gets_as_much_as_one_with_many() {
    const WORLDS: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[SLOTS]);
    server.post("/v1/universes", &json!({ "name": "loud" })).await.ok(201);
    let loud = store(&server, LOUD, FUEL).await;
    let quiet = store(&server, QUIET, WASM_FUEL_MAX).await;
    create(&server, QUIET, "q", &quiet).await;
    start_loops(&server, &loud, WORLDS, 60 * scaled(1)).await;
    while stopped(&server, WORLDS).await == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await; // until all of them are under way
    }
    let before = stopped(&server, WORLDS).await;
    // Three times the fuel of one loop in each call.
    let calls = 12 * scaled(1);
    for _ in 0..calls {
        server.post(&format!("{QUIET}/worlds/q/call/work"), &json!(12_000_000)).await.ok(200);
    }
    let stopped = stopped(&server, WORLDS).await - before;
    // As much for both universes is six loops for each call; a turn for each world would be 96.
    assert!(
        stopped < 30 * calls,
        "beside {calls} long calls of one world, {stopped} loops of {WORLDS} others were run"
    );
}

#[tokio::test]
async fn a_query_that_never_ends_is_held_back_after_a_few_runs_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let manifest = store(&server, QUIET, FUEL).await;
    create(&server, QUIET, "a", &manifest).await;
    create(&server, QUIET, "b", &manifest).await;
    let query = async |world: &str, name: &str| -> Answer {
        server.post(&format!("{QUIET}/worlds/{world}/query/{name}"), &Value::Null).await
    };
    for _ in 0..QUERY_FAILURES_MAX {
        query("a", "endless").await.refused(422, "BUDGET_EXHAUSTED");
    }
    let held_back = query("a", "endless").await;
    assert!(held_back.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    let problem = held_back.refused(429, "QUERY_HELD_BACK");
    assert!(problem["detail"].as_str().unwrap().contains("last with BUDGET_EXHAUSTED"), "{problem}");
    query("a", "short").await.ok(200);
    query("b", "endless").await.refused(422, "BUDGET_EXHAUSTED");
    server.post(&format!("{QUIET}/worlds/a/call/work"), &json!(1)).await.ok(200);
    // It is tried again, once, and fails again.
    let again = loop {
        let answer = query("a", "endless").await;
        if answer.status.as_u16() != 429 {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    again.refused(422, "BUDGET_EXHAUSTED");
    query("a", "endless").await.refused(429, "QUERY_HELD_BACK");
}
