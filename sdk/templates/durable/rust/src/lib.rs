//! NAME: counts, now or later. `cargo test` runs it without a server, `mundi program build` makes a component of it.

pub mod types;

use mundi_sdk::{
    Cause, Event, Failure, Program, Value, World, durable,
    functions::{Ctx, FunctionError, Functions, Handled},
};
use types::{Events, Later};

pub struct Counter;

/// A durable function: what happens in order, as ordinary code. It survives whatever happens while it waits.
#[durable]
async fn later(ctx: Ctx, Later { by, after }: Later) -> Result<i64, FunctionError> {
    ctx.status(&format!("adds {by} after {after}"))?;
    ctx.sleep(&after)?.await?;
    let count = ctx.get::<i64>("count")?.unwrap_or(0) + by;
    ctx.put("count", &count)?;
    Ok(count)
}

impl Program for Counter {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        if Functions::new(Self::OFFER).with::<later>().handle(world, event)? == Handled::Yes {
            return Ok(());
        }
        // A handler: one step for each event that is for no function.
        let Cause::Event { schema, .. } = &event.cause else { return Ok(()) };
        if let Events::Add(by) = Events::read(schema, event.value()?)? {
            let count = world.get::<i64>("count")?.unwrap_or(0) + by;
            world.put("count", &count)?;
            world.reply(&event.seq, &count)?;
        }
        Ok(())
    }

    fn query(world: &World, _: &str, _: Value) -> Result<Value, Failure> {
        Ok(world.get::<i64>("count")?.unwrap_or(0).into())
    }
}

mundi_sdk::export!(Counter);
