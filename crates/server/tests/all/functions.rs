//! Durable functions in worlds of a node with its HTTP API: upgrades while instances run, and forks at their awaits.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use crate::find::Server;
use mundi_kernel::manifest::{EffectRule, Manifest, Schema};
use mundi_native::Native;
use mundi_sdk::{
    Cause, Event, Failure, Program, Value as Json, World,
    functions::{Ctx, FunctionError, Functions, Handled},
};
use mundi_server::programs::Programs;
use serde_json::{Value, json};
use std::time::Duration;

const W: &str = "/v1/u/default/worlds";
const OFFER: &str =
    r#"{"events": {"order": true, "approve": true, "note": true}, "effects": {"ship": {}, "check": {}, "write": {}}}"#;

fn declare(manifest: &mut Manifest) {
    for event in ["order", "approve", "note"] {
        manifest.events.insert(event.into(), Schema::anything());
    }
    for effect in ["ship", "check", "write"] {
        manifest.effects.insert(effect.into(), EffectRule::default());
    }
}

/// A program of a function `order` and a handler of `note`, which writes the note down under this name.
macro_rules! program {
    ($name:ident, $code:expr, $note:literal) => {
        struct $name;

        impl Program for $name {
            const OFFER: &'static str = OFFER;

            fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
                let handled = Functions::new(OFFER).durable("order", $code).handle(world, event)?;
                match &event.cause {
                    Cause::Event { schema, .. } if handled == Handled::No && schema == "note" => {
                        world.emit("write", &json!($note), "")
                    }
                    _ => Ok(()),
                }
            }
        }
    };
}

async fn first(ctx: Ctx, _: Json) -> Result<Json, FunctionError> {
    let by: Json = ctx.signal("approve").await?;
    ctx.effect::<Json>("ship", &by).await
}

/// A step that is new, for instances that have not passed that place.
async fn versioned(ctx: Ctx, _: Json) -> Result<Json, FunctionError> {
    let by: Json = ctx.signal("approve").await?;
    if ctx.version("check", 1, 2)? == 2 {
        ctx.effect::<Json>("check", &by).await?;
    }
    ctx.effect::<Json>("ship", &by).await
}

async fn unversioned(ctx: Ctx, _: Json) -> Result<Json, FunctionError> {
    let by: Json = ctx.signal("approve").await?;
    ctx.effect::<Json>("check", &by).await?;
    ctx.effect::<Json>("ship", &by).await
}

async fn raced(ctx: Ctx, _: Json) -> Result<Json, FunctionError> {
    let first: Json = ctx.race([ctx.event("approve"), ctx.sleep("50ms")?.any()]).await?;
    ctx.effect::<Json>("ship", &first).await
}

program!(First, first, "as it was");
program!(Versioned, versioned, "as it was");
program!(Unversioned, unversioned, "as it was");
program!(OtherNote, versioned, "otherwise");
program!(Raced, raced, "as it was");

fn programs() -> Programs {
    Programs::builtin()
        .native("first", 1, Native::<First>::default(), declare)
        .native("versioned", 1, Native::<Versioned>::default(), declare)
        .native("unversioned", 1, Native::<Unversioned>::default(), declare)
        .native("other-note", 1, Native::<OtherNote>::default(), declare)
        .native("raced", 1, Native::<Raced>::default(), declare)
}

async fn send(server: &Server, world: &str, event: &str, key: &str) {
    let sent = server.post(&format!("{W}/{world}/send/{event}?key={key}"), &json!("ann")).await;
    assert!((200..300).contains(&sent.status), "{}", sent.text);
}

