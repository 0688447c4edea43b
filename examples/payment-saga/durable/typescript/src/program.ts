/** An order as a durable function: what `../../../saga.rs` keeps in cells and tells apart by labels is the order of the lines here. */

import { type Ctx, EffectFailed, FunctionCancelled, durable, program } from "mundi-sdk";
import type { Begin, Effects } from "./types.ts";

/** Steps, with the step that undoes each. Nothing is shipped before it is confirmed. */
const STEPS = [["reserve", "release"], ["charge", "refund"]] as const;

/** Whether the shop did it. */
async function ask(ctx: Ctx<Effects>, { shop, order }: Begin, what: string): Promise<boolean> {
  const headers = { "content-type": "application/json" };
  try {
    const body = JSON.stringify({ order });
    return (await ctx.effect("http.request", { url: `${shop}/${what}`, method: "POST", headers, body })).ok;
  } catch (error) {
    if (error instanceof EffectFailed) return false;
    throw error;
  }
}

/** The way forward. Notes what undoes each step, and says why it ended before the goods were shipped. */
async function forward(ctx: Ctx<Effects>, order: Begin, undo: string[]): Promise<string | undefined> {
  // Both are waited for from the beginning: a customer may confirm before the card is charged.
  const confirm = ctx.event("confirm");
  const late = ctx.sleep(order.confirm_within_ms);
  for (const [step, undoneBy] of STEPS) {
    if (!(await ask(ctx, order, step))) {
      ctx.detach(confirm);
      ctx.detach(late);
      return `${step} was refused`;
    }
    undo.push(undoneBy);
  }
  if (!(await ctx.race([confirm, late]))) return "it was not confirmed in time";
  return (await ask(ctx, order, "ship")) ? undefined : "ship was refused";
}

async function begin(ctx: Ctx<Effects>, order: Begin) {
  const undo: string[] = [];
  let failed: string | undefined, cancelled: unknown;
  try {
    failed = await forward(ctx, order, undo);
  } catch (error) {
    if (!(error instanceof FunctionCancelled)) throw error;
    [failed, cancelled] = ["it was cancelled", error];
  }
  const outcome = failed === undefined ? "shipped" : { undone: failed };
  if (failed !== undefined) {
    // Also when the order is cancelled: what was done is undone, the newest first.
    await ctx.shield(async (ctx) => {
      for (const step of undo.reverse()) await ask(ctx, order, step);
    });
  }
  ctx.put("outcome", outcome);
  if (cancelled) throw cancelled;
  return outcome;
}

export default program<Effects>({
  begin: durable(begin),

  handle(world, { seq, cause }) {
    if (cause.is === "event" && cause.schema === "outcome") world.reply(seq, world.get("outcome") ?? null);
  },
});
