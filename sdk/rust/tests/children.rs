//! A program that dispatches children, and one that is run as a child.

use mundi_sdk::{
    Cause, Event, Failure, Program, Value, World,
    children::{Budget, Lifecycle},
    testing::TestWorld,
};
use serde_json::json;

/// Spawns a child per name, cancels the second one when the first has passed, and keeps what became of each.
struct Planner;

impl Program for Planner {
    const OFFER: &'static str =
        r#"{"events": {"plan": {"type": "array"}}, "effects": {"child.spawn": {}, "child.cancel": {}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        if let Some(child) = event.child()? {
            let ended = match child.lifecycle {
                Lifecycle::Started => json!("started"),
                Lifecycle::Passed => json!([child.result, child.spent.tokens]),
                Lifecycle::Failed => json!([child.code, child.reason]),
                Lifecycle::Cancelled => json!(["cancelled", child.cancel_request_id]),
            };
            if child.lifecycle == Lifecycle::Passed {
                world.cancel_child("b", "enough")?;
            }
            return world.put(&child.label, &ended);
        }
        if let Cause::Event { .. } = event.cause {
            for name in event.value::<Vec<String>>()? {
                world.spawn_child("agent", &json!({ "topic": name }), &Budget::tokens(100), &name)?;
            }
        }
        Ok(())
    }
}

#[test]
fn a_program_spawns_children_and_hears_what_becomes_of_each() {
    let mut planner = TestWorld::<Planner>::new();
    let step = planner.send("plan", ["a", "b", "c"]).unwrap();
    let asked = json!({ "kind": "agent", "params": { "topic": "a" }, "budget": { "tokens": 100 } });
    assert_eq!((&*step.intents[0].kind, &step.intents[0].params), ("child.spawn", &asked));
    planner.child_started("a").unwrap();
    assert_eq!(planner.cell("a"), Some(json!("started")));
    let step = planner.child_passed("a", "done", &Budget::tokens(7)).unwrap();
    assert_eq!(planner.cell("a"), Some(json!(["done", 7])));
    assert_eq!((&*step.intents[0].kind, &step.intents[0].params), ("child.cancel", &json!({ "label": "b" })));
    planner.child_cancelled("b").unwrap();
    assert_eq!(planner.cell("b"), Some(json!(["cancelled", "test"])));
    planner.child_failed("c", "URM_CHILD_BUDGET_EXCEEDED", "budget_exceeded:tokens").unwrap();
    assert_eq!(planner.cell("c"), Some(json!(["URM_CHILD_BUDGET_EXCEEDED", "budget_exceeded:tokens"])));
    assert_eq!(planner.child_failed("c", "X", "x").unwrap_err().code, "RECEIPT_UNKNOWN");
}

/// Says that it is done, or that it cannot be.
struct Doubler;

impl Program for Doubler {
    const OFFER: &'static str = r#"{"events": {"double": true}, "effects": {"child.done": {}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        match (&event.cause, event.value::<Value>()?.as_i64()) {
            (Cause::Event { .. }, Some(number)) => world.child_done_with(&(2 * number), &Budget::tokens(1), "done"),
            (Cause::Event { .. }, None) => world.child_failed("it is no number", "done"),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_program_that_is_a_child_says_that_it_is_done() {
    let done = |value: Value| TestWorld::<Doubler>::new().send("double", value).unwrap().intents.remove(0).params;
    assert_eq!(done(json!(4)), json!({ "result": 8, "spent": { "tokens": 1 } }));
    assert_eq!(done(json!("x")), json!({ "reason": "it is no number" }));
}
