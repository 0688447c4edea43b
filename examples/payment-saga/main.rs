//! Three orders, by handlers or with `--durable` by a durable function, and a shop that keeps a ledger of what was really done.

#[allow(unreachable_pub, reason = "elsewhere the same source is a crate of its own")]
#[path = "durable/rust/src/lib.rs"]
mod durable;
mod saga;

use mundi::{HttpConfig, Node, NodeConfig, Programs, Value, WorldId};
use mundi_examples::outside;
use mundi_native::Native;
use serde_json::json;
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

type Failed = Box<dyn std::error::Error>;
type Ledger = Arc<Mutex<Vec<String>>>;

/// The outside world: each call is entered once, whatever the number of attempts. It refuses to ship order `broken`.
fn shop(ledger: Ledger) -> std::io::Result<SocketAddr> {
    let seen: Mutex<BTreeSet<String>> = Mutex::default();
    outside(move |request| {
        let order = request.body["order"].as_str().unwrap_or_default();
        let what = request.line.trim_start_matches("POST /");
        if what == "ship" && order == "broken" {
            return (409, "it does not fit any box".to_owned());
        }
        let new = seen.lock().is_ok_and(|mut seen| seen.insert(request.idempotency_key.clone()));
        if let (true, Ok(mut ledger)) = (new, ledger.lock()) {
            ledger.push(format!("{order}: {what}"));
        }
        (200, "ok".to_owned())
    })
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let (folder, ledger) = (tempfile::tempdir()?, Ledger::default());
    let shop = format!("http://{}", shop(ledger.clone())?);
    let http = HttpConfig { private_hosts_allowed: ["127.0.0.1".to_owned()].into(), ..HttpConfig::default() };
    let programs = if std::env::args().any(|argument| argument == "--durable") {
        Programs::new().native("order", 1, Native::<durable::Order>::default(), saga::declare)
    } else {
        Programs::new().native("order", 1, saga::Order, saga::declare)
    };
    let node = Node::open(folder.path(), programs, NodeConfig { http, ..NodeConfig::default() }).await?;
    let universe = node.universe("default").ok_or("it is always there")?;
    for (name, confirmed) in [("good", true), ("broken", true), ("forgotten", false)] {
        let order: WorldId = universe.create("order").await?;
        let begin = json!({ "order": name, "shop": shop, "confirm_within_ms": if confirmed { 60_000 } else { 300 } });
        universe.send(order, "begin", begin.into()).await?;
        if confirmed {
            universe.send(order, "confirm", Value::Bool(true)).await?;
        }
        let outcome = loop {
            let answer = universe.call(order, "outcome", Value::Null).await?.to_json()?;
            if !answer.is_null() {
                break answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let done = ledger.lock().map(|ledger| ledger.clone()).unwrap_or_default();
        print(&format!("{name}: {outcome}"));
        done.iter().filter(|line| line.starts_with(&format!("{name}:"))).for_each(|line| print(&format!("  {line}")));
    }
    node.drain().await;
    node.stop().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what the example is for")]
fn print(text: &str) {
    println!("{text}");
}
