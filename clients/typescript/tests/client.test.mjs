// The client against a real server, which is killed in between.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FinalError, Mundi, MundiError, RetryError, UnreachableError } from '../dist/index.js';
import { Server, until } from './server.mjs';

let server, mundi;
before(async () => {
  server = await new Server().start();
  mundi = new Mundi({ url: server.url });
});
after(() => server.end());

const all = async (items) => {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
};

test('creates, gets, lists, sends, calls and queries', async () => {
  const alice = await mundi.create('alice', { program: 'counter' });
  await mundi.create('alice', { program: 'counter' });
  assert.equal((await alice.get()).state, 'live');
  const sent = await alice.send('add', 5);
  assert.equal(await alice.query('count', null, { atLeast: sent.seq }), 5);
  assert.equal(await alice.call('add', 7), 12);
  const { head } = await alice.get();
  assert.equal(await alice.query('count', null, { at: 0 }).catch((error) => error.code), 0);
  await alice.call('add', 1);
  assert.equal(await alice.query('count', null, { at: head }), 12);
  for (const name of ['a', 'b', 'c']) await mundi.create(name, { program: 'kv' });
  const of = (filters) => all(mundi.list(filters));
  assert.equal((await of({ program: 'kv', limit: 1 })).length, 3, 'pages are followed');
  assert.deepEqual(await of({ state: 'archived' }), []);
  assert.equal((await mundi.whoami()).tokens_required, false);
  assert.ok((await mundi.summary()).worlds.total >= 4);
});

test('finds by label and name, asks in SQL, and says why a world does not move', async () => {
  const world = await mundi.create('labelled-1', { program: 'counter', labels: { customer: '17' } });
  await mundi.create('labelled-2', { program: 'counter', labels: { customer: '18' } });
  const names = async (filters) => (await all(mundi.list(filters))).map((it) => it.name).sort();
  assert.deepEqual(await names({ label: 'customer=17' }), ['labelled-1']);
  assert.deepEqual(await names({ name: 'labelled-' }), ['labelled-1', 'labelled-2']);
  const { columns, rows } = await mundi.sql("select name from worlds where name like 'labelled-%' order by 1");
  assert.deepEqual([columns, rows], [['name'], [['labelled-1'], ['labelled-2']]]);
  assert.equal(await mundi.sql('select nonsense from worlds').catch((error) => error.kind), 'invalid');
  await world.pause();
  const why = await until(() => world.why(), (it) => it.state === 'paused');
  assert.ok(why.causes.length > 0);
});

test('labels change after creation, and worlds are commanded in bulk, page by page', async () => {
  for (const n of [1, 2, 3]) await mundi.create(`bulk-${n}`, { program: 'counter', labels: { fleet: 'red', n: String(n) } });
  const first = mundi.world('bulk-1');
  assert.deepEqual(await first.label({ fleet: 'blue', tier: 'gold', n: null }), { fleet: 'blue', tier: 'gold' });
  assert.deepEqual((await first.get()).labels, { fleet: 'blue', tier: 'gold' });
  assert.equal((await mundi.count({ label: 'fleet=red' })).count, 2);
  const would = await all(mundi.bulk('pause', { label: 'fleet=red' }, { dryRun: true }));
  assert.deepEqual(would.flatMap((page) => page.items).map((it) => [it.name, it.result]).sort(), [['bulk-2', 'would'], ['bulk-3', 'would']]);
  // Interrupted after the first page; the second iteration goes on behind it.
  const done = [];
  let after;
  for await (const page of mundi.bulk('pause', { label: 'fleet=red' }, { limit: 1 })) {
    done.push(...page.items);
    after = page.next;
    break;
  }
  for await (const page of mundi.bulk('pause', { label: 'fleet=red' }, { limit: 1, after })) done.push(...page.items);
  assert.deepEqual(done.map((it) => [it.name, it.result]).sort(), [['bulk-2', 'done'], ['bulk-3', 'done']]);
  await until(() => mundi.count({ label: 'fleet=red', state: 'paused' }), (it) => it.count === 2);
  assert.equal((await first.get()).state, 'live');
  assert.equal(await all(mundi.bulk('delete', {})).catch((error) => error.kind), 'invalid', 'no filter');
});