/// The instance, once it waits for an await of this kind and name.
async fn waiting(server: &Server, world: &str, instance: &str, name: &str) -> Value {
    for _ in 0..500 {
        let found = server.get(&format!("{W}/{world}/functions/{instance}")).await;
        let found: Value = serde_json::from_str(&found.text).unwrap();
        if found["waits"].as_array().is_some_and(|waits| waits.iter().any(|wait| wait["name"] == name)) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{world} {instance} never waits for {name}");
}

/// A world with three orders that were approved and one that was not.
async fn orders(server: &Server, world: &str) {
    server.post(W, &json!({ "world": world, "program": "first" })).await.ok(201);
    for key in ["a", "b", "c", "d"] {
        send(server, world, "order", key).await;
        waiting(server, world, &format!("order/{key}"), "approve").await;
    }
    for key in ["a", "b", "c"] {
        send(server, world, "approve", key).await;
        waiting(server, world, &format!("order/{key}"), "ship").await;
    }
}

async fn upgrade(server: &Server, world: &str, program: &str) -> crate::find::Answer {
    server.post(&format!("{W}/{world}/upgrade"), &json!({ "program": program })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_program_is_upgraded_with_a_version_and_refused_without() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), programs()).await;
    orders(&server, "shop").await;

    let refused = upgrade(&server, "shop", "unversioned").await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let problem: Value = serde_json::from_str(&refused.text).unwrap();
    assert_eq!(problem["code"], "UPGRADE_DIVERGES");
    let detail = problem["detail"].as_str().unwrap();
    for instance in ["order/a: await 2: on record is effect `ship`", "order/b: await 2", "order/c: await 2"] {
        assert!(detail.contains(instance), "{detail}");
    }
    assert!(!detail.contains("order/d"), "one that has not come so far goes on: {detail}");

    let rehearsed = server.post(&format!("{W}/shop/rehearse"), &json!({ "program": "unversioned" })).await.ok(200);
    let named: Vec<_> =
        rehearsed["functions"].as_array().unwrap().iter().map(|it| (&it["instance"], &it["await"])).collect();
    assert_eq!(named, [(&json!("order/a"), &json!(2)), (&json!("order/b"), &json!(2)), (&json!("order/c"), &json!(2))]);
    let rehearsed = server.post(&format!("{W}/shop/rehearse"), &json!({ "program": "versioned" })).await.ok(200);
    assert_eq!(rehearsed["functions"], json!([]));
    let counter = server.post(&format!("{W}/shop/rehearse"), &json!({ "program": "counter" })).await.ok(200);
    assert_eq!(counter["functions"].as_array().unwrap().len(), 4, "a program without functions: {counter}");

    upgrade(&server, "shop", "versioned").await.ok(202);
    send(&server, "shop", "approve", "d").await;
    waiting(&server, "shop", "order/d", "check").await;
    let before = waiting(&server, "shop", "order/a", "ship").await;
    assert_eq!(before["state"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_beside_functions_are_rehearsed_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), programs()).await;
    server.post(W, &json!({ "world": "shop", "program": "first" })).await.ok(201);
    // The effect of the handler stays open, below all steps of the function.
    send(&server, "shop", "note", "n").await;
    for (event, name) in [("order", "approve"), ("approve", "ship")] {
        send(&server, "shop", event, "a").await;
        waiting(&server, "shop", "order/a", name).await;
    }
    upgrade(&server, "shop", "other-note").await.refused(409, "UPGRADE_DIVERGES");
    upgrade(&server, "shop", "versioned").await.ok(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_begins_at_an_await_that_was_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), programs()).await;
    server.post(W, &json!({ "world": "shop", "program": "raced" })).await.ok(201);
    send(&server, "shop", "order", "a").await;
    waiting(&server, "shop", "order/a", "ship").await;
    let log = server.get(&format!("{W}/shop/functions/order/a")).await.ok(200)["log"].clone();
    assert_eq!(
        (&log[0]["state"], &log[1]["state"]),
        (&json!("cancelled"), &json!("ok")),
        "the sleep ended first: {log}"
    );

    // In a world of one instance a number names its await.
    let made = json!({ "world": "approved", "at_await": "1", "with": "ann" });
    let fork = server.post(&format!("{W}/shop/fork"), &made).await.ok(201);
    assert_eq!(fork["forked_at"], log[1]["ended_at"], "before the record whose step withdrew it");
    let log = waiting(&server, "approved", "order/a", "ship").await;
    assert_eq!((&log["log"][0]["state"], &log["log"][0]["value"]), (&json!("ok"), &json!("ann")));
    assert_eq!(log["log"][1]["state"], "cancelled", "now the sleep is withdrawn");

    send(&server, "shop", "order", "b").await;
    waiting(&server, "shop", "order/b", "ship").await;
    let several = server.post(&format!("{W}/shop/fork"), &json!({ "at_await": "1" })).await;
    assert!(several.text.contains("order/a, order/b"), "{}", several.text);
    several.refused(400, "REQUEST_INVALID");
    server.post(&format!("{W}/shop/fork"), &json!({ "at_await": "0" })).await.refused(400, "REQUEST_INVALID");
}
