// Durable functions and children by the client, against a real server that is killed in between.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Mundi } from '../dist/index.js';
import { Server, until } from './server.mjs';

let server, mundi;
before(async () => {
  server = await new Server().start();
  mundi = new Mundi({ url: server.url });
  await server.uploadShop();
});
after(() => server.end());

const all = async (items) => {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
};

/** Carries out effects of the shop; those of `kinds` only. */
function work(...kinds) {
  const results = { 'payment.charge': { charge: 'ch_1' }, 'stock.reserve': {}, 'payment.refund': {} };
  const worker = mundi.worker(Object.fromEntries(kinds.map((kind) => [kind, async () => results[kind]])), { waitMs: 500 });
  const running = worker.run();
  return async () => {
    worker.stop();
    await running;
  };
}

const ORDER = { sku: 'lamp', quantity: 2, cents: 4_900 };

test('a function is run once under a key, listed, described and cancelled; waiting for it survives kill -9', async () => {
  const { functions } = await mundi.create('lamps', { program: 'shop' });
  const late = await functions.run('order', 'never', ORDER, { timeoutMs: 50 }).catch((error) => error);
  assert.equal(late.code, 'CALL_TIMEOUT');
  let stop = work('payment.charge');
  await until(() => functions.describe('order/never'), (it) => it.waits[0]?.name === 'stock.reserve');
  const waiting = functions.run('order', '17', ORDER);
  await until(() => functions.describe('order/17').catch(() => undefined), (it) => it?.waits[0]?.name === 'stock.reserve');
  await stop();
  await server.kill();
  await server.start();
  const cancelled = await functions.cancel('order/never', { reason: 'not wanted' });
  assert.equal(cancelled.state, 'running', 'it gives back what was paid first');
  stop = work('stock.reserve', 'payment.refund');
  assert.deepEqual(await waiting, { state: 'placed' });
  assert.deepEqual(await functions.run('order', '17', ORDER), { state: 'placed' }, 'the same instance');
  const other = await functions.run('order', '17', { ...ORDER, quantity: 3 }).catch((error) => error);
  assert.equal(other.code, 'FUNCTION_KEY_REUSED');
  const ended = await until(() => functions.describe('order/never'), (it) => it.state !== 'running');
  assert.equal(ended.state, 'cancelled');
  await stop();
  assert.deepEqual(ended.log.filter((it) => it.kind === 'effect').map((it) => it.name), ['payment.charge', 'stock.reserve', 'payment.refund']);
  assert.deepEqual((await all(functions.list({ limit: 1 }))).map((it) => it.instance), ['order/17', 'order/never'], 'pages are followed');
  assert.deepEqual((await all(functions.list({ state: 'done' }))).map((it) => it.instance), ['order/17']);
  const past = await functions.describe('order/17', { at: ended.log[1].asked_at + 1 }).catch((error) => error);
  assert.ok(past.state === 'running' || past.code === 'FUNCTION_NOT_FOUND');
});

test('a function is paused and goes on', async () => {
  const { functions } = await mundi.create('paused-lamps', { program: 'shop' });
  await functions.run('order', 'a.b', ORDER, { timeoutMs: 50 }).catch((error) => assert.equal(error.code, 'CALL_TIMEOUT'));
  await functions.pause('order/a.b');
  assert.equal((await functions.describe('order/a.b')).paused, true);
  await functions.resume('order/a.b');
  const stop = work('payment.charge', 'stock.reserve');
  assert.deepEqual(await functions.run('order', 'a.b', ORDER), { state: 'placed' });
  await stop();
});

test('children are spawned once, listed, followed past kill -9, and cancelled', async () => {
  const programs = await mundi.http.json(['GET', '/v1/u/{universe}/programs']);
  const { program } = programs.find((it) => it.name === 'kv');
  const { hash } = await mundi.http.json(['POST', '/v1/u/{universe}/manifests'], { body: { program, effects: { 'child.spawn': {} } } });
  const { children } = await mundi.create('parent', { manifest: hash });
  assert.equal((await children.setBudget({ tokens: 100 })).lanes.find((it) => it.lane === 'tokens').limit, 100);
  const first = await children.spawn('external', { params: { page: 7 }, budget: { tokens: 60 }, idempotencyKey: 'a' });
  assert.equal((await children.spawn('external', { params: { page: 7 }, budget: { tokens: 60 }, idempotencyKey: 'a' })).child_id, first.child_id);
  const second = await children.spawn('external');
  assert.deepEqual((await all(children.list({ limit: 1 }))).map((it) => it.child_id), [first.child_id, second.child_id], 'pages are followed');
  const task = (verb, body) => mundi.http.json(['POST', `/v1/u/{universe}/tasks/children/${verb}`], { body });
  const [claimed] = await task('claim', { kinds: ['external'], limit: 1, wait: '10s', ttl: '1h' });
  assert.deepEqual(claimed.params, { page: 7 });
  await task('start', { claim: claimed.claim });
  const following = all(children.events(first.child_id, { follow: true }));
  const cancelled = await children.cancel(second.child_id, 'stop');
  assert.deepEqual(cancelled, { outcome: 'cancelled', cancel_request_id: 'stop' });
  await server.kill();
  await server.start();
  await task('complete', { claim: claimed.claim, result: { found: 3 }, spent: { tokens: 40 } });
  assert.deepEqual((await following).map((it) => it.event), ['WORKER_START', 'WORKER_PASS']);
  assert.equal((await children.cancel(first.child_id)).outcome, 'already_terminal');
  assert.equal((await children.get(first.child_id)).outcome, 'passed');
  assert.equal((await children.budget()).lanes.find((it) => it.lane === 'tokens').total, 40);
  assert.deepEqual((await all(children.events(first.child_id, { from: 1 }))).map((it) => it.event), ['WORKER_PASS']);
});