test('an event is sent once under one key', async () => {
  const world = await mundi.create('once', { program: 'counter' });
  assert.equal((await world.send('add', 1, { idempotencyKey: 'k' })).before, false);
  assert.equal((await world.send('add', 1, { idempotencyKey: 'k' })).before, true);
  assert.equal(await world.call('add', 10, { idempotencyKey: 'k' }), 11);
  assert.equal(await world.call('add', 10, { idempotencyKey: 'k' }), 11);
});

test('refusals are exceptions with code, kind and hint', async () => {
  const refused = async (asked) => {
    const error = await asked.then(() => assert.fail('it was not refused'), (error) => error);
    assert.ok(error instanceof MundiError, error);
    return error;
  };
  const missing = await refused(mundi.world('nobody').get());
  assert.deepEqual([missing.code, missing.kind, missing.status], ['WORLD_NOT_FOUND', 'not_found', 404]);
  assert.ok(missing.hint.length > 10, missing.hint);
  assert.equal((await refused(mundi.world('alice').send('add', 'five'))).code, 'EVENT_INVALID');
  const nobody = new Mundi({ url: 'http://127.0.0.1:9', retryForMs: 0 });
  const away = await refused(nobody.world('alice').get());
  assert.ok(away instanceof UnreachableError && away.isTransient && away.hint);
});

test('forks, compares, verifies, exports and imports', async () => {
  const parent = await mundi.create('parent', { program: 'counter' });
  for (let at = 0; at < 3; at += 1) await parent.call('add', 1);
  const { head } = await parent.get();
  const child = await parent.fork('child', { at: head });
  await child.call('add', 100);
  const differences = await parent.diff({ with: 'child' });
  assert.equal(differences.length, 1);
  assert.equal((await parent.lineage()).forks.length, 1);
  assert.ok((await parent.verify()).records > 0);
  assert.equal((await parent.rehearse({ program: 'counter' })).divergence ?? null, null);
  const imported = await mundi.import(await parent.exportBytes(), { world: 'imported' });
  assert.ok(imported.arrived_at > 0);
  const streamed = await mundi.import(await parent.export(), { world: 'streamed' });
  assert.notEqual(streamed.world, imported.world);
  assert.equal(await mundi.world('imported').query('count'), 3);
  const cells = await all(child.cells());
  assert.equal((await child.cell(cells[0].key)).key, cells[0].key);
});

test('blobs', async () => {
  const bytes = crypto.getRandomValues(new Uint8Array(50_000));
  const { hash } = await mundi.putBlob(bytes);
  assert.deepEqual(await mundi.getBlob(hash), bytes);
});

test('pauses and resumes', async () => {
  const world = await mundi.create('paused', { program: 'counter' });
  await world.pause();
  await until(() => world.get(), (it) => it.state === 'paused');
  await world.resume();
  assert.equal(await world.call('add', 2), 2);
  await world.delete();
  assert.equal(await world.call('add', 2).catch((error) => error.kind), 'not_found');
});

test('a journal is read to its end, followed, and resumed after kill -9', async () => {
  const world = await mundi.create('told', { program: 'counter' });
  await world.call('add', 1);
  const first = await all(world.journal());
  assert.deepEqual(first.map((record) => record.height), first.map((_, height) => height));
  assert.deepEqual(await all(world.journal({ from: first.length - 1 })), first.slice(-1));
  const long = await mundi.create('long-journal', { program: 'counter' });
  for (let at = 0; at < 120; at += 1) await long.send('add', 1);
  await long.call('add', 1);
  const heights = (await all(long.journal())).map((record) => record.height);
  assert.deepEqual(heights, Array.from({ length: (await long.get()).head }, (_, height) => height), 'pages are followed');

  const stop = new AbortController();
  const seen = [];
  const following = (async () => {
    for await (const record of world.journal({ follow: true, signal: stop.signal })) seen.push(record.height);
  })();
  await until(() => seen.length, (length) => length >= first.length);
  await server.kill();
  await server.start();
  await world.call('add', 1);
  const { head } = await world.get();
  await until(() => seen.length, (length) => length >= head);
  stop.abort();
  await following;
  assert.deepEqual(seen, seen.map((_, height) => height), 'none is missing, none comes twice');
});

