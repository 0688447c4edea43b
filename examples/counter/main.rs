//! The smallest program: one event, one cell, one reply; and a restart between two calls.

use mundi::{
    Node, NodeConfig, Programs, Value, cbor,
    manifest::Schema,
    program::{Event, Failure, Host, Program},
};
use std::path::Path;

struct Counter;

impl Program for Counter {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let before = host.get("count")?.map_or(0, |bytes| bytes[0]);
        host.put("count", &[before + 1])?;
        Ok(host.reply(event.seq, &cbor::encode(&Value::Integer((before + 1).into())))?)
    }
}

fn programs() -> Programs {
    Programs::new().native("my-counter", 1, Counter, |manifest| {
        manifest.events.insert("add".to_owned(), Schema::anything());
    })
}

/// Three calls, then everything is dropped without a goodbye.
async fn three_calls(
    folder: &Path,
    world: Option<mundi::WorldId>,
) -> Result<mundi::WorldId, Box<dyn std::error::Error>> {
    let node = Node::open(folder, programs(), NodeConfig::default()).await?;
    let universe = node.universe("default").ok_or("it is always there")?;
    let world = match world {
        Some(world) => world,
        None => universe.create("my-counter").await?,
    };
    for _ in 0..3 {
        let count = universe.call(world, "add", Value::Null).await?.to_json()?;
        print(&count.to_string());
    }
    node.stop().await; // no drain: whatever was answered is on disk already
    Ok(world)
}

#[expect(clippy::print_stdout, reason = "this is what the example is for")]
fn print(text: &str) {
    println!("{text}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let world = three_calls(folder.path(), None).await?;
    three_calls(folder.path(), Some(world)).await?;
    Ok(())
}
