/** An effect that is asked for again and again: as a durable function and as a handler. */

import { type Ctx, type Event, type World, cbor, durable, program } from "mundi-sdk";
import type { Chain, Effects, Work, WorkReceipt } from "./types.ts";

/** What the handler keeps between its steps. */
interface Kept {
  n: number;
  step: number;
  sum: number;
  call: string;
}

const work = (step: number): Work => ({ step, note: `step ${step} of the chain` });

function handle(world: World<Effects>, event: Event): void {
  const { cause } = event;
  if (cause.is === "event") {
    world.put("hand", { n: cause.value.n, step: 0, sum: 0, call: event.seq });
    world.emit("work", work(0), "hand");
  } else if (cause.is === "receipt") {
    const kept = world.get<Kept>("hand")!;
    kept.sum += (cbor.decode(cause.payload) as WorkReceipt).worth;
    kept.step++;
    if (kept.step === kept.n) {
      world.delete("hand");
      return world.reply(kept.call, kept.sum);
    }
    world.put("hand", kept);
    world.emit("work", work(kept.step), "hand");
  }
}

export default program<Effects>({
  chain: durable(async (ctx: Ctx<Effects>, { n }: Chain) => {
    let sum = 0;
    for (let step = 0; step < n; step++) sum += (await ctx.effect("work", work(step))).worth;
    return sum;
  }),
  handle,
});
