/**
 * A world for tests, without a server: events go in, and what follows is there to be looked at.
 *
 * It is as strict as a server: what mundi.json does not declare, a value that its schema refuses, an id that is none and
 * what is beyond a bound end the step with a `Refused` that has the server's code, and leave nothing behind. Only the fuel and
 * the memory of a component are not counted here.
 */

export { type Offer, Refused } from "./offer.ts";
export { type ReplayOptions, replayBundle } from "./replay-bundle.ts";
export { type Intent, type Sending, Step, type Timer } from "./test-host.ts";
export { TestWorld } from "./test-world.ts";
export { DurableWorld, type Instance, forEachCrash } from "./test-functions.ts";
