//! An order, from payment to stock and back: effects that are retried, a deadline, and a way to undo what was done.
//!
//! ```text
//! place ─▶ charging ─ok─▶ reserving ─ok─▶ placed
//!            │ ▲              │
//!       error│ │retry         └─error─▶ refunding ─▶ refunded
//!            ▼ │
//!          waiting ─third error─▶ failed          expired, cancelled: at any time before `placed`
//! ```

pub mod types;

use mundi_sdk::{Cause, Event, Failure, Level, Program, Status, Value, World};
use serde::{Deserialize, Serialize};
use serde_json::json;
use types::{Events, PaymentCharge, PaymentChargeReceipt, PaymentRefund, Place, Queries, StockReserve};

const ATTEMPTS_MAX: i64 = 3;
const SECOND_NS: u64 = 1_000_000_000;
const DEADLINE_NS: u64 = 3_600 * SECOND_NS;

pub struct OrderSaga;

/// The record of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    state: String,
    sku: String,
    quantity: i64,
    cents: i64,
    attempts: i64,
    /// A number for people to quote.
    reference: String,
    /// Where the answer goes.
    call: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    charge: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Totals {
    placed: i64,
    cents: i64,
}

impl Program for OrderSaga {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        match &event.cause {
            Cause::Event { schema, .. } => match Events::read(schema, event.value()?)? {
                Events::Place(place) => placed(world, event, place),
                Events::Cancel(cancel) => cancelled(world, event, &cancel.order),
            },
            Cause::Receipt { label, status, .. } => {
                let Some((step, id)) = label.split_once('/') else { return Ok(()) };
                match step {
                    "charge" if *status == Status::Ok => {
                        let receipt: PaymentChargeReceipt = event.value()?;
                        charged(world, id, receipt.charge)
                    }
                    "charge" => not_charged(world, id),
                    "reserve" if *status == Status::Ok => reserved(world, id),
                    "reserve" => refund(world, id, "out of stock"),
                    "refund" if *status == Status::Ok => end(world, id, "refunded", None),
                    _ => end(world, id, "stuck", Some("the refund failed")),
                }
            }
            Cause::Timer { label, .. } => match label.split_once('/') {
                Some(("retry", id)) => charge(world, id),
                Some((_, id)) => undo(world, id, "expired").map(drop),
                None => Ok(()),
            },
            Cause::Message { .. } => Err(Failure::new("this program reads no messages")),
            Cause::Upgraded { .. } => Ok(()),
        }
    }

    fn query(world: &World, name: &str, params: Value) -> Result<Value, Failure> {
        match Queries::read(name, params)? {
            Queries::Order(of) => Ok(serde_json::to_value(world.get::<Order>(&key(&of.order))?)?),
            Queries::Orders(page) => {
                let after = page.after.map(|after| key(&after));
                let orders = world.scan::<Order>("order/", after.as_deref(), 2)?;
                Ok(orders.into_iter().map(|(key, order)| json!([key["order/".len()..], order.state])).collect())
            }
            Queries::Totals(_) => Ok(serde_json::to_value(world.get::<Totals>("totals")?.unwrap_or_default())?),
        }
    }
}

mundi_sdk::export!(OrderSaga);

fn key(id: &str) -> String {
    format!("order/{id}")
}

fn order(world: &World, id: &str) -> Result<Order, Failure> {
    world.get(&key(id))?.ok_or_else(|| Failure::new(format!("there is no order {id}")))
}

fn placed(world: &mut World, event: &Event, place: Place) -> Result<(), Failure> {
    if world.get::<Order>(&key(&place.order))?.is_some() {
        return world.reply(&event.seq, &json!({ "order": place.order, "state": "known" }));
    }
    let order = Order {
        state: "new".to_owned(),
        sku: place.sku,
        quantity: place.quantity,
        cents: place.cents,
        attempts: 0,
        reference: format!("{:x}", world.random()),
        call: event.seq.clone(),
        charge: None,
        why: None,
    };
    world.put(&key(&place.order), &order)?;
    world.set_timer(&format!("expire/{}", place.order), world.now_ns() + DEADLINE_NS, &Value::Null)?;
    charge(world, &place.order)
}

