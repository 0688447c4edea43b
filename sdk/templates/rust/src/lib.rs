//! NAME: counts. `cargo test` runs it without a server, `mundi program build` makes a component of it.

pub mod types;

use mundi_sdk::{Cause, Event, Failure, Program, Value, World};
use types::Events;

pub struct Counter;

impl Program for Counter {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        let Cause::Event { schema, .. } = &event.cause else { return Ok(()) };
        match Events::read(schema, event.value()?)? {
            Events::Add(by) => {
                let count = world.get::<i64>("count")?.unwrap_or(0) + by;
                world.put("count", &count)?;
                world.reply(&event.seq, &count)
            }
        }
    }

    fn query(world: &World, _: &str, _: Value) -> Result<Value, Failure> {
        Ok(world.get::<i64>("count")?.unwrap_or(0).into())
    }
}

mundi_sdk::export!(Counter);
