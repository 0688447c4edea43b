// The console in a real browser, on what a real server answers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { fill, research, shop } from './data.mjs';
import { go, launch, open, Server } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([new Server().start(), launch()]);
  await fill(server);
});
after(async () => {
  await browser?.close();
  await server?.end();
});

/** What axe finds wrong with what is shown, in words. */
async function accessible(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }));
  return found.violations.map((it) => `${it.id}: ${it.nodes.map((node) => `${node.target} ${node.failureSummary}`).slice(0, 4).join('; ')}`);
}

const shown = (page, text) => page.getByText(text, { exact: false }).filter({ visible: true }).first().waitFor();

/** Every screen, with a text that only data of the server brings there. */
const SCREENS = [
  ['home', '#/u/default', 'What needs a person'],
  ['worlds', '#/u/default/worlds', 'order-1042'],
  ['a world', '#/u/default/worlds/notes', 'Move the warehouse'],
  ['a record', '#/u/default/worlds/order-1042?at=4&tab=record', 'The whole record'],
  ['open work', '#/u/default/worlds/notes?tab=open', 'external.task'],
  ['functions', '#/u/default/worlds/lamps?tab=functions', 'stock.reserve'],
  ['the awaits of a function', '#/u/default/worlds/lamps?tab=functions&instance=order/1041', 'Fork with another answer'],
  ['children', '#/u/default/worlds/research?tab=children', 'delivery times'],
  ['a difference', '#/u/default/worlds/till?at=12&vs=3&tab=difference', 'count'],
  ['a query', '#/u/default/worlds/till?tab=query', 'a query changes nothing'],
  ['send', '#/u/default/worlds/till?tab=send', 'A call waits for the reply'],
  ['logs', '#/u/default/worlds/till?tab=logs', 'logged nothing'],
  ['fork', '#/u/default/worlds/till/fork?at=5', 'Nothing ever leaves the fork'],
  ['lineage', '#/u/default/worlds/till/lineage', 'till-what-if'],
  ['compare', '#/u/default/compare?left=till&right=till-what-if&from=10', 'first difference'],
  ['effects', '#/u/default/effects', 'external.task'],
  ['timers', '#/u/default/timers', 'is it still true?'],
  ['dead letters', '#/u/default/dead-letters', 'WORLD_DELETED'],
  ['pools', '#/u/default/pools', 'gpus'],
  ['a pool', '#/u/default/pools/gpus', 'gpu-2'],
  ['programs', '#/u/default/programs', 'kv@3'],
  ['rehearse', '#/u/default/programs/rehearse?of=kv@3&to=kv@1', 'Under the program'],
  ['fleet', '#/u/default/fleet', 'See why; replay or drop them.'],
  ['a fork with another answer', '#/u/default/worlds/lamps/fork?await=order/1041/1', 'Result of the await'],
  ['settings', '#/u/default/settings', 'all universes'],
];

describe('every screen', () => {
  for (const theme of ['light', 'dark']) {
    test(`shows data of the server, is accessible and makes no error (${theme})`, async () => {
      const page = await open(browser, server, '', { colorScheme: theme });
      for (const [name, hash, text] of SCREENS) {
        await go(page, hash);
        await shown(page, text);
        assert.deepEqual(await accessible(page), [], `${name} in ${theme}`);
      }
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    });
  }

  for (const [size, width, height] of [['360 pixels', 360, 740], ['4k', 3_840, 2_160]]) {
    test(`can be read at ${size}`, async () => {
      const page = await open(browser, server, '', { viewport: { width, height } });
      for (const [name, hash, text] of SCREENS) {
        await go(page, hash);
        await shown(page, text);
        const [wide, letters] = await page.evaluate(() => [document.documentElement.scrollWidth, parseFloat(getComputedStyle(document.body).fontSize)]);
        assert.ok(wide <= width, `${name} is ${wide} pixels wide`);
        assert.ok(letters >= (width > 2_200 ? 16 : 13), `the text of ${name} has ${letters} pixels`);
      }
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    });
  }
});

test('the page allows no script but its own, and no other host', async () => {
  const response = await fetch(`${server.url}/`);
  const policy = response.headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self';/);
  assert.doesNotMatch(policy, /unsafe/);
  assert.doesNotMatch(await response.text(), /<script(?![^>]*\bsrc=)/);
  const foreign = await fetch(`${server.url}/`, { headers: { origin: 'http://evil.example' } });
  assert.equal(foreign.status, 403);
});

