/**
 * Children: runs that this world dispatches and does not replay, each started at most once. `world.spawnChild` asks for one under a label,
 * `childEvent` reads what becomes of it, and `world.cancelChild` ends it.
 *
 * mundi.json declares the effects `child.spawn`, `child.cancel` and, for a program that is run as a child of kind `world`, `child.done`.
 */

import { decode } from "./cbor.ts";
import type { Cause } from "./index.ts";

/** What a child may use, or has used. A lane that is absent is unbounded in a budget. */
export interface Budget {
  solver_calls?: number;
  duration_secs?: number;
  tokens?: number;
}

interface ChildNames {
  /** The label under which it was spawned. */
  label: string;
  childId: string;
  /** The `worker_run_id`: the idempotency key of the run. Absent if it never had an executor. */
  leaseId?: string;
  /** The world that runs it, of a child of kind `world`. */
  world?: string;
}

/** What became of a child of this world. */
export type ChildEvent = ChildNames &
  (
    | { is: "started" }
    | { is: "passed"; result: any; spent: Budget }
    | { is: "failed"; code: string; reason: string; spent: Budget }
    | { is: "cancelled"; code: string; reason: string; cancelRequestId?: string; spent: Budget }
  );

/** What a cause says about a child of this world; undefined if it is about none. */
export function childEvent(cause: Cause): ChildEvent | undefined {
  if (cause.is === "message" && cause.inbox === "child.started") {
    const label = cause.headers.find(([name]) => name === "label")?.[1] ?? "";
    return { is: "started", ...names(label, decode(cause.payload)) };
  }
  if (cause.is !== "receipt" || cause.kind !== "child.spawn") return undefined;
  const fields = decode(cause.payload) as Record<string, any>;
  const [about, spent] = [names(cause.label, fields), (fields.spent ?? {}) as Budget];
  if (cause.status === "ok") return { is: "passed", ...about, result: fields.result ?? null, spent };
  const why = { code: fields.code ?? "", reason: fields.reason ?? "", spent };
  // A fork that does not run it, or an operator who answered for it, cancelled it, too.
  if (fields.outcome !== "cancelled" && fields.code !== "EFFECT_CANCELLED") return { is: "failed", ...about, ...why };
  const id = fields.cancel_request_id;
  return { is: "cancelled", ...about, ...why, ...(id === undefined ? {} : { cancelRequestId: id }) };
}

function names(label: string, fields: any): ChildNames {
  const { child_id: childId = "", lease_id: leaseId, world } = fields ?? {};
  return { label, childId, ...(leaseId === undefined ? {} : { leaseId }), ...(world === undefined ? {} : { world }) };
}

/** The params of `child.spawn`. */
export function childSpec(kind: string, params: unknown, budget: Budget): Record<string, unknown> {
  const said = Object.keys(budget).length > 0 ? { budget } : {};
  return { kind, ...(params === undefined || params === null ? {} : { params }), ...said };
}
