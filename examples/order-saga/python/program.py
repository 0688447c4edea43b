"""An order, from payment to stock and back: effects that are retried, a deadline, and a way to undo what was done.

place ─▶ charging ─ok─▶ reserving ─ok─▶ placed
           │ ▲              │
      error│ │retry         └─error─▶ refunding ─▶ refunded
           ▼ │
         waiting ─third error─▶ failed          expired, cancelled: at any time before `placed`
"""

from typing import Any, Optional

from mundi import Event, Failure, Named, Receipt, Timer, Upgraded, World
from vocabulary import Cancel, PaymentCharge, PaymentRefund, Place, StockReserve

ATTEMPTS_MAX = 3
SECOND_NS = 1_000_000_000
DEADLINE_NS = 3_600 * SECOND_NS


class OrderSaga:
    def handle(self, world: World, event: Event) -> None:
        cause = event.cause
        if isinstance(cause, Named):
            if cause.schema == "place":
                placed(world, event, cause.value)
            else:
                cancelled(world, event, cause.value)
        elif isinstance(cause, Receipt):
            received(world, cause)
        elif isinstance(cause, Timer):
            step, order_id = cause.label.split("/", 1)
            if step == "retry":
                charge(world, order_id)
            else:
                undo(world, order_id, "expired")
        elif not isinstance(cause, Upgraded):
            raise Failure("this program reads no messages")

    def query(self, world: World, name: str, params: Any) -> Any:
        if name == "order":
            return world.get(key(params["order"]))
        if name == "orders":
            after = key(params["after"]) if "after" in params else None
            return [[found[len("order/") :], order["state"]] for found, order in world.scan("order/", after, 2)]
        return world.get("totals", {"placed": 0, "cents": 0})


program = OrderSaga()


def key(order_id: str) -> str:
    return f"order/{order_id}"


def get(world: World, order_id: str) -> dict[str, Any]:
    order = world.get(key(order_id))
    if order is None:
        raise Failure(f"there is no order {order_id}")
    return order


def received(world: World, receipt: Receipt) -> None:
    step, order_id = receipt.label.split("/", 1)
    ok = receipt.status == "ok"
    if step == "charge":
        charged(world, order_id, receipt.value["charge"]) if ok else not_charged(world, order_id)
    elif step == "reserve":
        reserved(world, order_id) if ok else refund(world, order_id, "out of stock")
    elif ok:
        end(world, order_id, "refunded")
    else:
        end(world, order_id, "stuck", "the refund failed")


def placed(world: World, event: Event, place: Place) -> None:
    order_id = place["order"]
    if world.get(key(order_id)) is not None:
        return world.reply(event.seq, {"order": order_id, "state": "known"})
    order = {
        "state": "new",
        "sku": place["sku"],
        "quantity": place["quantity"],
        "cents": place["cents"],
        "attempts": 0,
        "reference": format(world.random(), "x"),  # a number for people to quote
        "call": event.seq,  # where the answer goes
    }
    world.put(key(order_id), order)
    world.set_timer(f"expire/{order_id}", world.now_ns + DEADLINE_NS)
    charge(world, order_id)


def charge(world: World, order_id: str) -> None:
    """Asks for the payment, for the first time or again."""
    order = get(world, order_id)
    order["attempts"] += 1
    order["state"] = "charging"
    world.put(key(order_id), order)
    params: PaymentCharge = {"order": order_id, "cents": order["cents"], "attempt": order["attempts"]}
    world.emit("payment.charge", params, f"charge/{order_id}")


def charged(world: World, order_id: str, charge_id: str) -> None:
    order = get(world, order_id)
    order["charge"] = charge_id
    order["state"] = "reserving"
    world.put(key(order_id), order)
    params: StockReserve = {"order": order_id, "sku": order["sku"], "quantity": order["quantity"]}
    world.emit("stock.reserve", params, f"reserve/{order_id}")


def not_charged(world: World, order_id: str) -> None:
    """Tries again a little later, each time twice as much, and not for ever."""
    order = get(world, order_id)
    if order["attempts"] >= ATTEMPTS_MAX:
        return end(world, order_id, "failed", "the payment was refused")
    order["state"] = "waiting"
    world.put(key(order_id), order)
    pause_ns = SECOND_NS << order["attempts"]
    world.set_timer(f"retry/{order_id}", world.now_ns + pause_ns, order["attempts"])


def reserved(world: World, order_id: str) -> None:
    totals = world.get("totals", {"placed": 0, "cents": 0})
    totals["placed"] += 1
    totals["cents"] += get(world, order_id)["cents"]
    world.put("totals", totals)
    end(world, order_id, "placed")


def refund(world: World, order_id: str, why: str) -> None:
    """What was paid is given back."""
    order = get(world, order_id)
    if "charge" not in order:
        raise Failure("nothing was paid")
    order["state"] = "refunding"
    order["why"] = why
    world.put(key(order_id), order)
    world.cancel_timer(f"expire/{order_id}")
    params: PaymentRefund = {"order": order_id, "charge": order["charge"]}
    world.emit("payment.refund", params, f"refund/{order_id}")


def cancelled(world: World, event: Event, cancel: Cancel) -> None:
    undone = undo(world, cancel["order"], "cancelled")
    world.reply(event.seq, {"order": cancel["order"], "cancelled": undone})


def undo(world: World, order_id: str, why: str) -> bool:
    """Undoes what was begun. Says whether there was anything to undo."""
    state = get(world, order_id)["state"]
    if state in ("charging", "waiting"):
        world.cancel(f"charge/{order_id}")
        world.cancel_timer(f"retry/{order_id}")
        end(world, order_id, why)
    elif state == "reserving":
        world.cancel(f"reserve/{order_id}")
        refund(world, order_id, why)
    else:
        return False
    return True


def end(world: World, order_id: str, state: str, why: Optional[str] = None) -> None:
    """The order is done with, one way or the other, and whoever placed it hears of it."""
    order = get(world, order_id)
    order["state"] = state
    if why is not None:
        order["why"] = why
    world.put(key(order_id), order)
    world.cancel_timer(f"expire/{order_id}")
    world.log("info", f"order {order_id} is {state}")
    answer = {"order": order_id, "state": state, "reference": order["reference"]}
    if "why" in order:
        answer["why"] = order["why"]
    world.reply(order["call"], answer)
