/** The component's side of the contract. `mundi program build` puts it around a project's program. */

// @ts-ignore: only a component has it.
import * as imports from "mundi:program/host@1.1.0";
import { decode, encode } from "./cbor.ts";
import { type Cause, type Event, type Program, World } from "./index.ts";
import { outcomeNow, ownPromises } from "./jobs.ts";

const host = imports as any;

export function component(program: Program<any>, offer: string) {
  ownPromises();
  program.describeTo?.(JSON.parse(offer));
  const described = program.offered ? JSON.stringify(program.offered(JSON.parse(offer))) : offer;
  return {
    handle(given: any): void {
      explained(() => outcomeNow(program.handle(new World<any>(host), eventOf(given))));
    },
    query(name: string, params: Uint8Array): Uint8Array {
      return explained(() => {
        if (!program.query) throw new Error(`this program answers no query \`${name}\``);
        return encode(program.query(new World<any>(host), name, decode(params)) ?? null);
      });
    },
    describe: () => described,
  };
}

/** An error of the contract is a text; every other exception would be a trap without one. */
function explained<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw String(error);
  }
}

function eventOf({ seq, origin, cause }: any): Event {
  return { seq, origin, cause: causeOf(cause) };
}

function causeOf({ tag, val }: any): Cause {
  switch (tag) {
    case "event":
      return { is: "event", schema: val.schema, value: decode(val.value), key: val.key };
    case "receipt":
      return { is: "receipt", ...val };
    case "message":
      return { is: "message", ...val };
    case "timer":
      return { is: "timer", label: val.label, payload: decode(val.payload) };
    default:
      return { is: "upgraded", from: val };
  }
}
