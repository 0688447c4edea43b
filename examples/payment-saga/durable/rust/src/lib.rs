//! An order as a durable function: what `../../saga.rs` keeps in cells and tells apart by labels is the order of the lines here. `../../main.rs` runs
//! this source as a native program, `mundi program build` makes a component of it.

pub mod types;

use mundi_sdk::{
    Cause, Event, Failure, Program, Value, World, durable,
    functions::{Ctx, FunctionError, Functions, Handled},
    kinds::HttpRequest,
};
use serde_json::json;
use types::Begin;

pub struct Order;

/// Steps, with the step that undoes each. Nothing is shipped before it is confirmed.
const STEPS: [(&str, &str); 2] = [("reserve", "release"), ("charge", "refund")];

/// Whether the shop did it.
async fn ask(ctx: &Ctx, order: &Begin, what: &str) -> Result<bool, FunctionError> {
    let request = HttpRequest::post_json(format!("{}/{what}", order.shop), &json!({ "order": order.order }));
    let request = request.map_err(|failure| FunctionError::new("FUNCTION_FAILED", failure.reason))?;
    match ctx.ask(&request).await {
        Ok(response) => Ok(response.is_ok()),
        Err(error) if error.effect().is_some() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The way forward. Notes what undoes each step, and says why it ended before the goods were shipped.
async fn forward(ctx: &Ctx, order: &Begin, undo: &mut Vec<&str>) -> Result<Option<String>, FunctionError> {
    // Both are waited for from the beginning: a customer may confirm before the card is charged.
    let confirm = ctx.event::<Value>("confirm");
    let late = ctx.sleep(&format!("{}ms", order.confirm_within_ms))?.any();
    for (step, undone_by) in STEPS {
        if !ask(ctx, order, step).await? {
            ctx.detach(confirm);
            ctx.detach(late);
            return Ok(Some(format!("{step} was refused")));
        }
        undo.push(undone_by);
    }
    if ctx.race([confirm, late]).await?.is_null() {
        return Ok(Some("it was not confirmed in time".to_owned()));
    }
    Ok((!ask(ctx, order, "ship").await?).then(|| "ship was refused".to_owned()))
}

#[durable]
async fn begin(ctx: Ctx, order: Begin) -> Result<Value, FunctionError> {
    let mut undo = Vec::new();
    let went = forward(&ctx, &order, &mut undo).await;
    let failed = match &went {
        Ok(failed) => failed.clone(),
        Err(error) if error.is_cancelled() => Some("it was cancelled".to_owned()),
        Err(_) => return went.map(Value::from),
    };
    let outcome = failed.as_ref().map_or(json!("shipped"), |why| json!({ "undone": why }));
    if failed.is_some() {
        // Also when the order is cancelled: what was done is undone, the newest first.
        let shielded = ctx.shield();
        for step in undo.into_iter().rev() {
            ask(&shielded, &order, step).await?;
        }
    }
    ctx.put("outcome", &outcome)?;
    went.map(|_| outcome)
}

impl Program for Order {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        let handled = Functions::new(Self::OFFER).with::<begin>().handle(world, event)?;
        match &event.cause {
            Cause::Event { schema, .. } if handled == Handled::No && schema == "outcome" => {
                let outcome = world.get::<Value>("outcome")?;
                world.reply(&event.seq, &outcome)
            }
            _ => Ok(()),
        }
    }
}

mundi_sdk::export!(Order);
