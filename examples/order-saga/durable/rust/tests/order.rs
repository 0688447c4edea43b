use mundi_sdk::testing::{DurableWorld, for_each_crash};
use order_saga_durable::Shop;
use serde_json::json;

fn charged() -> DurableWorld<Shop> {
    let mut world = DurableWorld::new();
    world.run("order", json!({ "sku": "tea", "quantity": 2, "cents": 800 }), "17").unwrap();
    world.answer("payment.charge", json!({ "charge": "c-1" })).unwrap();
    world
}

#[test]
fn an_order_is_placed_and_counted() {
    let mut world = charged();
    world.answer("stock.reserve", true).unwrap();
    assert_eq!(world.instance("order", "17").unwrap().result, Some(json!({ "state": "placed" })));
    assert_eq!(world.world().query("totals", ()).unwrap(), json!({ "placed": 1, "cents": 800 }));
}

#[test]
fn what_was_paid_is_given_back_when_there_is_none_and_when_it_is_cancelled() {
    let mut late = charged();
    let mut cancelled = late.fork();
    late.skip("1h").unwrap();
    cancelled.cancel("order", "17", "the customer said so").unwrap();
    for world in [&mut late, &mut cancelled] {
        world.answer("payment.refund", true).unwrap();
    }
    let refunded = json!({ "state": "refunded", "why": "out of stock" });
    assert_eq!(late.instance("order", "17").unwrap().result, Some(refunded));
    assert_eq!(cancelled.instance("order", "17").unwrap().state, "cancelled");
}

#[test]
fn a_payment_is_tried_three_times_also_if_the_process_dies() {
    let steps = for_each_crash::<Shop>(|world| {
        world.run("order", json!({ "sku": "tea", "quantity": 2, "cents": 800 }), "17")?;
        for _ in 0..3 {
            world.fail_effect("payment.charge", "CARD", "refused")?;
            world.skip("1m")?;
        }
        let failed = json!({ "state": "failed", "why": "the payment was refused" });
        assert_eq!(world.instance("order", "17")?.result, Some(failed));
        Ok(())
    });
    assert_eq!(steps.unwrap(), 6);
}
