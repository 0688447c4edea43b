//! A test world refuses everything that a server refuses, with the same code. The table is shared with the kernel and the other SDKs.

use mundi_sdk::{
    Bytes, Cause, Event, Failure, Outgoing, Program, SendOptions, Status, Value, World, testing::TestWorld,
};
use serde_json::json;
use std::{cell::RefCell, panic::AssertUnwindSafe};

thread_local! {
    static CALLS: RefCell<Vec<Value>> = const { RefCell::new(Vec::new()) };
}

/// Makes the calls that the table says.
struct Script;

impl Program for Script {
    const OFFER: &'static str = "{}";

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        match &event.cause {
            Cause::Receipt { status, .. } => world.put("heard", &format!("{status:?}").to_lowercase()),
            Cause::Event { .. } => CALLS.take().iter().try_for_each(|call| make(world, &event.seq, call)),
            _ => Ok(()),
        }
    }

    /// A query that changes the world does not compile: [`World`] is lent to it without `mut`.
    fn query(_: &World, _: &str, _: Value) -> Result<Value, Failure> {
        if CALLS.take().iter().any(|call| call[0] == "fail") {
            Err(Failure::new("as it was told"))
        } else {
            Ok(Value::Null)
        }
    }
}

fn make(world: &mut World, seq: &str, call: &Value) -> Result<(), Failure> {
    let text = |at: usize| call[at].as_str().unwrap_or_default();
    match text(0) {
        // A call that is refused does not return, so that a program cannot go on; this one tries as hard as it can.
        "ignore" => {
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| make(world, seq, &call[1])));
            Ok(())
        }
        "fail" => Err(Failure::new("as it was told")),
        "put" => world.put(text(1), &call[2]),
        "delete" => {
            world.delete(text(1));
            Ok(())
        }
        "get" => world.get::<Value>(text(1)).map(drop),
        "scan" => world.scan::<Value>(text(1), None, 10).map(drop),
        "emit" => world.emit(text(1), &call[2], text(3)),
        "cancel" => {
            world.cancel(text(1));
            Ok(())
        }
        "timer" => world.set_timer(text(1), call[2].as_u64().unwrap(), &call[3]),
        "cancel_timer" => {
            world.cancel_timer(text(1));
            Ok(())
        }
        "send" => {
            let said = |name: &str| call[5][name].as_str().map(str::to_owned);
            let headers = call[5]["headers"].as_object().into_iter().flatten();
            let options = SendOptions {
                universe: said("universe"),
                correlation_id: said("correlation_id"),
                headers: headers.map(|(name, _)| (name.clone(), String::new())).collect(),
                message_id: said("message_id"),
            };
            world.send_with(text(1), &Outgoing::event(text(2), &call[3])?, &options, text(4))
        }
        "spawn" => world.spawn(text(1), None, text(2)).map(drop),
        "reply" => world.reply(if text(1) == "own" { seq } else { text(1) }, &call[2]),
        "random" => {
            world.random();
            Ok(())
        }
        other => panic!("{other}"),
    }
}

/// The value that an entry of the table stands for.
fn made(value: &Value) -> Value {
    let count = |name: &str| value[name].as_u64().map(|count| usize::try_from(count).unwrap());
    match value {
        Value::Array(items) => items.iter().map(made).collect(),
        Value::Object(_) if value["$text"].is_array() => {
            let times = value["$text"][1].as_u64().unwrap();
            value["$text"][0].as_str().unwrap().repeat(usize::try_from(times).unwrap()).into()
        }
        Value::Object(entries) => {
            if let Some(count) = count("$bytes") {
                return json!(Bytes(vec![0; count]));
            }
            if let Some(count) = count("$names") {
                return (0..count).map(|number| (format!("{number:03}"), json!(""))).collect();
            }
            if let Some(count) = count("$deep") {
                return (0..count).fold(json!(0), |deep, _| json!([deep]));
            }
            entries.iter().map(|(name, item)| (name.clone(), made(item))).collect()
        }
        other => other.clone(),
    }
}

fn act(world: &mut TestWorld<Script>, action: &Value) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    if let Some(event) = action.get("event") {
        return world.send(&text(&event[0]), made(&event[1])).map(drop);
    }
    if let Some(receipt) = action.get("receipt") {
        let status = if receipt[1] == "ok" { Status::Ok } else { Status::Error };
        return world.receipt(&text(&receipt[0]), status, made(&receipt[2])).map(drop);
    }
    if let Some(timer) = action.get("fire") {
        return world.fire(&text(timer)).map(drop);
    }
    match action.get("query") {
        Some(query) => world.query(&text(&query[0]), made(&query[1])).map(drop),
        None => world.send("go", ()).map(drop),
    }
}

#[test]
fn every_misuse_gets_the_answer_of_the_server() {
    let table: Value = serde_json::from_str(include_str!("../../misuses.json")).unwrap();
    let mut run = 0;
    for case in table["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut offer = table["offer"].as_object().unwrap().clone();
        offer.extend(case["offer"].as_object().cloned().unwrap_or_default());
        let world = TestWorld::<Script>::with_offer(&Value::from(offer).to_string());
        if let Some(code) = case["offer_is"].as_str() {
            assert_eq!(world.err().map(|refused| refused.code), Some(code), "{name}");
            continue;
        }
        let mut world = world.unwrap();
        for action in case["do"].as_array().unwrap() {
            if action["is"] == "PROGRAM_TRAPPED" && action.get("query").is_some() {
                continue; // it does not compile
            }
            CALLS.set(made(&action["calls"]).as_array().cloned().unwrap_or_default());
            let outcome = act(&mut world, action);
            let code = outcome.as_ref().err().map_or("ok", |failure| failure.code);
            // Of a receipt that no adapter could give, a test hears; a server delivers it.
            let expected = action["in_a_test"].as_str().or(action["is"].as_str()).unwrap();
            assert_eq!(code, expected, "{name}: {action}: {outcome:?}");
            if let Some(heard) = action.get("heard") {
                assert_eq!(world.cell("heard").as_ref(), Some(heard), "{name}");
            }
            run += 1;
        }
        assert_eq!(world.cell("lost"), None, "{name}");
    }
    assert!(run > 80, "{run}");
}
