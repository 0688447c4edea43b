/** An order, from payment to stock and back, as a durable function: the same as `../../typescript`, without a state machine. */

import { type Ctx, FunctionCancelled, durable, program } from "mundi-sdk";
import type { Effects, Order } from "./types.ts";

interface Totals {
  placed: number;
  cents: number;
}

const NOTHING: Totals = { placed: 0, cents: 0 };

async function order(ctx: Ctx<Effects>, { sku, quantity, cents }: Order) {
  ctx.status("charging");
  let charge: string;
  try {
    ({ charge } = await ctx.effect("payment.charge", { order: ctx.key, cents }, { retry: 2 }));
  } catch (error) {
    if (error instanceof FunctionCancelled) throw error;
    return { state: "failed", why: "the payment was refused" };
  }
  ctx.status("reserving");
  try {
    await ctx.effect("stock.reserve", { order: ctx.key, sku, quantity }, { timeout: "1h" });
  } catch (error) {
    // Also when the order is cancelled: what was paid is given back.
    await ctx.shield((ctx) => ctx.effect("payment.refund", { order: ctx.key, charge }));
    if (error instanceof FunctionCancelled) throw error;
    return { state: "refunded", why: "out of stock" };
  }
  const totals = ctx.get<Totals>("totals") ?? NOTHING;
  ctx.put("totals", { placed: totals.placed + 1, cents: totals.cents + cents });
  return { state: "placed" };
}

export default program<Effects>({
  order: durable(order),
  query: (world) => world.get<Totals>("totals") ?? NOTHING,
});
