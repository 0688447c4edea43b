//! The same source, without a server.

use mundi_sdk::{Status, testing::TestWorld};
use order_saga::OrderSaga;
use serde_json::json;

fn place(world: &mut TestWorld<OrderSaga>) {
    let step = world.send("place", json!({ "order": "a", "sku": "tea", "quantity": 2, "cents": 900 })).unwrap();
    assert_eq!(step.reply, None);
    assert_eq!((&*step.intents[0].kind, &*step.intents[0].label), ("payment.charge", "charge/a"));
    assert_eq!(step.intents[0].params, json!({ "order": "a", "cents": 900, "attempt": 1 }));
    assert_eq!(step.timers[0].label, "expire/a");
}

#[test]
fn an_order_that_is_paid_and_in_stock_is_placed() {
    let mut world = TestWorld::new();
    place(&mut world);
    let step = world.receipt("charge/a", Status::Ok, json!({ "charge": "c1" })).unwrap();
    assert_eq!(step.intents[0].params, json!({ "order": "a", "sku": "tea", "quantity": 2 }));
    let step = world.receipt("reserve/a", Status::Ok, json!(null)).unwrap();
    let (_, answer) = step.replies.first_key_value().unwrap();
    assert_eq!(answer["state"], "placed");
    assert_eq!(world.query("totals", json!(null)).unwrap(), json!({ "placed": 1, "cents": 900 }));
    assert!(world.timers().is_empty() && world.open().is_empty());
}

#[test]
fn a_payment_is_tried_three_times() {
    let mut world = TestWorld::new();
    place(&mut world);
    for attempt in 1..3 {
        let step = world.receipt("charge/a", Status::Timeout, json!(null)).unwrap();
        assert_eq!((&*step.timers[0].label, &step.timers[0].payload), ("retry/a", &json!(attempt)));
        let step = world.fire("retry/a").unwrap();
        assert_eq!(step.intents[0].params["attempt"], attempt + 1);
    }
    let step = world.receipt("charge/a", Status::Error, json!(null)).unwrap();
    assert_eq!(step.replies.first_key_value().unwrap().1["state"], "failed");
}

#[test]
fn what_was_paid_is_given_back_when_there_is_no_stock() {
    let mut world = TestWorld::new();
    place(&mut world);
    world.receipt("charge/a", Status::Ok, json!({ "charge": "c1" })).unwrap();
    let step = world.receipt("reserve/a", Status::Error, json!("none left")).unwrap();
    assert_eq!(step.intents[0].params, json!({ "order": "a", "charge": "c1" }));
    world.receipt("refund/a", Status::Ok, json!(null)).unwrap();
    assert_eq!(world.query("order", json!({ "order": "a" })).unwrap()["state"], "refunded");
}

#[test]
fn an_unknown_order_fails_and_leaves_nothing() {
    let mut world = TestWorld::<OrderSaga>::new();
    assert!(world.send("cancel", json!({ "order": "b" })).is_err());
    assert!(world.cells().is_empty());
}
