/** NAME: counts, now or later. `npm test` runs it without a server, `mundi program build` makes a component of it. */

import { type Ctx, durable, program } from "mundi-sdk";
import type { Effects, Events, Later } from "./types.ts";

export default program<Effects>({
  /** A durable function: what happens in order, as ordinary code. It survives whatever happens while it waits. */
  later: durable(async (ctx: Ctx<Effects>, { by, after }: Later) => {
    ctx.status(`adds ${by} after ${after}`);
    await ctx.sleep(after);
    const count = (ctx.get<number>("count") ?? 0) + by;
    ctx.put("count", count);
    return count;
  }),

  /** A handler: one step for each event that is for no function. */
  handle(world, event) {
    if (event.cause.is !== "event") return;
    const by: Events["add"] = event.cause.value;
    const count = (world.get<number>("count") ?? 0) + by;
    world.put("count", count);
    world.reply(event.seq, count);
  },

  query(world) {
    return world.get<number>("count") ?? 0;
  },
});
