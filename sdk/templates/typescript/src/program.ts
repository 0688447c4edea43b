/** NAME: counts. `npm test` runs it without a server, `mundi program build` makes a component of it. */

import type { Program } from "mundi-sdk";
import type { Effects, Events } from "./types.ts";

const program: Program<Effects> = {
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
};

export default program;
