import type { components } from './schema.js';

/** The body of a refusal (RFC 9457). */
export type Problem = components['schemas']['Problem'];

/** What a caller can do about an error. `unreachable`: no server answered. */
export type Kind = 'conflict' | 'not_found' | 'invalid' | 'fenced' | 'full' | 'unavailable' | 'corrupt' | 'unreachable';

/** A refusal of the server, or the absence of an answer. */
export class MundiError extends Error {
  override readonly name: string = 'MundiError';

  constructor(
    /** Stable: `WORLD_NOT_FOUND`. Each has a page in the documentation. */
    readonly code: string,
    readonly kind: Kind,
    /** What to do about it. */
    readonly hint: string,
    detail: string,
    /** Of the answer; 0 if there was none. */
    readonly status: number,
    /** The whole refusal. */
    readonly problem?: Partial<Problem>,
    options?: ErrorOptions,
  ) {
    super(`${code}: ${detail}`, options);
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.kind === 'full' || this.kind === 'unavailable' || this.kind === 'unreachable';
  }
}

/** No server answered, or the connection broke off: what became of the request is not known. */
export class UnreachableError extends MundiError {
  override readonly name = 'UnreachableError';

  constructor(url: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super('UNREACHABLE', 'unreachable', 'Check that the server runs and that the address is right.', `${url} does not answer: ${why}`, 0, undefined, { cause });
  }
}

/** Thrown by the handler of an effect: another attempt is useless, the world gets an `error` receipt. */
export class FinalError extends Error {
  override readonly name = 'FinalError';
}

/** Thrown by the handler of an effect: try again, not before `afterMs` if it is given. */
export class RetryError extends Error {
  override readonly name = 'RetryError';

  constructor(
    message: string,
    readonly afterMs?: number,
  ) {
    super(message);
  }
}

/** The error that an answer is. */
export async function refusal(response: Response): Promise<MundiError> {
  const problem: Partial<Problem> = await response.json().catch(() => ({}));
  const kind = (problem.kind ?? (response.status >= 500 ? 'unavailable' : 'invalid')) as Kind;
  const detail = problem.detail ?? problem.title ?? `the server answered ${response.status}`;
  return new MundiError(problem.code ?? `HTTP_${response.status}`, kind, problem.hint ?? '', detail, response.status, problem);
}
