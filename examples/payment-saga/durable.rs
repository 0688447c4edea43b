//! The same order as a durable function: what `saga.rs` keeps in cells and tells apart by labels is the order of the lines here.

use mundi::manifest::Manifest;
use mundi_sdk::{
    Cause, Event, Failure, Program, Value, World,
    functions::{Ctx, Done, FunctionError, Functions, Handled},
    kinds::HttpRequest,
};
use serde_json::json;

pub(crate) struct Order;

const OFFER: &str = r#"{
    "events": {"begin": true, "confirm": true, "outcome": true},
    "effects": {"http.request": {}}
}"#;

pub(crate) fn declare(manifest: &mut Manifest) {
    crate::saga::declare(manifest);
}

/// Whether the shop did it.
async fn ask(ctx: &Ctx, order: &Value, what: &str) -> Result<bool, FunctionError> {
    let shop = order["shop"].as_str().unwrap_or_default();
    let request = HttpRequest::post_json(format!("{shop}/{what}"), &json!({ "order": order["order"] }));
    let request = request.map_err(|failure| FunctionError::new("FUNCTION_FAILED", failure.reason))?;
    Ok(ctx.ask(&request).await.is_ok_and(|response| response.is_ok()))
}

async fn begin(ctx: Ctx, order: Value) -> Result<Done, FunctionError> {
    // Both are waited for from the beginning: a customer may confirm before the card is charged.
    let confirm = ctx.event::<Value>("confirm");
    let late = ctx.sleep(&format!("{}ms", order["confirm_within_ms"].as_u64().unwrap_or(0)))?.any();
    let (mut undo, mut refused) = (Vec::new(), None);
    for (step, undone_by) in [("reserve", "release"), ("charge", "refund")] {
        if refused.is_none() && ask(&ctx, &order, step).await? {
            undo.push(undone_by);
        } else {
            refused.get_or_insert(step);
        }
    }
    let mut failed = refused.map(|step| format!("{step} was refused"));
    if failed.is_some() {
        ctx.detach(confirm);
        ctx.detach(late);
    } else if ctx.race([confirm, late]).await?.is_null() {
        failed = Some("it was not confirmed in time".to_owned());
    } else if !ask(&ctx, &order, "ship").await? {
        failed = Some("ship was refused".to_owned());
    }
    let outcome = match failed {
        None => json!("shipped"),
        Some(failed) => {
            for step in undo.into_iter().rev() {
                ask(&ctx, &order, step).await?;
            }
            json!({ "undone": failed })
        }
    };
    ctx.put("outcome", &outcome)?;
    ctx.done(&outcome)
}

impl Program for Order {
    const OFFER: &'static str = OFFER;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        let handled = Functions::new(OFFER).durable("begin", begin).handle(world, event)?;
        match &event.cause {
            Cause::Event { schema, .. } if handled == Handled::No && schema == "outcome" => {
                let outcome = world.get::<Value>("outcome")?;
                world.reply(&event.seq, &outcome)
            }
            _ => Ok(()),
        }
    }
}
