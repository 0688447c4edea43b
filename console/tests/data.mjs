// Worlds in every state that the console shows.
import assert from 'node:assert/strict';
import { join } from 'node:path';

/** An order that is shipped in steps by a worker outside: effects with receipts, and one that is open. */
async function shipment(server, world, steps, done) {
  await server.create(world, 'steps');
  await server.send(world, 'start', { steps });
  for (let step = 1; step <= done; ) {
    const tasks = await server.ask('POST', server.of('/tasks/claim'), { kinds: ['demo.step'], limit: 1, wait: '10s' });
    for (const task of tasks.tasks ?? tasks) {
      const outcome = step === 3 ? 'refused' : 'done';
      await server.ask('POST', server.of('/tasks/complete'), { claim: task.claim, result: { outcome }, adapter: 'warehouse' });
      step += 1;
    }
  }
}

const SHOP = join(import.meta.dirname, '../../examples/order-saga/durable/rust');

/** A world whose program has a durable function: one instance waits for stock, one is done. */
export async function shop(server, world, keys) {
  await server.create(world, 'shop');
  for (const [key, isDone] of keys) {
    // The result is not waited for: most instances stay open.
    const run = server.ask('POST', server.of(`/worlds/${world}/functions/order/${key}?timeout=1ms`), { sku: 'lamp', quantity: 2, cents: 4_900 });
    await run.catch((error) => assert.match(error.message, /CALL_TIMEOUT/));
    await finish(server, 'payment.charge', { charge: `ch_${key}` });
    if (isDone) await finish(server, 'stock.reserve', {});
    await server.until(`/worlds/${world}/functions/order/${key}`, (it) => (isDone ? it.state === 'done' : it.waits[0]?.name === 'stock.reserve'));
  }
}

async function finish(server, kind, result) {
  const { claim } = await server.claim(kind);
  await server.ask('POST', server.of('/tasks/complete'), { claim, result, adapter: 'warehouse' });
}

/** A world with a child that passed, one that is at work, and one that waits for its turn. */
export async function research(server, world) {
  const kv = (await server.ask('GET', server.of('/programs'))).find((program) => program.name === 'kv');
  const { hash } = await server.ask('POST', server.of('/manifests'), { program: kv.program, effects: { 'child.spawn': {} }, limits: { max_active_children: 1 } });
  await server.ask('POST', server.of('/worlds'), { world, manifest: hash });
  await server.ask('PUT', server.of(`/worlds/${world}/budget`), { limits: { tokens: 20_000 } });
  const spawn = (topic) => server.ask('POST', server.of(`/worlds/${world}/children`), { kind: 'external', params: { topic }, budget: { tokens: 5_000 } });
  const children = [await spawn('prices'), await spawn('suppliers'), await spawn('delivery times')];
  const of = (verb, body) => server.ask('POST', server.of(`/tasks/children/${verb}`), body);
  const first = await server.claim('external', 'tasks/children');
  await of('start', { claim: first.claim });
  await of('complete', { claim: first.claim, result: { found: 3 }, spent: { tokens: 4_200 } });
  const second = await server.claim('external', 'tasks/children');
  await of('start', { claim: second.claim });
  await of('report', { claim: second.claim, spent: { tokens: 1_300 } });
  return children.map((child) => child.child_id);
}

export async function fill(server) {
  await server.mundi('program', 'build', SHOP);
  await server.mundi('program', 'upload', SHOP, '--as', 'shop');
  await shop(server, 'lamps', [['1041', true], ['1042', false]]);
  await research(server, 'research');
  await server.create('till', 'counter');
  for (const amount of [5, 12, -3, 40, 8, 1, -20, 7]) await server.call('till', 'add', amount);
  await shipment(server, 'order-1043', 3, 3);
  await shipment(server, 'order-1042', 6, 4);
  for (const [world, set] of [['order-1042', { customer: 'acme', tier: 'gold' }], ['order-1043', { customer: 'globex' }]]) await server.ask('POST', server.of(`/worlds/${world}/labels`), { set });
  await server.create('notes', 'kv');
  const notes = { 'team/alice/role': 'owner', 'team/alice/mail': 'alice@example.com', 'team/bob/role': 'reader', 'plan/title': 'Move the warehouse', 'plan/steps': ['measure', 'pack', 'drive', 'unpack'], 'plan/done': false };
  for (const [key, value] of Object.entries(notes)) await server.call('notes', 'put', { key, value });
  await server.call('notes', 'put', { key: 'plan/done', value: true });
  await server.call('notes', 'delete', { key: 'team/bob/role' });
  await server.call('notes', 'remind', { key: 'plan/review', value: 'is it still true?', in_ms: 86_400_000 });
  await server.call('notes', 'ask', { key: 'weather', kind: 'external.task', params: { city: 'Ulm' } });
  await server.call('notes', 'ask', { key: 'page', kind: 'http.request', params: { method: 'GET', url: 'http://127.0.0.1:9/nothing' } });
  // A step that fails: the sum has no room.
  await server.create('overflow', 'counter');
  await server.call('overflow', 'add', Number.MAX_SAFE_INTEGER);
  await server.send('overflow', 'add', { $integer: '9223372036854775807' });
  await server.until('/worlds/overflow', (world) => world.failures > 0);
  await server.create('resting', 'counter');
  await server.ask('POST', server.of('/worlds/resting/pause'));
  await server.until('/worlds/resting', (world) => world.state === 'paused');
  await server.create('kept', 'counter');
  await server.ask('POST', server.of('/worlds/kept/archive'));
  await server.ask('POST', server.of('/worlds/till/fork'), { world: 'till-what-if', at: 10, effects: 'suppress' });
  await server.call('till-what-if', 'add', 100);
  // A pool with a lease of each kind that people act on.
  await server.ask('POST', server.of('/pools'), { name: 'gpus' });
  await server.ask('POST', server.of('/pools/gpus/resources'), { resources: ['gpu-0', 'gpu-1', 'gpu-2'].map((resource) => ({ resource, labels: ['a100'] })) });
  await server.lease('gpus', 'gpu-0', 'agent-7');
  const revoked = await server.lease('gpus', 'gpu-1', 'agent-8');
  await server.ask('POST', server.of('/pools/gpus/revoke'), { lease_id: revoked });
  // Dead letters: sent for later, to a world that is gone by then.
  await server.create('gone', 'kv');
  for (const key of ['a', 'b']) await server.send('gone', 'put', { key, value: 1 }, '?delay=5s');
  await server.ask('DELETE', server.of('/worlds/gone'));
  await server.until('/dead-letters', (letters) => letters.items.length === 2);
}
