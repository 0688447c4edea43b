//! Two worlds: a shop that calls a till, and answers its own caller with what the till replied.

use mundi::{
    Node, NodeConfig, Programs, Value, cbor,
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program},
};
use serde_json::json;

/// Knows prices.
struct Till;

impl Program for Till {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let Cause::Event { value, .. } = event.cause else { return Ok(()) };
        match cbor::decode(value) {
            Ok(Value::Text(item)) if item == "tea" => {
                Ok(host.reply(event.seq, &cbor::encode(&Value::Integer(350.into())))?)
            }
            Ok(Value::Text(item)) => Err(Failure::new(format!("there is no {item}"))),
            _ => Err(Failure::new("an item is a text")),
        }
    }
}

/// Asks the till, and tells its caller.
struct Shop;

impl Program for Shop {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { value, .. } => {
                let order =
                    cbor::decode::<Value>(value).ok().and_then(|order| order.to_json().ok()).unwrap_or_default();
                let call =
                    json!({ "world": order["till"], "event": "price", "value": order["item"], "timeout_ms": 2_000 });
                // The place of this event is the label: the receipt finds its caller by it.
                Ok(host.emit("world.call", &cbor::encode(&Value::from(call)), &event.seq.to_string())?)
            }
            Cause::Receipt { label, payload, .. } => {
                let caller = label.parse().map_err(|_| Failure::new("no place"))?;
                Ok(host.reply(caller, payload)?)
            }
            _ => Ok(()),
        }
    }
}

fn takes(event: &'static str) -> impl Fn(&mut Manifest) {
    move |manifest| {
        manifest.events.insert(event.to_owned(), Schema::anything());
        manifest.effects.insert("world.call".to_owned(), EffectRule::default());
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let programs = Programs::new().native("till", 1, Till, takes("price")).native("shop", 1, Shop, takes("buy"));
    let node = Node::open(folder.path(), programs, NodeConfig::default()).await?;
    let universe = node.universe("default").ok_or("it is always there")?;
    let (till, shop) = (universe.create("till").await?, universe.create("shop").await?);
    for (till, item) in [(till.to_string(), "tea"), (till.to_string(), "soup"), ("nobody".to_owned(), "tea")] {
        let heard = universe.call(shop, "buy", json!({ "till": till, "item": item }).into()).await?.to_json()?;
        match heard.get("code") {
            Some(code) => print(&format!("{item}: {code}, {}", heard.get("failed_code").unwrap_or(&json!(null)))),
            None => print(&format!("{item}: {heard}")),
        }
    }
    node.stop().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what the example is for")]
fn print(text: &str) {
    println!("{text}");
}