/// Asks for the payment, for the first time or again.
fn charge(world: &mut World, id: &str) -> Result<(), Failure> {
    let mut order = order(world, id)?;
    order.attempts += 1;
    order.state = "charging".to_owned();
    world.put(&key(id), &order)?;
    let charge = PaymentCharge { order: id.to_owned(), cents: order.cents, attempt: order.attempts };
    world.ask(&charge, &format!("charge/{id}"))
}

fn charged(world: &mut World, id: &str, charge: String) -> Result<(), Failure> {
    let mut order = order(world, id)?;
    order.charge = Some(charge);
    order.state = "reserving".to_owned();
    world.put(&key(id), &order)?;
    let reserve = StockReserve { order: id.to_owned(), sku: order.sku, quantity: order.quantity };
    world.ask(&reserve, &format!("reserve/{id}"))
}

/// Tries again a little later, each time twice as much, and not for ever.
fn not_charged(world: &mut World, id: &str) -> Result<(), Failure> {
    let mut order = order(world, id)?;
    if order.attempts >= ATTEMPTS_MAX {
        return end(world, id, "failed", Some("the payment was refused"));
    }
    order.state = "waiting".to_owned();
    world.put(&key(id), &order)?;
    let pause_ns = SECOND_NS << order.attempts;
    world.set_timer(&format!("retry/{id}"), world.now_ns() + pause_ns, &order.attempts)
}

fn reserved(world: &mut World, id: &str) -> Result<(), Failure> {
    let mut totals = world.get::<Totals>("totals")?.unwrap_or_default();
    totals.placed += 1;
    totals.cents += order(world, id)?.cents;
    world.put("totals", &totals)?;
    end(world, id, "placed", None)
}

/// Gives back a payment.
fn refund(world: &mut World, id: &str, why: &str) -> Result<(), Failure> {
    let mut order = order(world, id)?;
    let charge = order.charge.clone().ok_or_else(|| Failure::new("nothing was paid"))?;
    order.state = "refunding".to_owned();
    order.why = Some(why.to_owned());
    world.put(&key(id), &order)?;
    world.cancel_timer(&format!("expire/{id}"));
    world.ask(&PaymentRefund { order: id.to_owned(), charge }, &format!("refund/{id}"))
}

fn cancelled(world: &mut World, event: &Event, id: &str) -> Result<(), Failure> {
    let undone = undo(world, id, "cancelled")?;
    world.reply(&event.seq, &json!({ "order": id, "cancelled": undone }))
}

/// Undoes what was begun. Says whether there was anything to undo.
fn undo(world: &mut World, id: &str, why: &str) -> Result<bool, Failure> {
    match &*order(world, id)?.state {
        "charging" | "waiting" => {
            world.cancel(&format!("charge/{id}"));
            world.cancel_timer(&format!("retry/{id}"));
            end(world, id, why, None)?;
        }
        "reserving" => {
            world.cancel(&format!("reserve/{id}"));
            refund(world, id, why)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The order is done with, one way or the other, and whoever placed it hears of it.
fn end(world: &mut World, id: &str, state: &str, why: Option<&str>) -> Result<(), Failure> {
    let mut order = order(world, id)?;
    order.state = state.to_owned();
    if let Some(why) = why {
        order.why = Some(why.to_owned());
    }
    world.put(&key(id), &order)?;
    world.cancel_timer(&format!("expire/{id}"));
    world.log(Level::Info, &format!("order {id} is {state}"));
    let mut answer = json!({ "order": id, "state": state, "reference": order.reference });
    if let Some(why) = order.why {
        answer["why"] = why.into();
    }
    world.reply(&order.call, &answer)
}
