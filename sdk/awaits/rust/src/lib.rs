//! An effect that is asked for again and again: as a durable function and as a handler.

pub mod types;

use mundi_sdk::{
    Cause, Event, Failure, Program, World, cbor,
    functions::{Ctx, Done, FunctionError, Functions},
};
use serde::{Deserialize, Serialize};
use types::{Chain, Hand, Work, WorkReceipt};

pub struct Awaits;

/// The state that the handler keeps between its steps.
#[derive(Serialize, Deserialize)]
struct Kept {
    n: i64,
    step: i64,
    sum: i64,
    call: String,
}

fn work(step: i64) -> Work {
    Work { step, note: format!("step {step} of the chain") }
}

async fn chain(ctx: Ctx, Chain { n }: Chain) -> Result<Done, FunctionError> {
    let mut sum = 0;
    for step in 0..n {
        sum += ctx.effect::<WorkReceipt>("work", &work(step)).await?.worth;
    }
    ctx.done(&sum)
}

impl Program for Awaits {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        match &event.cause {
            Cause::Event { schema, value, .. } if schema == "hand" => {
                let Hand { n } = cbor::from_slice(value)?;
                world.put("hand", &Kept { n, step: 0, sum: 0, call: event.seq.clone() })?;
                world.emit("work", &work(0), "hand")
            }
            Cause::Receipt { label, payload, .. } if label == "hand" => {
                let mut kept: Kept = world.get("hand")?.ok_or_else(|| Failure::new("there is no chain"))?;
                kept.sum += cbor::from_slice::<WorkReceipt>(payload)?.worth;
                kept.step += 1;
                if kept.step == kept.n {
                    world.delete("hand");
                    return world.reply(&kept.call, &kept.sum);
                }
                world.put("hand", &kept)?;
                world.emit("work", &work(kept.step), "hand")
            }
            _ => Functions::new(Self::OFFER).durable("chain", chain).handle(world, event).map(drop),
        }
    }
}

mundi_sdk::export!(Awaits);
