//! A program that calls another one, and hears its reply.

use mundi_sdk::{
    Cause, Event, Failure, Program, Status, Value, World,
    kinds::{EffectError, WorldCall},
    testing::TestWorld,
};
use serde_json::json;
use std::collections::BTreeMap;

/// Asks `till` what an order costs, with all that can be said beside it.
struct Shop;

impl Program for Shop {
    const OFFER: &'static str = r#"{"events": {"order": true, "wrong": true}, "effects": {"world.call": {}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        match &event.cause {
            Cause::Event { schema, .. } if schema == "wrong" => world.call("till", "gift", &Value::Null, "price"),
            Cause::Event { .. } => {
                let call = WorldCall {
                    headers: BTreeMap::from([("tenant".to_owned(), "a".to_owned())]),
                    correlation_id: Some("order 7".to_owned()),
                    timeout_ms: Some(5_000),
                    ..WorldCall::new("till", "price", &event.value::<Value>()?)?
                };
                world.ask(&call, "price")
            }
            _ => match event.reply::<u64>()? {
                Ok(cents) => world.put("cents", &cents),
                Err(EffectError { code, failed_code, failed_at, .. }) => {
                    world.put("failed", &(code, failed_code, failed_at))
                }
            },
        }
    }
}

/// Knows one price, and who asks for it.
struct Till;

impl Program for Till {
    const OFFER: &'static str = r#"{"events": {"price": {"type": "string"}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        let Some(sender) = &event.origin.sender else { return Err(Failure::new("nobody asks")) };
        world.put("asked", &(&sender.world, &event.origin.correlation_id, world.headers()))?;
        match event.value::<String>()?.as_str() {
            "tea" => world.reply(&event.seq, &350),
            "later" => Ok(()),
            other => Err(Failure::new(format!("no `{other}`"))),
        }
    }
}

fn worlds(order: &str) -> (TestWorld<Shop>, TestWorld<Till>) {
    let mut shop = TestWorld::new();
    shop.send("order", order).unwrap();
    (shop, TestWorld::new())
}

#[test]
fn the_reply_of_another_world_is_the_receipt_of_a_call() {
    let (mut shop, mut till) = worlds("tea");
    shop.answer_call("price", &mut till).unwrap();
    assert_eq!(shop.cell("cents"), Some(json!(350)));
    let asked = json!(["w_00000000000000000000000001", "order 7", [["tenant", "a"]]]);
    assert_eq!(till.cell("asked"), Some(asked), "the caller cannot choose who it is");
    assert!(shop.open().is_empty());
    assert_eq!(shop.answer_call("price", &mut till).unwrap_err().code, "RECEIPT_UNKNOWN");
}

#[test]
fn a_step_that_fails_at_the_other_world_and_an_event_that_it_does_not_take_are_errors() {
    let (mut shop, mut till) = worlds("coffee");
    shop.answer_call("price", &mut till).unwrap();
    assert_eq!(shop.cell("failed"), Some(json!(["CALL_FAILED", "PROGRAM_FAILED", 1])));
    assert_eq!(till.cell("asked"), None, "a failed step leaves nothing");
    shop.send("wrong", ()).unwrap();
    shop.answer_call("price", &mut till).unwrap();
    assert_eq!(shop.cell("failed"), Some(json!(["EVENT_INVALID", null, null])));
}

#[test]
fn a_program_that_replies_later_is_answered_for() {
    let (mut shop, mut till) = worlds("later");
    assert!(shop.answer_call("price", &mut till).unwrap_err().reason.contains("did not reply"));
    shop.receipt("price", Status::Ok, 7).unwrap();
    assert_eq!(shop.cell("cents"), Some(json!(7)));
}
