use mundi_sdk::{
    Bytes, Failure, Value,
    testing::{DurableWorld, for_each_crash},
};
use payment_saga::Order;
use serde_json::json;

fn begun() -> DurableWorld<Order> {
    let mut world = DurableWorld::new();
    let order = json!({ "order": "good", "shop": "http://shop", "confirm_within_ms": 60_000 });
    world.run("begin", order, "one").unwrap();
    world
}

/// The shop answers the oldest request; gives what it was asked for.
fn answer(world: &mut DurableWorld<Order>, status: u16) -> Result<(), Failure> {
    let answer = json!({ "status": status, "headers": {}, "body": Bytes::from("") });
    world.answer("http.request", answer).map(drop)
}

fn outcome(world: &DurableWorld<Order>) -> (String, Option<Value>) {
    let instance = world.instance("begin", "one").unwrap();
    (instance.state, instance.result)
}

fn undone(why: &str) -> (String, Option<Value>) {
    ("done".to_owned(), Some(json!({ "undone": why })))
}

#[test]
fn an_order_that_is_confirmed_early_is_shipped() {
    let mut world = begun();
    world.event("confirm", true, None).unwrap();
    (0..3).for_each(|_| answer(&mut world, 200).unwrap());
    assert_eq!(outcome(&world), ("done".to_owned(), Some("shipped".into())));
    assert_eq!(world.event("outcome", (), None).unwrap().reply, Some("shipped".into()));
    assert!(world.world().open().is_empty() && world.world().timers().is_empty());
}

#[test]
fn what_was_done_is_undone_in_reverse_order() {
    let mut world = begun();
    (0..2).for_each(|_| answer(&mut world, 200).unwrap());
    world.event("confirm", true, None).unwrap();
    answer(&mut world, 409).unwrap();
    assert_eq!(world.instance("begin", "one").unwrap().state, "running");
    (0..2).for_each(|_| answer(&mut world, 200).unwrap());
    assert_eq!(outcome(&world), undone("ship was refused"));

    let mut world = begun();
    world.fail_effect("http.request", "EFFECT_FAILED", "the shop is closed").unwrap();
    assert_eq!(outcome(&world), undone("reserve was refused"));
}

#[test]
fn an_order_that_nobody_confirms_or_that_is_cancelled_is_undone() {
    let mut late = begun();
    (0..2).for_each(|_| answer(&mut late, 200).unwrap());
    let mut cancelled = late.fork();
    late.skip("1m").unwrap();
    cancelled.cancel("begin", "one", "the customer said so").unwrap();
    for world in [&mut late, &mut cancelled] {
        (0..2).for_each(|_| answer(world, 200).unwrap());
        assert!(world.world().open().is_empty());
    }
    assert_eq!(outcome(&late), undone("it was not confirmed in time"));
    assert_eq!(outcome(&cancelled).0, "cancelled");
    assert_eq!(cancelled.world().cell("outcome"), Some(json!({ "undone": "it was cancelled" })));
}

#[test]
fn a_crash_in_any_step_changes_nothing() {
    let steps = for_each_crash::<Order>(|world| {
        let order = json!({ "order": "broken", "shop": "http://shop", "confirm_within_ms": 60_000 });
        world.run("begin", order, "one")?;
        world.event("confirm", true, None)?;
        answer(world, 200)?;
        answer(world, 409)?;
        answer(world, 200)
    });
    assert_eq!(steps.unwrap(), 5);
}
