//! An order, from payment to stock and back, as a durable function: the same as `../../rust`, without a state machine.

pub mod types;

use mundi_sdk::{
    Event, Failure, Program, Value, World, durable,
    functions::{Ctx, Done, EffectOptions, FunctionError, Functions},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use types::{Order, PaymentCharge, PaymentChargeReceipt, PaymentRefund, StockReserve};

pub struct Shop;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Totals {
    placed: i64,
    cents: i64,
}

#[durable]
async fn order(ctx: Ctx, order: Order) -> Result<Done, FunctionError> {
    ctx.status(&"charging")?;
    let charge = PaymentCharge { order: ctx.key(), cents: order.cents };
    let charge: Result<PaymentChargeReceipt, _> =
        ctx.effect_with("payment.charge", &charge, &EffectOptions::default().retry(2)).await;
    let charge = match charge {
        Ok(receipt) => receipt.charge,
        Err(error) if error.effect().is_none() => return Err(error),
        Err(_) => return ctx.done(&json!({ "state": "failed", "why": "the payment was refused" })),
    };
    ctx.status(&"reserving")?;
    let wish = StockReserve { order: ctx.key(), sku: order.sku, quantity: order.quantity };
    let reserved: Result<Value, _> =
        ctx.effect_with("stock.reserve", &wish, &EffectOptions::default().timeout("1h")).await;
    if let Err(error) = reserved {
        // Also when the order is cancelled: what was paid is given back.
        ctx.shield().effect::<Value>("payment.refund", &PaymentRefund { order: ctx.key(), charge }).await?;
        if error.is_cancelled() {
            return Err(error);
        }
        return ctx.done(&json!({ "state": "refunded", "why": "out of stock" }));
    }
    let totals = ctx.get::<Totals>("totals")?.unwrap_or_default();
    ctx.put("totals", &Totals { placed: totals.placed + 1, cents: totals.cents + order.cents })?;
    ctx.done(&json!({ "state": "placed" }))
}

impl Program for Shop {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        Functions::new(Self::OFFER).with::<order>().handle(world, event).map(drop)
    }

    fn query(world: &World, _: &str, _: Value) -> Result<Value, Failure> {
        Ok(serde_json::to_value(world.get::<Totals>("totals")?.unwrap_or_default())?)
    }
}

mundi_sdk::export!(Shop);
