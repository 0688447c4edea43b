// Calls and events go to the process that holds their world, once an answer has named it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Mundi } from '../dist/index.js';

const SERVER = 'http://server:1';
const HOLDER = 'http://holder:2';

/** A client of a fleet in which `holder` names who holds the world, and `gone` who cannot be reached. */
function fleet({ url = SERVER, holder = HOLDER, gone = [], followHolders = true } = {}) {
  const asked = [];
  const fake = async (address) => {
    const { origin, pathname } = new URL(address);
    asked.push(`${origin}${pathname}`);
    if (gone.includes(origin)) throw new TypeError('fetch failed');
    return new Response('1', { headers: origin === url ? { 'mundi-holder': `${holder}/` } : {} });
  };
  return { asked, gone, mundi: new Mundi({ url, followHolders, fetch: fake }) };
}

test('calls and events follow, other requests and other worlds do not', async () => {
  const { asked, mundi } = fleet();
  const world = mundi.world('alice');
  await world.call('add', 1);
  await world.call('add', 1);
  await world.send('add', 1);
  await world.query('count');
  await mundi.world('bob').call('add', 1);
  const origins = asked.map((address) => new URL(address).origin);
  assert.deepEqual(origins, [SERVER, HOLDER, HOLDER, SERVER, SERVER]);
});

test('an address that cannot be reached is forgotten, and the request goes to the server', async () => {
  const { asked, gone, mundi } = fleet();
  const world = mundi.world('alice');
  await world.call('add', 1);
  gone.push(HOLDER);
  assert.equal(await world.call('add', 1), 1);
  assert.deepEqual(asked.map((address) => new URL(address).origin), [SERVER, HOLDER, SERVER]);
});

test('a token never goes from an encrypted address to one in the clear', async () => {
  const { asked, mundi } = fleet({ url: 'https://server:1' });
  const world = mundi.world('alice');
  await world.call('add', 1);
  await world.call('add', 1);
  assert.ok(asked.every((address) => address.startsWith('https://server:1/')));
});

test('without the option nothing follows', async () => {
  const { asked, mundi } = fleet({ followHolders: false });
  const world = mundi.world('alice');
  await world.call('add', 1);
  await world.call('add', 1);
  assert.ok(asked.every((address) => address.startsWith(SERVER)));
});
