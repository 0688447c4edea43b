//! Components that take all the time they can get, in a step or from the compiler.

use crate::{
    guest::{adder, asker},
    process::{Answer, Server},
    scaled,
};
use mundi_model::{Hash, limits};
use mundi_wasm::build::componentize;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const LOUD: &str = "/v1/u/loud";
const QUIET: &str = "/v1/u/default";

pub(crate) async fn upload(server: &Server, universe: &str, code: &[u8]) {
    let path = format!("{universe}/programs/{}", Hash::of(code));
    Answer::of(server.request(Method::PUT, &path).body(code.to_vec()).send().await.unwrap()).await.ok(201);
}

/// Where the program stands once it is no longer waited for.
pub(crate) async fn settled(server: &Server, universe: &str, code: &[u8]) -> Value {
    loop {
        let state = server.get(&format!("{universe}/programs/{}", Hash::of(code))).await.ok(200);
        if !matches!(state["state"].as_str(), Some("queued" | "compiling")) {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn endless_loops_of_one_universe_do_not_keep_others_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/universes", &json!({ "name": "loud" })).await.ok(201);
    let endless = asker("(loop $again (br $again))");
    upload(&server, LOUD, &endless).await;
    let mut manifest = settled(&server, LOUD, &endless).await["manifest"].clone();
    manifest["wasm"]["limits"]["fuel_max"] = json!(limits::WASM_FUEL_MAX);
    let manifest = server.post(&format!("{LOUD}/manifests"), &manifest).await.ok(201)["hash"].clone();
    server.post(&format!("{QUIET}/worlds"), &json!({ "world": "c", "program": "counter" })).await.ok(201);
    upload(&server, QUIET, &adder()).await;
    let adding = settled(&server, QUIET, &adder()).await["manifest"].clone();
    let adding = server.post(&format!("{QUIET}/manifests"), &adding).await.ok(201)["hash"].clone();
    server.post(&format!("{QUIET}/worlds"), &json!({ "world": "a", "manifest": adding })).await.ok(201);

    let loops = scaled(32);
    for number in 0..loops {
        let world = format!("w{number}");
        server.post(&format!("{LOUD}/worlds"), &json!({ "world": world, "manifest": manifest })).await.ok(201);
        server.post(&format!("{LOUD}/worlds/{world}/send/go"), &Value::Null).await.ok(202);
    }
    for number in 1..=scaled(50) {
        assert_eq!(server.post(&format!("{QUIET}/worlds/c/call/add"), &json!(1)).await.ok(200), json!(number));
        server.get("/livez").await.ok(200);
        server.post(&format!("{QUIET}/worlds/a/call/add"), &json!(0)).await.ok(200);
    }
    let mut ended = 0;
    for number in 0..loops {
        let journal = server.get(&format!("{LOUD}/worlds/w{number}/journal")).await;
        ended += usize::from(journal.text.contains("BUDGET_EXHAUSTED"));
    }
    assert!(ended < loops / 2, "150 requests took as long as {ended} loops of a processor each");
}

/// More loops than there are places for steps that wait, beside a world of the same universe that does little.
#[tokio::test]
async fn endless_loops_do_not_stop_other_worlds_of_their_own_universe_and_none_is_put_on_hold() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/universes", &json!({ "name": "loud" })).await.ok(201);
    let endless = asker("(loop $again (br $again))");
    upload(&server, LOUD, &endless).await;
    let mut manifest = settled(&server, LOUD, &endless).await["manifest"].clone();
    manifest["wasm"]["limits"]["fuel_max"] = json!(limits::WASM_FUEL_MAX);
    let manifest = server.post(&format!("{LOUD}/manifests"), &manifest).await.ok(201)["hash"].clone();
    upload(&server, LOUD, &adder()).await;
    let adding = settled(&server, LOUD, &adder()).await["manifest"].clone();
    let adding = server.post(&format!("{LOUD}/manifests"), &adding).await.ok(201)["hash"].clone();
    server.post(&format!("{LOUD}/worlds"), &json!({ "world": "a", "manifest": adding })).await.ok(201);

    let loops = limits::STEPS_WAITING_MAX + limits::STEPS_LONG_OF_UNIVERSE_MAX + scaled(20);
    for number in 0..loops {
        let world = format!("w{number}");
        server.post(&format!("{LOUD}/worlds"), &json!({ "world": world, "manifest": manifest })).await.ok(201);
        server.post(&format!("{LOUD}/worlds/{world}/send/go"), &Value::Null).await.ok(202);
    }
    for _ in 0..scaled(50) {
        server.post(&format!("{LOUD}/worlds/a/call/add"), &json!(0)).await.ok(200);
    }
    let mut ended = 0;
    for number in 0..loops {
        let journal = server.get(&format!("{LOUD}/worlds/w{number}/journal")).await;
        ended += usize::from(journal.text.contains("BUDGET_EXHAUSTED"));
    }
    assert!(ended < loops / 2, "50 calls took as long as {ended} loops of a processor each");
    let held = server.get(&format!("{LOUD}/worlds?on_hold=true")).await.ok(200);
    assert_eq!(held["items"], json!([]));
}

/// Allowed by its size, and much for a compiler: so many functions of so many loops.
fn much(functions: usize, loops: usize) -> Vec<u8> {
    let body = "(loop (br_if 0 (local.get 0)))".repeat(loops);
    module(1, &(0..functions).map(|_| format!("(func (param i32) {body})")).collect::<String>())
}

/// A component of so many pages of memory that holds this, and says nothing about itself.
fn module(pages: usize, contents: &str) -> Vec<u8> {
    let text = format!(
        r#"(module (memory (export "memory") {pages}) {contents}
          (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 4096)
          (func (export "describe") (result i32) i32.const 0)
          (func (export "handle") (param i32) (result i32) i32.const 0)
          (func (export "query") (param i32 i32 i32 i32) (result i32) i32.const 0))"#
    );
    componentize(&wat::parse_str(text).unwrap()).unwrap()
}

