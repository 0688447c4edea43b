//! The same scenario leads to the same cells in every language, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_sdk::{
    Event, Failure, Program, Value, World,
    functions::{Ctx, Done, EffectOptions, FunctionError, Functions},
    testing::DurableWorld,
};
use serde_json::json;
use std::collections::BTreeMap;

async fn order(ctx: Ctx, order: Value) -> Result<Done, FunctionError> {
    let patient = EffectOptions::default().retry(2).timeout("30s");
    let charge: Value = ctx.effect_with("charge", &json!({ "cents": order["cents"] }), &patient).await?;
    let both = ctx.all([ctx.effect::<Value>("reserve", &order), ctx.effect("check", &order)]).await?;
    let approve = ctx.event_where::<Value>("approve", &json!({ "ok": true }));
    if ctx.race([approve, ctx.sleep("1h")?.any()]).await?.is_null() {
        ctx.effect::<Value>("refund", &charge).await?;
        return ctx.done(&json!({ "state": "expired" }));
    }
    ctx.call::<Value>("warehouse", "ship", &order).await?;
    ctx.done(&json!({ "state": "placed", "stock": both[0], "fraud": both[1] }))
}

async fn many(ctx: Ctx, n: u64) -> Result<Done, FunctionError> {
    ctx.status(&json!({ "left": n }))?;
    let limit = ctx.limit(2);
    let begin = |item: u64| {
        let ctx = ctx.clone();
        limit.run(move || ctx.effect::<Value>("reserve", &item))
    };
    let all = ctx.all((0..3).map(begin)).await?;
    ctx.put("total", &(ctx.get::<u64>("total")?.unwrap_or(0) + n))?;
    let version = ctx.version("way", 1, 2)?;
    ctx.detach(ctx.send("audit", "note", &n));
    if n > 0 {
        return ctx.continue_as(&(n - 1));
    }
    ctx.done(&json!([ctx.now(), version, ctx.random().to_string(), all]))
}

async fn long(ctx: Ctx, n: u64) -> Result<Done, FunctionError> {
    let approval = ctx.event::<Value>("approve");
    let mut seen = 0;
    for item in 0..n {
        seen += u32::from(!ctx.effect::<Value>("reserve", &item).await?.is_null());
    }
    ctx.done(&json!([approval.await?, seen]))
}

async fn loose(ctx: Ctx, n: u64) -> Result<Done, FunctionError> {
    let patient = EffectOptions::default().retry(2).timeout("1h");
    ctx.detach(ctx.effect_with::<Value>("reserve", &json!({ "n": n }), &patient));
    if n > 0 {
        return ctx.continue_as(&(n - 1));
    }
    ctx.done(&ctx.random().to_string())
}

async fn careful(ctx: Ctx, _: Value) -> Result<Done, FunctionError> {
    match ctx.signal::<Value>("approve").await {
        Ok(value) => ctx.done(&value),
        Err(error) if error.is_cancelled() => {
            ctx.shield().effect::<Value>("refund", &()).await?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

struct Vectors;

impl Program for Vectors {
    const OFFER: &'static str = r#"{"events": {"order": true, "many": true, "long": true, "loose": true, "careful": true, "approve": true},
        "effects": {"charge": {}, "reserve": {}, "check": {}, "refund": {}, "world.call": {}, "fabric.send": {}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        let functions = Functions::new(Self::OFFER).durable("order", order);
        functions
            .durable("many", many)
            .durable("long", long)
            .durable("loose", loose)
            .durable("careful", careful)
            .handle(world, event)
            .map(drop)
    }
}

fn act(world: &mut DurableWorld<Vectors>, action: &[Value]) -> Result<(), Failure> {
    let text = |at: usize| action[at].as_str().unwrap_or_default();
    match text(0) {
        "run" => world.run(text(1), &action[2], text(3)).map(drop),
        "answer" => world.answer(text(1), &action[2]).map(drop),
        "fail" => world.fail_effect(text(1), text(2), text(3)).map(drop),
        "event" => world.event(text(1), &action[2], action[3].as_str()).map(drop),
        "skip" => world.skip(text(1)),
        "cancel" => world.cancel(text(1), text(2), text(3)).map(drop),
        "pause" => world.pause(text(1), text(2)).map(drop),
        other => panic!("no action `{other}`"),
    }
}

#[test]
fn the_shared_scenarios_hold() {
    let table: Value = serde_json::from_str(include_str!("../../function-vectors.json")).unwrap();
    for case in table["cases"].as_array().unwrap() {
        let mut world = DurableWorld::<Vectors>::new();
        for action in case["do"].as_array().unwrap() {
            act(&mut world, action.as_array().unwrap()).unwrap();
        }
        let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let cells: BTreeMap<_, _> = world.world().cells().iter().map(|(key, cell)| (key.clone(), hex(cell))).collect();
        let expected: BTreeMap<String, String> = serde_json::from_value(case["cells"].clone()).unwrap();
        assert_eq!(cells, expected, "{}", case["name"]);
    }
}
