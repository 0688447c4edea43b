//! A durable function that waits for children: native, in worlds that really run. And forks of it, in which an await ends with another result.

use crate::child_worlds::{House, Process};
use mundi_model::{
    Code, Coded, Height, Value, WorldId, cbor,
    child::ChildOutcome,
    record::{EffectPolicy, Input, Payload},
};
use mundi_runtime::lifecycle::{Beginning, ForkAt, ForkPolicy, Naming};
use mundi_sdk::{
    Event, Failure, Program, Value as Json, World,
    children::{Budget, ChildPassed},
    functions::{Ctx, Done, FunctionError, Functions},
};
use mundi_store::testing::world_id;
use serde_json::json;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const OFFER: &str = r#"{"events": {"direct": true, "enough": true}, "effects": {"child.spawn": {}}}"#;

/// Waits for one child, cancels another one with its scope, and gives back what became of them.
pub(crate) struct Director;

async fn direct(ctx: Ctx, _: Json) -> Result<Done, FunctionError> {
    let work = |value: &str| json!({ "program": "worker", "event": "work", "value": value });
    let one: ChildPassed<String> = ctx.child("world", &work("red"), &Budget::tokens(10)).await?;
    let scope = ctx.scope();
    let two = scope.child::<Json>("world", &work("wait"), &Budget::default());
    ctx.event::<Json>("enough").await?;
    scope.cancel("enough");
    let is_cancelled = two.await.is_err_and(|error| error.is_cancelled());
    ctx.done(&json!([one.result, one.spent.tokens, is_cancelled]))
}

impl Program for Director {
    const OFFER: &'static str = OFFER;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        Functions::new(OFFER).durable("direct", direct).handle(world, event).map(drop)
    }

    fn query(world: &World, _: &str, key: Json) -> Result<Json, Failure> {
        Ok(world.get(key.as_str().unwrap_or_default())?.unwrap_or_default())
    }
}

fn send(house: &House, world: WorldId, schema: &str) {
    let (rig, value) = (house.rig.clone(), Payload::Inline(cbor::encode(&Value::Bool(true))));
    let input = Input::Event { schema: schema.to_owned(), value, key: Some("k".to_owned()) };
    house.rig.executor.block_on(async move { rig.send(world, vec![input]).await }).unwrap();
    house.run(MINUTE);
}

fn cell(house: &House, process: &Process, world: WorldId, key: &str) -> Json {
    let params = cbor::encode(&Value::Text(key.into()));
    let answer = house.ask(process, move |ops| async move { ops.world_query(world, "cell", &params, None).await });
    mundi_sdk::cbor::decode(&answer.unwrap()).unwrap()
}

fn head(house: &House, process: &Process, world: WorldId) -> Json {
    cell(house, process, world, "$fn/i/direct/k")
}

/// The row of the first await.
fn first_await(house: &House, process: &Process, world: WorldId) -> Json {
    let row = cell(house, process, world, "$fn/l/direct/k/000001");
    serde_json::from_str(row.as_str().unwrap()).unwrap()
}

#[test]
fn a_function_waits_for_a_child_and_cancels_another_one_with_its_scope() {
    let house = House::new();
    let world = house.create(1, house.manifests[2]);
    let process = house.start(1);
    send(&house, world, "direct");
    assert_eq!(head(&house, &process, world)["waits"].as_array().unwrap().len(), 2, "the second child and the event");
    send(&house, world, "enough");
    let head = head(&house, &process, world);
    assert_eq!((&head["state"], &head["result"]), (&json!("done"), &json!(["red", 4, true])));
    let outcomes = house.children(&process, world).into_iter().map(|child| child.end.map(|end| end.outcome));
    assert_eq!(outcomes.collect::<Vec<_>>(), [Some(ChildOutcome::Passed), Some(ChildOutcome::Cancelled)]);
}

#[test]
fn in_a_fork_an_await_ends_with_another_result_before_what_the_fork_inherits() {
    let house = House::new();
    let world = house.create(1, house.manifests[2]);
    let process = house.start(1);
    send(&house, world, "direct");
    let ended_at = first_await(&house, &process, world)[11].as_u64().unwrap();
    // Each policy gives the branch an answer to what is open: the parent's receipt, or an error.
    let policies = [EffectPolicy::Sandbox, EffectPolicy::RecordedThenLive, EffectPolicy::Suppress];
    for (policy, number) in policies.into_iter().zip(10..) {
        let told = json!({ "resolve": "direct/k", "await": 1, "ok": { "result": "blue", "spent": { "tokens": 9 } } });
        let beginning = Beginning { manifest: None, told: Some(mundi_sdk::cbor::encode(&told)) };
        let (child, at) = (world_id(number), ForkAt::Height(Height::new(ended_at)));
        let policy = ForkPolicy { effects: Some(policy), answers: None };
        let fork = |beginning: Beginning| {
            house.ask(&process, move |ops| async move {
                ops.world_fork_labelled(beginning, world, child, Naming::default(), at, policy, 5_000).await
            })
        };
        fork(beginning.clone()).unwrap();
        house.run(MINUTE);
        let row = first_await(&house, &process, child);
        assert_eq!((&row[3], &row[6]["result"]), (&json!("ok"), &json!("blue")), "{policy:?}: {row}");
        // The same request finds it again; another result is another fork.
        fork(beginning).unwrap();
        assert_eq!(fork(Beginning::default()).unwrap_err().code(), Code::WorldExists);
    }
    assert_eq!(first_await(&house, &process, world)[6]["result"], "red", "the parent is only read");
}