test('a call waits past its timeout by its name, and through kill -9, and is made once', async () => {
  const world = await mundi.create('slow', { program: 'counter' });
  await world.pause();
  await until(() => world.get(), (it) => it.state === 'paused');
  const short = await world.call('add', 1, { timeoutMs: 300, idempotencyKey: 'first' }).catch((error) => error);
  assert.equal(short.code, 'CALL_TIMEOUT');
  assert.ok(short.problem.call, 'the refusal names the call');
  const named = world.reply(short.problem.call);
  const waiting = world.call('add', 10, { timeoutMs: 120_000 });
  await until(() => world.get(), (it) => it.inbox_items >= 2);
  await server.kill();
  await server.start();
  await world.resume();
  assert.equal(await waiting, 11);
  assert.equal(await named.catch((error) => error.code), 1);
  assert.equal(await world.query('count'), 11, 'each was added once');
});

test('calls go on while the server is killed again and again, each once', async () => {
  const world = await mundi.create('storm', { program: 'counter' });
  const calling = Array.from({ length: 4 }, async () => {
    for (let at = 0; at < 25; at += 1) await world.call('add', 1);
  });
  for (let at = 0; at < 2; at += 1) {
    await new Promise((wake) => setTimeout(wake, 150));
    await server.kill();
    await server.start();
  }
  await Promise.all(calling);
  assert.equal(await world.query('count'), 100);
});

test('effects: listed, answered by an operator, retried and cancelled', async () => {
  const world = await mundi.create('asking', { program: 'kv' });
  const ask = (key) => world.call('ask', { key, kind: 'external.task', params: { key } });
  await ask('one');
  await ask('two');
  const [one, two] = await until(() => all(mundi.effects({ world: 'asking' })), (it) => it.length === 2);
  assert.equal((await mundi.effect(one.effect)).kind, 'external.task');
  assert.equal((await mundi.answerEffect(one.effect, { status: 'ok', payload: 'by hand' })).changed, true);
  await mundi.cancelEffect(two.effect, { reason: 'not needed' });
  await until(() => all(mundi.effects({ world: 'asking' })), (it) => it.length === 0);
  assert.equal(await until(() => world.query('get', one.params.key), (it) => it !== null), 'by hand');
  const ended = await until(() => mundi.effect(two.effect, { world: 'asking' }), (it) => it.stage === 'answered');
  assert.equal(ended.receipt.status, 'error');
});

test('a worker carries effects out, retries, fails for good, and stops gracefully', async () => {
  const world = await mundi.create('works', { program: 'kv' });
  const attempts = {};
  let most = 0;
  let now = 0;
  const worker = mundi.worker(
    {
      'external.task': async (task) => {
        most = Math.max(most, (now += 1));
        await new Promise((wake) => setTimeout(wake, 100));
        now -= 1;
        attempts[task.params.n] = task.attempt;
        if (task.params.final) throw new FinalError('never');
        if (task.params.type) throw new TypeError('a class that is final here');
        if (task.attempt < (task.params.after ?? 1)) throw new RetryError('not yet', 10);
        return { doubled: task.params.n * 2 };
      },
    },
    { concurrency: 3, ttlMs: 3_000, finalErrors: [TypeError], adapter: 'typescript', onError: () => undefined },
  );
  const running = worker.run();
  const ask = (n, more = {}) => world.call('ask', { key: `k${n}`, kind: 'external.task', params: { n, ...more } });
  await Promise.all([ask(1), ask(2), ask(3), ask(4, { after: 2 }), ask(5, { final: true }), ask(6, { type: true })]);
  const got = (n) => until(() => world.query('get', `k${n}`), (it) => it !== null);
  for (const n of [1, 2, 3, 4]) assert.deepEqual(await got(n), { doubled: n * 2 });
  for (const n of [5, 6]) await got(n);
  assert.equal(attempts[4], 2);
  assert.equal(attempts[5], 1);
  assert.equal(attempts[6], 1);
  assert.ok(most > 1 && most <= 3, `${most} at a time`);

  // The server is killed while an effect is carried out: the claim is kept, and the answer arrives.
  await ask(7);
  await until(() => all(mundi.effects({ world: 'works' })), (it) => it[0]?.stage === 'claimed' || it.length === 0);
  await server.kill();
  await server.start();
  assert.deepEqual(await got(7), { doubled: 14 });

  await ask(8);
  await until(() => now, (it) => it > 0);
  worker.stop();
  await running;
  assert.deepEqual(await got(8), { doubled: 16 }, 'what was begun is answered');
});

