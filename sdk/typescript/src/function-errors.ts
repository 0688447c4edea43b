/** What goes wrong with durable functions, by codes that are the same in every language. */

import type { EffectError } from "./kinds.ts";

/** A wrong use of durable functions, or a bound of theirs. */
export class FunctionError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = code;
  }
}

/** The code asks for something else than is on record. */
export class FunctionDiverged extends FunctionError {
  constructor(
    readonly awaitNumber: number,
    readonly recorded: string,
    readonly asked: string,
  ) {
    super("FUNCTION_DIVERGED", `await ${awaitNumber}: on record is ${recorded}, and the code asks for ${asked}`);
  }
}

/** The instance, or the scope that was waited in, was cancelled. Catch it to clean up, and wait in `ctx.shield` there. */
export class FunctionCancelled extends FunctionError {
  constructor(reason: string) {
    super("FUNCTION_CANCELLED", reason);
  }
}

/** An effect was not carried out: the error of its receipt, as an exception. */
export class EffectFailed extends Error implements EffectError {
  readonly kind: EffectError["kind"];
  readonly code: string;
  readonly reason: string;
  readonly attempts: number;
  readonly failedCode?: string;
  readonly failedAt?: number;

  constructor(
    readonly effect: string,
    error: EffectError,
  ) {
    super(`${effect}: ${error.code}: ${error.reason}`);
    this.name = "EffectFailed";
    this.kind = error.kind;
    this.code = error.code;
    this.reason = error.reason;
    this.attempts = error.attempts;
    if (error.failedCode !== undefined) this.failedCode = error.failedCode;
    if (error.failedAt !== undefined) this.failedAt = error.failedAt;
  }
}
