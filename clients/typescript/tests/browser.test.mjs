// The package as it is, in a real browser: a page imports it and works on a real server of the same origin.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Server } from './server.mjs';

const known = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const chromium = known.find((path) => path && existsSync(path));

const PAGE = `<!doctype html><script type="module">
  import { Mundi, MundiError } from '/dist/index.js';
  const tell = (told) => fetch('/told', { method: 'POST', body: JSON.stringify(told) });
  try {
    const mundi = new Mundi({ url: location.origin });
    const world = await mundi.create('in-a-page', { program: 'counter' });
    const count = await world.call('add', 5);
    const heights = [];
    for await (const record of world.journal({ follow: true })) {
      heights.push(record.height);
      if (heights.length === 2) break;
    }
    const bundle = await world.exportBytes();
    const imported = await mundi.import(new Blob([bundle]), { world: 'again' });
    const error = await mundi.world('nobody').get().catch((error) => error);
    await tell({ count, heights, arrived: imported.arrived_at > 0, code: error instanceof MundiError && error.code });
  } catch (error) {
    await tell({ failed: String(error.stack ?? error) });
  }
</script>`;

/** The page, the package and the API behind one origin; what the page tells. */
function origin(server, told) {
  return createServer((asked, answer) => {
    if (asked.url === '/told') {
      let body = '';
      asked.on('data', (piece) => (body += piece)).on('end', () => told(JSON.parse(body)));
      return answer.end();
    }
    if (asked.url === '/') return answer.setHeader('content-type', 'text/html').end(PAGE);
    if (asked.url.startsWith('/dist/')) {
      return answer.setHeader('content-type', 'text/javascript').end(readFileSync(join(import.meta.dirname, '..', asked.url)));
    }
    const passed = request(`${server.url}${asked.url}`, { method: asked.method, headers: asked.headers }, (from) => {
      answer.writeHead(from.statusCode, from.headers);
      from.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
}

test('the client works in a page', { skip: chromium ? false : 'there is no Chromium' }, async () => {
  const server = await new Server().start();
  const folder = mkdtempSync(join(tmpdir(), 'mundi-page-'));
  let pages, browser;
  try {
    const told = await new Promise((found, failed) => {
      pages = origin(server, found).listen(0, '127.0.0.1', () => {
        const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', `--user-data-dir=${folder}`];
        browser = spawn(chromium, [...flags, `http://127.0.0.1:${pages.address().port}/`], { stdio: 'ignore' });
        browser.on('error', failed);
      });
      setTimeout(() => failed(new Error('the page told nothing within a minute')), 60_000).unref();
    });
    assert.deepEqual(told, { count: 5, heights: [0, 1], arrived: true, code: 'WORLD_NOT_FOUND' });
  } finally {
    const gone = browser && new Promise((gone) => browser.once('exit', gone));
    browser?.kill('SIGKILL');
    await gone;
    pages?.closeAllConnections();
    pages?.close();
    await server.end();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
});
