//! One durable function in three languages: the same journal leads to the same cells, intents, timers and replies, byte for byte, also
//! when the world is restored from a snapshot before each step.

use crate::{
    components, languages,
    saga::{Director, Guest, followed},
    tell,
};
use mundi_kernel::World;
use mundi_model::{
    Value, cbor,
    record::{Input, Payload},
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const STEPS: u64 = 300;
/// Few enough that keys meet again, with the same input and with another one.
const ORDERS: u64 = 30;

fn inline(value: serde_json::Value) -> Payload {
    Payload::Inline(cbor::encode(&Value::from(value)))
}

/// The next input: mostly answers, and now and then an order, a timer or a cancellation.
fn next(director: &mut Director, world: &World) -> Input {
    let intents: Vec<_> = world.open_intents().cloned().collect();
    let timers: Vec<_> = world.timers().cloned().collect();
    match director.draw(11) {
        0..5 if !intents.is_empty() => director.receipt(&intents),
        5..7 if !timers.is_empty() => {
            let timer = &timers[director.index(timers.len())];
            Input::TimerFired { timer: timer.hash, payload: Payload::Inline(Vec::new()) }
        }
        10 => {
            let (order, number) = (format!("order/o{}", director.draw(ORDERS)), director.draw(6) + 1);
            // What the receipt of a charge needs, and the others ignore: of the three languages only Rust looks at its type.
            let given = json!({ "given": number, "charge": format!("given {number}") });
            let with = [("ok", given), ("error", json!({ "code": "GIVEN", "reason": "by hand" }))];
            let (outcome, value) = &with[director.index(2)];
            let payload = inline(json!({ "resolve": order, "await": number, (*outcome): value }));
            Input::Message { inbox: "$fn".to_owned(), payload, headers: BTreeMap::new() }
        }
        7 => {
            let verb = ["cancel", "pause", "resume"][director.index(3)];
            let payload = inline(json!({ verb: format!("order/o{}", director.draw(ORDERS)) }));
            Input::Message { inbox: "$fn".to_owned(), payload, headers: BTreeMap::new() }
        }
        _ => {
            let order = director.draw(ORDERS);
            let sku = ["tea", "käse", "日本茶"][director.index(3)];
            // Sometimes the same key with another input.
            let value = inline(json!({ "sku": sku, "quantity": order + 1, "cents": order * 1_000_000_007 }));
            Input::Event { schema: "order".to_owned(), value, key: Some(format!("o{order}")) }
        }
    }
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_durable_order_saga_is_the_same_in_every_language() {
    let components = components();
    let built = languages().into_iter().map(|language| Guest::build(&components, "order-saga/durable", language));
    let mut guests: Vec<_> = built.collect();
    let mut director = Director(0x0dd0_51de);
    let (mut states, mut failures) = (BTreeSet::new(), 0);
    for step in 0..STEPS {
        if step % 50 == 0 {
            tell(&format!("step {step} of {STEPS}"));
        }
        let input = next(&mut director, &guests[0].rig.world);
        let outputs: Vec<_> = guests.iter_mut().map(|guest| guest.take(&input)).collect();
        failures += usize::from(crate::rig::failure(&outputs[0]).is_some());
        let (first, others) = guests.split_first().unwrap();
        for (other, output) in others.iter().zip(&outputs[1..]) {
            let which = format!("{} and {} at step {step}, after {input:?}", first.language, other.language);
            assert_eq!(followed(&outputs[0]), followed(output), "{which}");
            assert_eq!(first.cells(), other.cells(), "{which}");
            assert_eq!(first.rig.world.digest(), other.rig.world.digest(), "{which}");
        }
        for (key, bytes) in first.cells().iter().filter(|(key, _)| key.starts_with("$fn/i/")) {
            let Value::Map(head) = cbor::decode(bytes).unwrap() else { panic!("{key}") };
            states.extend(head.get("state").cloned().map(|state| format!("{state:?}")));
        }
    }
    // The test has seen what the function is about, or it proves nothing.
    println!("{states:?}, {failures} failures");
    for state in ["running", "done", "cancelled"] {
        assert!(states.contains(&format!("Text({state:?})")), "no order was ever {state}");
    }
    assert!(failures > 0, "no command named an instance that was not there, and no key was used again");
}
