/** The promises of a component take the same order as those of the language. */

import { deepStrictEqual, throws } from "node:assert/strict";
import { test } from "node:test";
import { QueuedPromise, outcomeNow, ownJobs, runJobs } from "../src/jobs.ts";

ownJobs();

/** Writes down the order in which things happen that the specification puts in an order. */
function scenario(P: any, seen: string[]): void {
  const say = (what: string) => () => void seen.push(what);
  const thenable = { then: (resolve: (value: number) => void) => void (seen.push("thenable called"), resolve(1)) };
  P.resolve(1).then(say("a1")).then(say("a2")).then(say("a3")).then(say("a4")).then(say("a5"));
  new P((resolve: any) => resolve(P.resolve(2))).then(say("a promise in a promise"));
  P.resolve(thenable).then(say("thenable"));
  P.reject(new Error("no")).catch(say("caught")).finally(say("finally")).then(say("after finally"));
  P.all([P.resolve(1), thenable, 3]).then((values: any) => seen.push(`all ${values}`));
  P.race([new P(() => undefined), P.resolve("first"), P.resolve("second")]).then((value: any) => seen.push(`race ${value}`));
  P.any([P.reject(1), P.resolve(2)]).then((value: any) => seen.push(`any ${value}`));
  P.allSettled([P.reject(1), P.resolve(2)]).then((all: any[]) => seen.push(`settled ${all.map((one) => one.status)}`));
  const step = function* (): Generator<any, void, any> {
    seen.push(`step ${yield P.resolve("one")}`);
    try {
      yield P.reject("two");
    } catch (error) {
      seen.push(`step ${error}`);
    }
    seen.push(`step ${yield thenable}`);
  };
  const run = (steps: Generator<any, void, any>, next: () => IteratorResult<any>): void => {
    const { done, value } = next();
    if (!done) P.resolve(value).then((v: any) => run(steps, () => steps.next(v)), (e: any) => run(steps, () => steps.throw(e)));
  };
  const steps = step();
  run(steps, () => steps.next());
}

test("jobs run in the order of the language", async () => {
  const [ours, native]: [string[], string[]] = [[], []];
  scenario(QueuedPromise, ours);
  deepStrictEqual(ours, []);
  runJobs();
  scenario(Promise, native);
  await new Promise((resolve) => setImmediate(resolve));
  deepStrictEqual(ours, native);
});

test("what a promise became is known at once, and what never comes is an error", () => {
  deepStrictEqual(outcomeNow(QueuedPromise.resolve(1).then((one: number) => one + 1) as any), 2);
  deepStrictEqual(outcomeNow(7), 7);
  throws(() => outcomeNow(QueuedPromise.reject(new Error("no")) as any), /no/);
  throws(() => outcomeNow(new QueuedPromise(() => undefined) as any), /never comes/);
});

/** What `build.mjs` makes of `async` functions. */
const asynchronous = (code: () => Generator<any, any, any>) => (globalThis as any).mundiAsync(undefined, [], code);

test("async functions take the order of the language", async () => {
  const [ours, native]: [string[], string[]] = [[], []];
  const steps = (P: any, seen: string[], name: string) =>
    function* (): Generator<any, any, any> {
      seen.push(`${name} begins`);
      seen.push(`${name} ${yield P.resolve(1)}`);
      seen.push(`${name} ${yield 2}`);
      try {
        yield P.reject("no");
      } catch (error) {
        seen.push(`${name} ${error}`);
      }
      return P.resolve(`${name} ends`);
    };
  for (const name of ["a", "b"]) asynchronous(steps(QueuedPromise, ours, name)).then((end: string) => ours.push(end));
  runJobs();
  const run = async (code: () => Generator<any, any, any>) => {
    const it = code();
    let step = it.next();
    while (!step.done) {
      let value: any;
      try {
        value = await step.value;
      } catch (error) {
        step = it.throw(error);
        continue;
      }
      step = it.next(value);
    }
    return step.value;
  };
  for (const name of ["a", "b"]) run(steps(Promise, native, name)).then((end: string) => native.push(end));
  await new Promise((resolve) => setImmediate(resolve));
  deepStrictEqual(ours, native);
});

test("the queue stays in order when it is long", () => {
  const seen: number[] = [];
  for (let n = 0; n < 5000; n++) QueuedPromise.resolve(n).then((n: number) => seen.push(n));
  runJobs();
  deepStrictEqual(seen, [...Array(5000).keys()]);
});