#[tokio::test]
async fn a_component_that_takes_a_compiler_too_long_is_refused_and_another_universe_does_not_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[("MUNDI_PROGRAMS__COMPILE_CPU_S_MAX", "1")]);
    server.post("/v1/universes", &json!({ "name": "loud" })).await.ok(201);
    let bombs: Vec<_> = (20..20 + scaled(3)).map(|functions| much(functions, 2_000)).collect();
    for bomb in &bombs {
        upload(&server, LOUD, bomb).await;
    }
    upload(&server, QUIET, &adder()).await;
    let state = settled(&server, QUIET, &adder()).await;
    assert_eq!(state["state"], "ready", "{state}");
    for bomb in &bombs {
        let state = settled(&server, LOUD, bomb).await;
        assert_eq!(state["state"], "refused", "{state}");
        assert!(state["why"].as_str().unwrap().contains("programs.compile_cpu_s_max"), "{state}");
    }
}

#[tokio::test]
async fn a_function_of_many_loops_and_a_compiler_that_takes_much_memory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[("MUNDI_PROGRAMS__COMPILE_MEMORY_BYTES_MAX", "134217728")]);
    // Some 0.5 MB, and a minute and 1.5 GB for the compiler: nobody compiles it.
    let loops = much(1, 32_500);
    let path = format!("{QUIET}/programs/{}", Hash::of(&loops));
    let refused = Answer::of(server.request(Method::PUT, &path).body(loops).send().await.unwrap()).await;
    refused.refused(400, "PROGRAM_REFUSED");
    // The bytes alone, read and written, are more than the compiler may have.
    let large = module(700, &format!(r#"(data (i32.const 0) "{}")"#, "x".repeat(40 << 20)));
    upload(&server, QUIET, &large).await;
    let state = settled(&server, QUIET, &large).await;
    assert_eq!(state["state"], "refused", "{state}");
    assert!(state["why"].as_str().unwrap().contains("programs.compile_memory_bytes_max"), "{state}");
    upload(&server, QUIET, &adder()).await;
    assert_eq!(settled(&server, QUIET, &adder()).await["state"], "ready");
}