test('the keyboard moves the slider, and the address follows it', async () => {
  const page = await open(browser, server, '#/u/default/worlds/till?at=4');
  await page.locator('[data-height="4"]').waitFor();
  await page.keyboard.press('ArrowRight');
  await page.locator('[data-height="5"]').waitFor();
  await page.keyboard.press('k');
  await page.keyboard.press('k');
  await page.locator('[data-height="3"]').waitFor();
  await page.waitForFunction(() => location.hash.includes('at=3'));
  await page.keyboard.press('/');
  await page.keyboard.type('notes');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'notes' }).waitFor();
  // A part of a name is enough, and what was found is chosen with the arrows.
  await page.keyboard.press('/');
  await page.keyboard.type('DER-104');
  const options = page.getByRole('listbox', { name: 'Worlds that were found' }).getByRole('option');
  await options.filter({ hasText: 'order-1042' }).waitFor();
  assert.deepEqual(await accessible(page), []);
  const names = (await options.allInnerTexts()).map((it) => it.split('\n')[0].trim());
  for (const found of names) assert.match(found, /order-104/);
  for (let down = 0; down <= names.indexOf('order-1043'); down += 1) await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'order-1043' }).waitFor();
  // What no world is called leads to the table of those whose names contain it.
  await page.keyboard.press('/');
  await page.keyboard.type('order-');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.endsWith('/worlds?name=order-'));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('Enter does what is under the focus, and opens the row where nothing is', async () => {
  const page = await open(browser, server, '#/u/default/worlds?name=order-');
  await page.locator('.world-row:not(.head)').nth(1).waitFor();
  await page.getByRole('button', { name: 'New world' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'New world' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.locator('body').press('j');
  await page.locator('.world-row.current').waitFor();
  const second = page.locator('.world-row:not(.head) .world-cell > a').nth(1);
  const name = await second.innerText();
  await second.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name, exact: true }).waitFor();
  await go(page, '#/u/default/worlds?name=order-');
  await page.locator('.world-row:not(.head)').nth(1).waitFor();
  const first = await page.locator('.world-row:not(.head) .world-cell > a').first().innerText();
  await page.locator('body').press('j');
  await page.locator('.world-row.current').waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: first, exact: true }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

/** Every kind of dialog: where it is opened, and by what. */
const DIALOGS = [
  ['keyboard', '#/u/default', 'Keyboard'],
  ['a new world', '#/u/default/worlds', 'New world'],
  ['many worlds', '#/u/default/worlds?name=order-', 'All that fit…'],
  ['labels', '#/u/default/worlds/till', 'Add labels'],
  ['a world is deleted', '#/u/default/worlds/till', 'Delete'],
  ['an effect', '#/u/default/effects?world=notes', 'external.task'],
  ['an answer by hand', '#/u/default/effects?world=notes&kind=external.task', 'Answer by hand'],
  ['a policy of watchers', '#/u/default/pools/gpus', 'Change the policy'],
  ['placement', '#/u/default/fleet', 'Placement'],
  ['dead letters', '#/u/default/dead-letters?queue=mailboxes', 'Replay all of mailboxes…'],
];

for (const theme of ['light', 'dark']) {
  test(`open dialogs are accessible (${theme})`, async () => {
    const page = await open(browser, server, '', { colorScheme: theme });
    for (const [name, hash, button] of DIALOGS) {
      await go(page, hash);
      await page.getByRole('button', { name: button }).first().click();
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      for (const summary of await dialog.locator('summary').all()) await summary.click();
      assert.deepEqual(await accessible(page), [], `${name} in ${theme}`);
      const size = await dialog.evaluate((it) => [it.scrollWidth, it.clientWidth]);
      assert.ok(size[0] <= size[1], `${name} is wider than its dialog: ${size}`);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });
}

test('a world says by whom it was paused, and what it waits for in the words of the server', async () => {
  await server.create('why', 'kv');
  await server.call('why', 'ask', { key: 'weather', kind: 'external.task', params: {} });
  const page = await open(browser, server, '#/u/default/worlds/why');
  const reasons = page.getByRole('list', { name: 'Why it is waiting' });
  await reasons.getByText(/^Waits for external\.task.*no worker has claimed it yet/).waitFor();
  await server.ask('POST', server.of('/worlds/why/pause'));
  await reasons.getByText(/^Paused by local .*: it takes nothing but commands/).waitFor();
  await go(page, '#/u/default/worlds/till');
  await reasons.getByText(/^Idle: it has done all it was asked/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('labels are edited, and worlds are found by label, age and last error', async () => {
  for (const name of ['tagged-1', 'tagged-2']) await server.create(name, 'counter');
  const page = await open(browser, server, '#/u/default/worlds/tagged-1');
  await page.getByRole('button', { name: 'Add labels' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Key of label 1').fill('customer');
  await dialog.getByLabel('Value of label 1').fill('17');
  await dialog.locator('code', { hasText: /^mundi world label tagged-1 customer=17 / }).waitFor({ state: 'attached' });
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('link', { name: 'customer=17' }).click();
  const rows = page.locator('.world-row:not(.head)');
  await rows.getByText('tagged-1').waitFor();
  assert.equal(await rows.count(), 1);
  // One that gets the label comes, one that loses it goes, with nothing loaded anew by hand.
  await server.ask('POST', server.of('/worlds/tagged-2/labels'), { set: { customer: '17' } });
  await rows.getByText('tagged-2').waitFor();
  await server.ask('POST', server.of('/worlds/tagged-1/labels'), { remove: ['customer'] });
  await rows.getByText('tagged-1').waitFor({ state: 'detached' });
  await go(page, '#/u/default/worlds?name=tagged-');
  await page.getByLabel('Created').selectOption('1h+');
  await shown(page, 'No world fits these filters');
  await page.getByLabel('Created').selectOption('1h');
  await rows.nth(1).waitFor();
  await go(page, '#/u/default/worlds');
  await page.getByLabel('Last error').selectOption('failed');
  await rows.getByText('overflow').waitFor();
  assert.equal(await rows.count(), 1);
  await page.getByLabel('Last error').selectOption('none');
  await rows.nth(3).waitFor();
  assert.equal(await rows.getByText('overflow').count(), 0);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('lists name worlds without asking for each of them', async () => {
  const page = await open(browser, server, '#/u/default/settings');
  await shown(page, 'all universes');
  const asked = [];
  page.on('request', (request) => /\/worlds\/w_[^/]*$/.test(new URL(request.url()).pathname) && asked.push(request.url()));
  for (const [hash, name] of [['effects', 'notes'], ['timers', 'notes'], ['fleet', 'order-1042']]) {
    await go(page, `#/u/default/${hash}`);
    // What is in memory changes with time.
    if (hash === 'fleet') await page.getByRole('region', { name: 'Leases' }).or(page.getByText('No world is in memory')).first().waitFor();
    else await page.getByRole('link', { name, exact: true }).first().waitFor();
  }
  assert.deepEqual(asked, []);
  await page.context().close();
});

test('a world that has forks is not deleted, and says so before', async () => {
  const page = await open(browser, server, '#/u/default/worlds/till');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('A world that has forks is not deleted').waitFor();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByRole('alert').getByText('WORLD_HAS_FORKS').waitFor();
  assert.equal((await server.ask('GET', server.of('/worlds/till'))).state, 'live');
  await page.context().close();
});

test('all worlds that fit a filter are paused, after a dry run said which', async () => {
  for (const name of ['bulk-1', 'bulk-2', 'bulk-3']) await server.create(name, 'counter');
  const page = await open(browser, server, '#/u/default/worlds?name=bulk-');
  await page.getByRole('button', { name: 'All that fit…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('3 worlds', { exact: true }).waitFor();
  for (const name of ['bulk-1', 'bulk-2', 'bulk-3']) await dialog.getByText(name).first().waitFor();
  // The dry run changed nothing.
  for (const name of ['bulk-1', 'bulk-2', 'bulk-3']) assert.equal((await server.ask('GET', server.of(`/worlds/${name}`))).state, 'live');
  await dialog.locator('code', { hasText: /^mundi world pause --name-contains bulk- / }).waitFor({ state: 'attached' });
  await dialog.getByRole('button', { name: 'Pause 3 worlds' }).click();
  await dialog.getByText('3 worlds done.').waitFor();
  for (const name of ['bulk-1', 'bulk-2', 'bulk-3']) assert.equal((await server.ask('GET', server.of(`/worlds/${name}`))).state, 'paused');
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('open effects are filtered by stage and sorted by attempts', async () => {
  const kv = (await server.ask('GET', server.of('/programs'))).find((program) => program.name === 'kv');
  // A kind of its own, so that the task that is claimed is of this world.
  const manifest = await server.ask('GET', server.of(`/manifests/${kv.versions[0].manifest}`));
  const { hash } = await server.ask('POST', server.of('/manifests'), { ...manifest, events: { ...manifest.events, ask: true }, effects: { 'external.stage': {} } });
  await server.ask('POST', server.of('/worlds'), { world: 'stages', manifest: hash });
  for (const key of ['a', 'b', 'c']) await server.call('stages', 'ask', { key, kind: 'external.stage', params: { key } });
  const { intent } = await server.claim('external.stage');
  const page = await open(browser, server, '#/u/default/effects?world=stages');
  const rows = page.getByRole('region', { name: 'Effects' }).locator('tbody tr');
  await rows.nth(2).waitFor();
  const attempts = () => rows.locator('td:nth-child(4)').allInnerTexts();
  await page.getByLabel('Order').selectOption('attempts');
  await page.waitForFunction(() => document.querySelector('tbody td:nth-child(4)')?.textContent.startsWith('1'));
  assert.deepEqual((await attempts()).map((it) => it[0]), ['1', '0', '0']);
  await page.getByLabel('Stage').selectOption('claimed');
  const stages = (...wanted) => page.waitForFunction((all) => [...document.querySelectorAll('tbody td:nth-child(3)')].map((it) => it.textContent).join() === all, wanted.join());
  await stages('claimed');
  await page.getByLabel('Stage').selectOption('pending');
  await stages('pending', 'pending');
  // Other filters begin with the first page, and one that names nothing says so.
  await page.getByLabel('Stage').selectOption('waiting');
  await shown(page, 'No open effect fits these filters');
  assert.ok(intent.startsWith('i_'));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('open effects are sorted over all pages', async () => {
  // Older than those of the first page, by the order of the queue in a later one.
  const kv = (await server.ask('GET', server.of('/programs'))).find((program) => program.name === 'kv');
  const manifest = await server.ask('GET', server.of(`/manifests/${kv.versions[0].manifest}`));
  const { hash } = await server.ask('POST', server.of('/manifests'), { ...manifest, events: { ...manifest.events, ask: true }, effects: { 'external.many': {} } });
  await server.ask('POST', server.of('/worlds'), { world: 'many', manifest: hash });
  const keys = Array.from({ length: 210 }, (_, index) => `k${index}`);
  for (const key of keys) await server.send('many', 'ask', { key, kind: 'external.many', params: { key } });
  await server.until('/effects?world=many&limit=1000', (page) => page.items.length === keys.length);
  const all = (await server.ask('GET', server.of('/effects?world=many&limit=1000'))).items;
  all.sort((a, b) => b.published_at_ns - a.published_at_ns || (a.effect < b.effect ? -1 : 1));
  const page = await open(browser, server, '#/u/default/effects?world=many&sort=newest');
  const rows = page.getByRole('region', { name: 'Effects' }).locator('tbody tr');
  const labels = () => rows.locator('td:nth-child(1) .mute').allInnerTexts();
  await rows.nth(199).waitFor();
  const first = await labels();
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 10);
  const shownLabels = [...first, ...(await labels())];
  assert.equal(new Set(shownLabels).size, keys.length);
  for (const [at, { label }] of all.entries()) assert.equal(shownLabels[at].trim(), label, String(at));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('an await gets another answer in a fork', async () => {
  await shop(server, 'lamps-3', [['9', false]]);
  const page = await open(browser, server, '#/u/default/worlds/lamps-3?tab=functions&instance=order/9');
  const row = page.getByRole('region', { name: 'The awaits of order/9' }).getByRole('row', { name: /payment\.charge/ });
  await row.getByRole('link', { name: 'Fork with another answer' }).click();
  await shown(page, 'Before await 1 of order/9 ends');
  await page.getByRole('textbox', { name: /^Name/ }).fill('lamps-3-other');
  // What came in the parent stands there, to be changed.
  const result = page.getByLabel('Result of the await (JSON)');
  await page.waitForFunction(() => document.querySelector('textarea').value.includes('ch_9'));
  await result.fill('{"charge": "ch_other"}');
  await page.locator('code', { hasText: /^mundi world fork lamps-3 lamps-3-other --at-await order\/9\/1 --with '\{"charge":"ch_other"\}' --effects suppress/ }).waitFor({ state: 'attached' });
  await page.getByRole('button', { name: 'Fork with this answer' }).click();
  await page.waitForFunction(() => location.hash.includes('/compare?'));
  const made = await server.until('/worlds/lamps-3-other/functions/order/9', (it) => it.log?.[0]?.state === 'ok');
  assert.deepEqual(made.log[0].value, { charge: 'ch_other' });
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('a sandbox answers from a form, and the commands say all that the buttons do', async () => {
  await server.create('asked', 'kv');
  await server.call('asked', 'put', { key: 'a', value: 1 });
  const page = await open(browser, server, '#/u/default/worlds/asked/fork');
  await page.getByRole('textbox', { name: /^Name/ }).fill('asked-sandbox');
  await page.getByRole('radio', { name: /Sandbox/ }).click();
  await page.getByRole('button', { name: 'Add an answer' }).click();
  const fork = page.getByRole('button', { name: 'Fork', exact: true });
  assert.ok(await fork.isDisabled(), 'an answer to no kind');
  await page.getByLabel('Kind of the effect').fill('external.task');
  await page.getByLabel('Payload (JSON)').fill('{"sun": true}');
  await fork.click();
  await page.waitForFunction(() => location.hash.includes('/compare?'));
  await server.call('asked-sandbox', 'ask', { key: 'weather', kind: 'external.task', params: {} });
  const cells = await server.until('/worlds/asked-sandbox/cells', (found) => found.items.some((it) => it.key === 'weather'));
  assert.deepEqual(cells.items.find((it) => it.key === 'weather').value, { sun: true });
  // An edited event is a fork and a send.
  await go(page, '#/u/default/worlds/till/fork?at=7&event=7');
  await page.getByRole('textbox', { name: /Value of add/ }).fill('99');
  await page.locator('code', { hasText: /^mundi world fork till --at 7 --effects suppress .*&& mundi world send FORK add 99/ }).waitFor({ state: 'attached' });
  await page.locator('code', { hasText: /^curl .*\/fork && curl .*\/send\/add$/ }).waitFor({ state: 'attached' });
  await go(page, '#/u/default/worlds/till?tab=send');
  for (const verb of ['call', 'send']) await page.locator('code', { hasText: new RegExp(`^mundi world ${verb} till add `) }).waitFor({ state: 'attached' });
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('the fleet shows engine, object store and roles, and pins a world', async () => {
  const [worker] = await server.ask('GET', server.of('/workers'));
  await server.create('pinned', 'counter');
  const page = await open(browser, server, '#/u/default/fleet');
  await shown(page, 'world, adapter, timer, orchestrator, watcher, api');
  await page.getByRole('region', { name: 'Workers' }).getByRole('cell', { name: worker.roles.join(', ') }).waitFor();
  assert.ok(worker.roles.includes('world') && worker.roles.includes('adapter'));
  await page.getByRole('region', { name: 'Check-up' }).getByText('embedded, answers').waitFor();
  await page.getByRole('region', { name: 'Check-up' }).getByText('LocalFileSystem, answers').waitFor();
  await page.getByRole('button', { name: 'Placement' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Pin a world here').fill('pinned');
  await dialog.getByRole('button', { name: 'Pin', exact: true }).click();
  const row = dialog.getByRole('listitem').filter({ hasText: 'pinned' });
  await row.waitFor();
  assert.deepEqual((({ pinned, assigned_to }) => ({ pinned, assigned_to }))(await server.ask('GET', server.of('/worlds/pinned'))), { pinned: true, assigned_to: worker.worker });
  await row.getByRole('button', { name: 'Unpin' }).click();
  await server.until('/worlds/pinned', (world) => !world.pinned);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('what a record changed is marked, and a query asks the past', async () => {
  const journal = (await server.ask('GET', server.of('/worlds/notes/journal?limit=100'))).items;
  const put = journal.find((record) => record.input?.value?.key === 'plan/done' && record.input.value.value === true);
  const page = await open(browser, server, `#/u/default/worlds/notes?at=${put.height}`);
  await page.locator('.cell.changed', { hasText: 'done' }).waitFor();
  assert.match(await page.locator('.cell.changed').innerText(), /false.*true/s);
  await page.getByRole('tab', { name: 'Query' }).click();
  await page.getByRole('textbox', { name: /Value/ }).fill('"plan/done"');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.locator('.answer', { hasText: 'true' }).waitFor();
  for (let key = 0; key < 2; key += 1) await page.locator('body').press('ArrowLeft');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.locator('.answer', { hasText: 'false' }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('a call is made with the form of the schema, and the record appears live', async () => {
  await server.create('live', 'kv');
  const page = await open(browser, server, '#/u/default/worlds/live?tab=send');
  await page.getByRole('combobox', { name: 'Event' }).selectOption('put');
  await page.getByLabel('key').fill('colour');
  await page.getByRole('textbox', { name: /^value/ }).fill('"green"');
  await page.getByRole('button', { name: 'Call' }).click();
  await page.locator('.timeline .record', { hasText: 'event put' }).first().waitFor();
  // And what someone else sends.
  await server.call('live', 'put', { key: 'shape', value: 'round' });
  await page.locator('.timeline .record', { hasText: 'round' }).first().waitFor();
  await page.getByRole('tab', { name: /State/ }).click();
  await page.locator('.cell', { hasText: 'shape' }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('a fork is made with the mouse, with an edited event, and compared with its parent', async () => {
  const page = await open(browser, server, '#/u/default/worlds/till?at=5');
  await page.locator('.timeline .record.event').nth(2).click();
  await page.getByRole('tab', { name: 'Record' }).click();
  await page.getByRole('link', { name: 'Edit this event and run again in a fork' }).click();
  await page.getByRole('textbox', { name: /^Name/ }).fill('till-edited');
  await page.getByRole('textbox', { name: /Value of add/ }).fill('1000');
  await page.getByRole('radio', { name: /Sandbox/ }).click();
  await page.getByRole('button', { name: 'Fork and send the edited event' }).click();
  await page.locator('.verdict', { hasText: 'carries other values' }).waitFor();
  const made = await server.ask('GET', server.of('/worlds/till-edited'));
  assert.equal(made.effects, 'sandbox');
  const count = await server.until('/worlds/till-edited/cells', (cells) => cells.items[0]?.value > 1_000).then((cells) => cells.items[0].value);
  assert.equal(count, 5 + 12 + 1_000);
  await shown(page, String(count));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('an effect is answered by hand, and its world goes on', async () => {
  await server.create('asks', 'kv');
  await server.call('asks', 'ask', { key: 'weather', kind: 'external.task', params: {} });
  const page = await open(browser, server, '#/u/default/effects?world=asks');
  await page.getByRole('button', { name: 'Answer by hand' }).click();
  await page.getByLabel('Payload (JSON)').fill('{"sun": true}');
  await page.getByRole('button', { name: 'Give this answer' }).click();
  const cells = await server.until('/worlds/asks/cells', (found) => found.items.length > 0);
  assert.deepEqual(cells.items[0].value, { sun: true });
  await shown(page, 'No open effect fits these filters');
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('dead letters are replayed in one go, and worlds are paused in one go', async () => {
  const page = await open(browser, server, '#/u/default/dead-letters');
  const before = await server.ask('GET', server.of('/dead-letters'));
  await page.getByRole('button', { name: /Select all/ }).click();
  await page.getByRole('group', { name: /selected letters/ }).getByRole('button', { name: 'Replay' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
  await shown(page, '2 letters replayed');
  // They fail again, behind the others.
  const again = await server.until('/dead-letters', (letters) => letters.items.length === 2 && letters.items.every((it) => !before.items.some((old) => old.letter === it.letter)));
  assert.equal(again.items.length, 2);
  // And the same for a whole queue, on however many pages its letters stand.
  await page.getByLabel('Queue').selectOption(again.items[0].letter.split('.')[0]);
  await page.getByRole('button', { name: /^Replay all of / }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay all' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await shown(page, '2 letters replayed');
  await server.until('/dead-letters', (letters) => letters.items.length === 2 && letters.items.every((it) => !again.items.some((old) => old.letter === it.letter)));
  await server.create('many-1', 'counter');
  await server.create('many-2', 'counter');
  await go(page, '#/u/default/worlds?name=many-');
  for (const name of ['many-1', 'many-2']) await page.getByLabel(`Select ${name}`).check();
  await page.getByRole('button', { name: 'Pause' }).click();
  // What follows from it, for whom, and how a terminal does the same.
  const dialog = page.getByRole('dialog');
  for (const text of ['It takes nothing but commands from now on', 'many-1, many-2']) await dialog.getByText(text, { exact: false }).waitFor();
  for (const command of [/^for world in w_\w+ w_\w+; do mundi world pause \$world --url /, /^for world in .*; do curl -sS -X POST \S+\/worlds\/\$world\/pause; done$/]) await dialog.locator('code', { hasText: command }).waitFor({ state: 'attached' });
  await dialog.getByText('As a command').click();
  assert.equal(await dialog.getByRole('button', { name: /copy/i }).count(), 2);
  await dialog.getByRole('button', { name: 'Pause' }).click();
  for (const name of ['many-1', 'many-2']) await server.until(`/worlds/${name}`, (world) => world.state === 'paused');
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('a lease is revoked and reclaimed with the mouse, and a pool gets a policy', async () => {
  await server.ask('POST', server.of('/pools'), { name: 'seats' });
  await server.ask('POST', server.of('/pools/seats/resources'), { resources: [{ resource: 'seat-1' }] });
  const lease = await server.lease('seats', 'seat-1', 'agent-9');
  const page = await open(browser, server, '#/u/default/pools/seats');
  await shown(page, '0 of 1 resource available');
  for (const [verb, state] of [['Revoke', 'revoking'], ['Reclaim', 'revoked']]) {
    await page.getByRole('region', { name: 'Leases' }).getByRole('button', { name: verb }).click();
    await page.getByRole('dialog').getByRole('button', { name: verb }).click();
    const found = await server.until(`/pools/seats/leases/${lease}`, (it) => it.lease.state === state);
    assert.equal(found.lease.lease_epoch, 2);
  }
  await shown(page, '1 of 1 resource available');
  await page.getByRole('button', { name: 'Change the policy' }).click();
  await page.getByLabel(/Revoke when silent/).fill('600000');
  await page.getByLabel(/Reclaim after/).fill('60000');
  await page.getByRole('dialog').getByRole('button', { name: 'Watch', exact: true }).click();
  await shown(page, 'no heartbeat for 600000 ms');
  const { watch } = await server.ask('GET', server.of('/pools/seats/watch'));
  assert.deepEqual(watch, { holder_ended: true, silent_after_ms: 600_000, reclaim_after_ms: 60_000 });
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('a function that waits is paused and cancelled with the mouse, and its past is shown at its height', async () => {
  await shop(server, 'lamps-2', [['7', false]]);
  const page = await open(browser, server, '#/u/default/worlds/lamps-2');
  // The tab says how many run.
  await page.getByRole('tab', { name: 'Functions 1' }).click();
  const instance = page.getByRole('list', { name: 'Durable functions' }).getByRole('listitem');
  await shown(page, 'Waits for stock.reserve “order/7, await 2”');
  await instance.getByText(/waits for the effect stock\.reserve \(await 2\) for \d/).waitFor();
  const confirm = async (button, label) => {
    await instance.getByRole('button', { name: button, exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: label }).click();
  };
  await confirm('Pause', 'Pause');
  await server.until('/worlds/lamps-2/functions/order/7', (it) => it.paused);
  await confirm('Resume', 'Resume');
  await server.until('/worlds/lamps-2/functions/order/7', (it) => !it.paused);
  await confirm('Cancel', 'Cancel the function');
  // It gives back what was paid, and only then it has ended.
  await instance.getByText(/waits for the effect payment\.refund/).waitFor();
  const { claim, params } = await server.claim('payment.refund');
  assert.equal(params.charge, 'ch_7');
  await server.ask('POST', server.of('/tasks/complete'), { claim, result: {}, adapter: 'bank' });
  await instance.getByText('cancelled', { exact: true }).waitFor();
  assert.equal(await instance.getByRole('button', { name: 'Cancel', exact: true }).count(), 0);
  await instance.getByRole('button', { name: 'Show the awaits' }).click();
  const awaits = page.getByRole('region', { name: 'The awaits of order/7' });
  await awaits.getByText('payment.refund').waitFor();
  assert.equal(await awaits.getByRole('row').count(), 1 + 3);
  // At the height where the first await was asked for, it waited for that one.
  await awaits.getByRole('button', { name: /^height/ }).first().click();
  await instance.getByText(/waits for the effect payment\.charge \(await 1\) since \d{4}-/).waitFor();
  assert.equal(await instance.getByRole('button', { name: 'Cancel', exact: true }).count(), 0, 'the past is not changed');
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('children are shown with phase and budget, and cancelled with the mouse', async () => {
  const [, working, queued] = await research(server, 'research-2');
  const page = await open(browser, server, '#/u/default/worlds/research-2');
  await shown(page, 'Waits for 2 children: 1 at work, 1 not started');
  await page.getByRole('tab', { name: 'Children 2' }).click();
  const card = (text) => page.getByRole('list', { name: 'Children', exact: true }).locator('> li', { hasText: text });
  await page.getByRole('region', { name: 'Budget of the children' }).getByText('5,500 of 20,000').waitFor();
  await card('prices').getByText('passed', { exact: true }).waitFor();
  await card('prices').getByText('spent 4,200 of 5,000 tokens').waitFor();
  await card('suppliers').getByText('spent 1,300 of 5,000 tokens').waitFor();
  assert.equal(await card('delivery times').locator('[aria-current=step]').innerText(), 'queued');
  // One that has not begun ends at once; one that is at work is stopped by its worker.
  for (const topic of ['delivery times', 'suppliers']) {
    await card(topic).getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the child' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  await server.until(`/worlds/research-2/children/${queued}`, (child) => child.outcome === 'cancelled');
  await card('delivery times').getByText('cancelled', { exact: true }).waitFor();
  await card('suppliers').getByText('cancel requested').waitFor();
  await server.until(`/worlds/research-2/children/${working}`, (child) => child.phase === 'started' && child.cancel_request_id);
  await card('prices').getByRole('button', { name: 'Show the events' }).click();
  await card('prices').getByText('WORKER_PASS').waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('an upgrade goes on behind a world that refuses it, and says which', async () => {
  for (const name of ['upgrade-1', 'upgrade-2', 'upgrade-3']) {
    await server.create(name, 'kv@2');
    await server.call(name, 'put', { key: 'a', value: 1 });
  }
  const page = await open(browser, server, '#/u/default/programs/rehearse?of=kv@2&to=kv@3&world=upgrade-1,upgrade-2,upgrade-3');
  await page.getByRole('button', { name: 'Rehearse', exact: true }).click();
  await shown(page, '3 the same');
  await server.ask('DELETE', server.of('/worlds/upgrade-1'));
  await page.getByRole('button', { name: /Upgrade the 3 that/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Upgrade' }).click();
  const result = page.getByRole('region', { name: 'Upgrade' });
  await result.getByText('2 of 3 worlds upgraded, 1 refused:').waitFor();
  await result.getByRole('link', { name: 'upgrade-1' }).waitFor();
  for (const name of ['upgrade-2', 'upgrade-3']) await server.until(`/worlds/${name}`, (world) => world.program === 'kv');
  assert.deepEqual(page.wrong.filter((it) => !it.includes('Failed to load resource')), []);
  await page.context().close();
});

test('an upgrade is rehearsed over all worlds of a program', async () => {
  await server.create('first-kv', 'kv@1');
  await server.call('first-kv', 'put', { key: 'a', value: 1 });
  const page = await open(browser, server, '#/u/default/programs/rehearse?of=kv@1&to=kv@3');
  await page.getByRole('button', { name: 'Rehearse', exact: true }).click();
  await shown(page, '1 the same');
  await page.getByRole('button', { name: /Upgrade the 1 that/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Upgrade' }).click();
  await server.until('/worlds/first-kv', (world) => world.program === 'kv');
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

describe('many worlds and a long journal', () => {
  const records = Number(process.env.MUNDI_CONSOLE_RECORDS ?? 3_000);
  const worlds = Number(process.env.MUNDI_CONSOLE_WORLDS ?? 1_200);
  const jumps = Number(process.env.MUNDI_CONSOLE_JUMPS ?? 30);
  let large;
  before(async () => {
    large = await (await new Server().fill({ worlds, records })).start();
  });
  after(() => large?.end());

  /** Says how long something took in the page, and how often. */
  function told(what, took) {
    took.sort((a, b) => a - b);
    const at = (share) => took[Math.min(took.length - 1, Math.floor(took.length * share))].toFixed(0);
    console.log(`${what}, ${took.length} times: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, max ${at(1)} ms in the page`);
  }

  // All over a range, in an order that nothing can foresee but the test.
  const spread = (jump) => (jump * 0.618_034) % 1;

  test('the slider goes over a long journal', async () => {
    const { head } = await large.ask('GET', large.of('/worlds/long'));
    assert.ok(head > records);
    const page = await open(browser, large, `#/u/default/worlds/long?at=${head - 1}`);
    await page.locator(`[data-height="${head - 1}"]`).waitFor();
    await page.evaluate(() => performance.clearMeasures('mundi-moment'));
    const asked = [];
    page.on('request', (request) => /\/worlds\/[^/]+\/(steps|journal)\b/.test(request.url()) && asked.push(new URL(request.url()).pathname));
    for (let jump = 0; jump < jumps; jump += 1) {
      const height = Math.floor(spread(jump) * (head - 1));
      await page.getByRole('slider').fill(String(height));
      await page.locator(`[data-height="${height}"]`).waitFor();
    }
    const took = await page.evaluate(() => performance.getEntriesByName('mundi-moment').map((it) => it.duration));
    assert.ok(took.length >= jumps - 1, `${took.length} measures`);
    told(`a jump of the slider over ${head} records`, took);
    // One step, and the page of the timeline around it: a jump costs no more in a longer journal.
    assert.equal(asked.filter((it) => /\/steps\//.test(it)).length, jumps);
    assert.ok(asked.length <= 3 * jumps, `${asked.length} requests for ${jumps} jumps: ${asked.slice(-9)}`);
    // Only what can be seen is in the page.
    assert.ok((await page.locator('.timeline .virtual-row').count()) < 120);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });

  test('the table of worlds takes many', async () => {
    const page = await open(browser, large, '#/u/default/worlds?sort=created');
    await page.locator('.world-row').nth(5).waitFor();
    assert.ok((await page.locator('.world-row').count()) < 120);
    // To its end.
    const began = Date.now();
    for (;;) {
      await page.locator('.worlds').evaluate((list) => list.scrollTo(0, list.scrollHeight));
      const status = page.locator('[data-complete]');
      if ((await status.getAttribute('data-complete')) === 'true') break;
      await page.waitForTimeout(20);
    }
    const loaded = Number(await page.locator('[data-complete]').getAttribute('data-loaded'));
    assert.equal(loaded, worlds + 1);
    console.log(`${loaded} worlds were loaded into the table in ${((Date.now() - began) / 1_000).toFixed(1)} s`);
    assert.ok((await page.locator('.world-row').count()) < 120);
    const took = await page.evaluate(
      async ([jumps, spread]) => {
        const list = document.querySelector('.worlds');
        const took = [];
        for (let jump = 0; jump < jumps; jump += 1) {
          const began = performance.now();
          list.scrollTop = Math.floor(((jump * spread) % 1) * (list.scrollHeight - list.clientHeight));
          const middle = list.getBoundingClientRect().top + list.clientHeight / 2;
          const isShown = () => [...list.querySelectorAll('.virtual-row')].some((row) => row.getBoundingClientRect().top <= middle && row.getBoundingClientRect().bottom > middle);
          do await new Promise(requestAnimationFrame);
          while (!isShown());
          took.push(performance.now() - began);
        }
        return took;
      },
      [jumps, 0.618_034],
    );
    told(`a jump over ${loaded} rows`, took);

    // A world that changes is read alone, not the whole table.
    await page.locator('.worlds').evaluate((list) => list.scrollTo(0, 0));
    const newest = (await large.ask('GET', large.of('/worlds?sort=newest&limit=1'))).items[0].name;
    const asked = [];
    page.on('request', (request) => /\/worlds\?/.test(request.url()) && asked.push(request.url()));
    await large.ask('POST', large.of(`/worlds/${newest}/pause`));
    await page.locator('.world-row', { hasText: newest }).getByText('paused').waitFor();
    assert.deepEqual(asked, []);

    await page.getByRole('searchbox', { name: 'Filter by name or id' }).fill(`W${worlds - 1}`);
    await page.getByRole('link', { name: `w${worlds - 1}`, exact: true }).click();
    await page.getByRole('heading', { name: `w${worlds - 1}` }).waitFor();
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });

  test('home finds what needs a person behind many worlds', async () => {
    // By its id it is the last of all: a page of the list ends before it.
    const last = `w_7${'z'.repeat(25)}`;
    await large.create(last, 'counter');
    await large.call(last, 'add', Number.MAX_SAFE_INTEGER);
    await large.send(last, 'add', { $integer: '9223372036854775807' });
    const { name } = await large.until(`/worlds/${last}`, (world) => world.failures > 0);
    const page = await open(browser, large, '#/u/default');
    await page.locator('.needs.bad').getByRole('link', { name: name ?? /^w_7zzz/ }).waitFor();
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });

  test('a row of the table still says what its world waits for when the world changes', async () => {
    await large.create('waits-1', 'kv');
    await large.call('waits-1', 'ask', { key: 'weather', kind: 'external.task', params: {} });
    // So many rows that worlds which change are read one by one.
    const page = await open(browser, large, '#/u/default/worlds?sort=created');
    const row = page.locator('.world-row:not(.head)', { hasText: 'waits-1' });
    await row.getByText('waits for an effect').waitFor();
    const lists = [];
    page.on('request', (request) => /\/worlds\?/.test(request.url()) && lists.push(request.url()));
    await large.ask('POST', large.of('/worlds/waits-1/labels'), { set: { seen: 'yes' } });
    await row.getByText('seen=yes').waitFor();
    await row.getByText('waits for an effect').waitFor();
    assert.deepEqual(lists.filter((it) => !it.includes('after=')), []);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });

  test('many worlds are selected for an upgrade, and none is left out', async () => {
    const page = await open(browser, large, '#/u/default/worlds?name=w');
    await page.locator('.world-row:not(.head)').nth(5).waitFor();
    for (let row = 0; row < 60; row += 1) {
      await page.keyboard.press('j');
      await page.locator('.world-row.current').waitFor();
      await page.keyboard.press('x');
    }
    await shown(page, '60 selected');
    await page.getByRole('link', { name: 'Upgrade…' }).click();
    await page.getByRole('button', { name: 'Rehearse', exact: true }).click();
    await shown(page, '60 the same');
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });

  test('the worlds that were active last come first', async () => {
    await large.call('w7', 'add', 1);
    const page = await open(browser, large, '#/u/default/worlds?sort=active');
    // Others are released meanwhile, and are the last active ones then: only the order is certain.
    const active = page.locator('.world-row:not(.head) > :nth-child(6) time');
    await active.first().waitFor();
    const times = await active.evaluateAll((found) => found.map((it) => it.dateTime));
    assert.deepEqual(times, [...times].sort().reverse());
    await go(page, '#/u/default');
    await page.getByRole('region', { name: 'Worlds that were active last' }).getByRole('link').first().waitFor();
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });
});

test('home counts all universes, and asks for the summary calmly however much happens', async () => {
  await server.ask('POST', '/v1/universes', { name: 'second' });
  await server.ask('POST', '/v1/u/second/worlds', { world: 'alone', program: 'counter' });
  const page = await open(browser, server, '#/u/default');
  const row = page.getByRole('region', { name: 'Universes' }).getByRole('row', { name: /^second/ });
  await row.getByRole('cell', { name: '1', exact: true }).first().waitFor();
  await shown(page, 'Effect failures');
  // Worlds with an effect, a timer or a child that is open.
  const { worlds } = await server.ask('GET', server.of('/summary'));
  assert.ok(worlds.waiting >= 2 && worlds.waiting < worlds.total, JSON.stringify(worlds));
  await page.locator('.cards-row a', { hasText: /waiting$/ }).getByText(String(worlds.waiting), { exact: true }).waitFor();
  const began = Date.now();
  const asked = [];
  page.on('request', (request) => request.url().endsWith('/u/default/summary') && asked.push(request.url()));
  for (let index = 0; index < 8; index += 1) {
    await server.create(`calm-${index}`, 'counter');
    await page.waitForTimeout(1_200);
  }
  const most = (Date.now() - began) / 5_000 + 2;
  assert.ok(asked.length <= most, `${asked.length} summaries for eight events; ${most} would be one in five seconds`);
  await row.getByRole('link', { name: 'second' }).click();
  await page.getByRole('heading', { name: 'second' }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('home and the table follow what others do, and ask for nothing while nothing happens', async () => {
  const page = await open(browser, server, '#/u/default/worlds?name=pushed-');
  await shown(page, 'No world fits these filters');
  await server.create('pushed-1', 'counter');
  await page.getByRole('link', { name: 'pushed-1', exact: true }).waitFor();
  await server.ask('POST', server.of('/worlds/pushed-1/pause'));
  await page.locator('.world-row', { hasText: 'pushed-1' }).getByText('paused').waitFor();
  // The newest first is an order of the server.
  await go(page, '#/u/default/worlds?sort=created');
  assert.equal(await page.locator('.world-row .world-cell a').first().innerText(), 'pushed-1');
  await server.create('pushed-2', 'counter');
  await page.locator('.world-row .world-cell a', { hasText: 'pushed-2' }).waitFor();
  await go(page, '#/u/default');
  const total = async () => Number((await page.locator('.card', { hasText: /worlds$/ }).locator('.card-value').innerText()).replaceAll(',', ''));
  await page.locator('.card').first().waitFor();
  const before = await total();
  await server.create('pushed-3', 'counter');
  await page.waitForFunction((wanted) => Number(document.querySelector('.card-value').textContent.replaceAll(',', '')) === wanted, before + 1);
  // Seven seconds in which nothing happens: the list of worlds is not asked for again.
  await go(page, '#/u/default/worlds');
  await page.locator('.world-row').nth(5).waitFor();
  await page.waitForTimeout(2_000);
  const asked = [];
  page.on('request', (request) => /\/worlds\?/.test(request.url()) && asked.push(request.url()));
  await page.waitForTimeout(7_000);
  assert.deepEqual(asked, []);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

describe('a server that comes back', () => {
  test('is found again by an open page, which goes on', async () => {
    const other = await new Server().start();
    try {
      await other.create('till', 'counter');
      await other.call('till', 'add', 1);
      const page = await open(browser, other, '#/u/default/worlds/till');
      await page.locator('.timeline .record.event').first().waitFor();
      await other.kill();
      await shown(page, 'Server not reachable');
      await page.locator('.timeline .record.event').first().waitFor(); // what was there stays
      await other.start();
      await shown(page, 'Connected');
      await other.call('till', 'add', 41);
      await page.locator('.cell', { hasText: '42' }).waitFor();
      // Requests that failed are errors to the browser's console; nothing else may be.
      assert.deepEqual(page.wrong.filter((it) => !it.includes('Failed to load resource')), []);
      await page.context().close();
    } finally {
      await other.end();
    }
  });
});

describe('tokens', () => {
  test('are asked for, kept out of the address, and decide what is shown', async () => {
    const reader = (await server.ask('POST', '/v1/tokens', { can: ['read'], label: 'reader' })).token;
    const admin = (await server.ask('POST', '/v1/tokens', { can: ['read', 'send', 'admin'], label: 'chief', universe: 'default' })).token;
    const guarded = new Server({ MUNDI_API__TOKENS_REQUIRED: 'true' });
    // The same folder, with tokens required: the first server is done with it for a while.
    await server.kill();
    guarded.folder = server.folder;
    await guarded.start();
    try {
      const page = await open(browser, guarded, '#/u/default/worlds/till');
      await shown(page, 'This server asks for a token');
      assert.deepEqual(await accessible(page), []);
      await page.getByLabel('Token').fill('mundi_0000000000000000_00');
      await page.getByRole('button', { name: 'Use this token' }).click();
      await shown(page, 'does not know this token');
      await page.getByLabel('Token').fill(reader);
      await page.getByRole('button', { name: 'Use this token' }).click();
      await page.locator('.timeline .record.event').first().waitFor();
      for (const name of ['Pause', 'Delete', 'Archive']) assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name);
      assert.equal(await page.getByRole('link', { name: /Fork after/ }).count(), 0);
      assert.equal(await page.getByRole('tab', { name: 'Send' }).count(), 0);
      assert.ok(!page.url().includes('mundi_'), page.url());
      await go(page, '#/u/default/settings');
      await page.getByLabel('Token').fill(admin);
      await page.getByRole('button', { name: 'Use this token' }).click();
      await shown(page, 'chief');
      await go(page, '#/u/default/worlds/till');
      await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
      const wrong = page.wrong.filter((it) => !it.includes('401'));
      assert.deepEqual(wrong, []);
      await page.context().close();
    } finally {
      await guarded.kill();
      await server.start();
    }
  });
});
