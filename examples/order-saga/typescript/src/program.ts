/**
 * An order, from payment to stock and back: effects that are retried, a deadline, and a way to undo what was done.
 *
 *     place ─▶ charging ─ok─▶ reserving ─ok─▶ placed
 *                │ ▲              │
 *           error│ │retry         └─error─▶ refunding ─▶ refunded
 *                ▼ │
 *              waiting ─third error─▶ failed          expired, cancelled: at any time before `placed`
 */

import { cbor, type Event, type Program, type World as AnyWorld } from "mundi-sdk";
import type { Cancel, Effects, PaymentChargeReceipt, Place } from "./types.ts";

type World = AnyWorld<Effects>;

const ATTEMPTS_MAX = 3;
const SECOND_NS = 1_000_000_000n;
const DEADLINE_NS = 3_600n * SECOND_NS;

/** What is kept of an order. */
interface Order {
  state: string;
  sku: string;
  quantity: number;
  cents: number;
  attempts: number;
  /** A number for people to quote. */
  reference: string;
  /** Where the answer goes. */
  call: string;
  charge?: string;
  why?: string;
}

interface Totals {
  placed: number;
  cents: number;
}

const program: Program<Effects> = {
  handle(world, event) {
    const cause = event.cause;
    switch (cause.is) {
      case "event":
        return cause.schema === "place" ? placed(world, event, cause.value) : cancelled(world, event, cause.value);
      case "receipt": {
        const [step, id] = parts(cause.label);
        const ok = cause.status === "ok";
        if (step === "charge" && ok) {
          return charged(world, id, (cbor.decode(cause.payload) as PaymentChargeReceipt).charge);
        }
        if (step === "charge") return notCharged(world, id);
        if (step === "reserve") return ok ? reserved(world, id) : refund(world, id, "out of stock");
        return ok ? end(world, id, "refunded") : end(world, id, "stuck", "the refund failed");
      }
      case "timer": {
        const [step, id] = parts(cause.label);
        if (step === "retry") charge(world, id);
        else undo(world, id, "expired");
        return;
      }
      case "message":
        throw new Error("this program reads no messages");
    }
  },

  query(world, name, params) {
    switch (name) {
      case "order":
        return world.get<Order>(key(params.order));
      case "orders": {
        const after = params.after === undefined ? undefined : key(params.after);
        return world.scan<Order>("order/", after, 2).map(([key, order]) => [key.slice("order/".length), order.state]);
      }
      default:
        return world.get<Totals>("totals") ?? { placed: 0, cents: 0 };
    }
  },
};

export default program;

const key = (id: string) => `order/${id}`;

function parts(label: string): [string, string] {
  const at = label.indexOf("/");
  return [label.slice(0, at), label.slice(at + 1)];
}

function get(world: World, id: string): Order {
  const order = world.get<Order>(key(id));
  if (!order) throw new Error(`there is no order ${id}`);
  return order;
}

function placed(world: World, event: Event, place: Place): void {
  if (world.get(key(place.order))) return world.reply(event.seq, { order: place.order, state: "known" });
  const order: Order = {
    state: "new",
    sku: place.sku,
    quantity: place.quantity,
    cents: place.cents,
    attempts: 0,
    reference: world.random().toString(16),
    call: event.seq,
  };
  world.put(key(place.order), order);
  world.setTimer(`expire/${place.order}`, world.nowNs + DEADLINE_NS);
  charge(world, place.order);
}

/** Asks for the payment, for the first time or again. */
function charge(world: World, id: string): void {
  const order = get(world, id);
  order.attempts++;
  order.state = "charging";
  world.put(key(id), order);
  world.emit("payment.charge", { order: id, cents: order.cents, attempt: order.attempts }, `charge/${id}`);
}

function charged(world: World, id: string, charge: string): void {
  const order = get(world, id);
  order.charge = charge;
  order.state = "reserving";
  world.put(key(id), order);
  world.emit("stock.reserve", { order: id, sku: order.sku, quantity: order.quantity }, `reserve/${id}`);
}

/** Tries again a little later, each time twice as much, and not for ever. */
function notCharged(world: World, id: string): void {
  const order = get(world, id);
  if (order.attempts >= ATTEMPTS_MAX) return end(world, id, "failed", "the payment was refused");
  order.state = "waiting";
  world.put(key(id), order);
  world.setTimer(`retry/${id}`, world.nowNs + (SECOND_NS << BigInt(order.attempts)), order.attempts);
}

function reserved(world: World, id: string): void {
  const totals = world.get<Totals>("totals") ?? { placed: 0, cents: 0 };
  totals.placed++;
  totals.cents += get(world, id).cents;
  world.put("totals", totals);
  end(world, id, "placed");
}

/** What was paid is given back. */
function refund(world: World, id: string, why: string): void {
  const order = get(world, id);
  if (order.charge === undefined) throw new Error("nothing was paid");
  order.state = "refunding";
  order.why = why;
  world.put(key(id), order);
  world.cancelTimer(`expire/${id}`);
  world.emit("payment.refund", { order: id, charge: order.charge }, `refund/${id}`);
}

function cancelled(world: World, event: Event, { order: id }: Cancel): void {
  const cancelled = undo(world, id, "cancelled");
  world.reply(event.seq, { order: id, cancelled });
}

/** Undoes what was begun. Says whether there was anything to undo. */
function undo(world: World, id: string, why: string): boolean {
  switch (get(world, id).state) {
    case "charging":
    case "waiting":
      world.cancel(`charge/${id}`);
      world.cancelTimer(`retry/${id}`);
      end(world, id, why);
      return true;
    case "reserving":
      world.cancel(`reserve/${id}`);
      refund(world, id, why);
      return true;
    default:
      return false;
  }
}

/** The order is done with, one way or the other, and whoever placed it hears of it. */
function end(world: World, id: string, state: string, why?: string): void {
  const order = get(world, id);
  order.state = state;
  if (why !== undefined) order.why = why;
  world.put(key(id), order);
  world.cancelTimer(`expire/${id}`);
  world.log("info", `order ${id} is ${state}`);
  world.reply(order.call, { order: id, state, reference: order.reference, why: order.why });
}