test('a worker keeps a claim by heartbeats, and learns that an operator answered', async () => {
  const world = await mundi.create('long', { program: 'kv' });
  const started = [];
  let aborted;
  const worker = mundi.worker({
    'external.task': async (task, { signal }) => {
      started.push(task.attempt);
      if (task.params.n === 2) return new Promise((_, end) => signal.addEventListener('abort', () => end((aborted = signal.reason))));
      await new Promise((wake) => setTimeout(wake, 3_500));
      return 'kept';
    },
  }, { ttlMs: 1_500, waitMs: 500, onError: () => undefined });
  const running = worker.run();
  await world.call('ask', { key: 'k', kind: 'external.task', params: { n: 1 } });
  assert.equal(await until(() => world.query('get', 'k'), (it) => it !== null), 'kept');
  assert.deepEqual(started, [1], 'nobody else got it meanwhile');
  await world.call('ask', { key: 'k2', kind: 'external.task', params: { n: 2 } });
  await until(() => started.length, (it) => it === 2);
  const [open] = await all(mundi.effects({ world: 'long' }));
  await mundi.answerEffect(open.effect, { status: 'ok', payload: 'by hand' });
  await until(() => aborted, (it) => it !== undefined);
  worker.stop();
  await running;
  assert.equal(await world.query('get', 'k2'), 'by hand');
});

test('dead letters: listed, replayed and dropped', async () => {
  const world = await mundi.create('gone', { program: 'counter' });
  await world.send('add', 1, { delay: '1ms' });
  await world.send('add', 1, { delay: '2s' });
  await world.send('add', 1, { delay: '2s', key: 'other' });
  await world.delete();
  const letters = await until(() => all(mundi.deadLetters()), (it) => it.length >= 2);
  assert.equal((await mundi.deadLetter(letters[0].letter)).letter, letters[0].letter);
  const replayed = await mundi.replayDeadLetters({ letters: [letters[0].letter] });
  assert.equal(replayed.done + replayed.refused.length, 1);
  const found = (await all(mundi.deadLetters())).map((it) => it.letter);
  assert.equal((await mundi.dropDeadLetters({ letters: found })).done, found.length);
});

test('pools', async () => {
  const pool = await mundi.createPool('browsers');
  await pool.createResources([{ resource: 'chrome-1', labels: ['chrome'] }]);
  const lease = await pool.reserve({ label: 'chrome', holder: 'me', ttl_slots: 100 });
  assert.equal(lease.result, 'ok');
  const busy = await pool.reserve({ label: 'chrome', holder: 'you', ttl_slots: 100 }).catch((error) => error);
  assert.equal(busy.problem.result, 'resource_busy');
  const token = { lease_id: lease.lease_id, lease_epoch: lease.lease_epoch, holder: 'me' };
  assert.equal((await pool.activate(token)).result, 'ok');
  assert.equal((await pool.release(token)).result, 'ok');
  assert.equal((await mundi.pools())[0].pool, 'browsers');
});
