// A real server, real data and a real browser for tests and screenshots.
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const here = import.meta.dirname;
const target = process.env.CARGO_TARGET_DIR ?? join(here, '../../target');
const binary = process.env.MUNDI_BIN ?? join(target, process.env.MUNDI_PROFILE ?? 'debug', 'mundi');

const WAIT_MS = 60_000;

/** `mundi dev` on a folder of its own. Killed, it can be started again on the same folder and address. */
export class Server {
  constructor(environment = {}) {
    this.folder = mkdtempSync(join(tmpdir(), 'mundi-console-'));
    this.environment = environment;
    this.bind = '127.0.0.1:0';
  }

  async start() {
    this.child = spawn(binary, ['dev', '--data', join(this.folder, 'data'), '--bind', this.bind], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...this.environment } });
    const lines = createInterface({ input: this.child.stderr });
    const said = [];
    this.url = await new Promise((found, failed) => {
      lines.on('line', (line) => {
        said.push(line);
        const address = /API at (\S+)/.exec(line)?.[1];
        if (address) found(address);
      });
      this.child.on('error', failed);
      this.child.on('exit', () => failed(new Error(`the server ended:\n${said.join('\n')}`)));
    });
    this.bind = new URL(this.url).host;
    return this;
  }

  /** Many worlds and a long journal in its folder, before it is started: by the API they would take longer than what is tested. */
  async fill({ worlds, records }) {
    const words = ['bench', 'fill', '--data', join(this.folder, 'data'), '--worlds', String(worlds), '--records', String(records)];
    await promisify(execFile)(binary, words, { env: { ...process.env, ...this.environment } });
    return this;
  }

  kill() {
    return new Promise((gone) => {
      this.child.once('exit', gone);
      this.child.kill('SIGKILL');
    });
  }

  async end() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** What the API answers; refusals are errors. */
  async ask(method, path, body, headers = {}) {
    const response = await fetch(`${this.url}${path}`, { method, headers: { 'content-type': 'application/json', ...headers }, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  of(path) {
    return `/v1/u/default${path}`;
  }

  create(world, program) {
    return this.ask('POST', this.of('/worlds'), { world, program });
  }

  call(world, event, value = null) {
    return this.ask('POST', this.of(`/worlds/${world}/call/${event}`), value);
  }

  send(world, event, value = null, query = '') {
    return this.ask('POST', this.of(`/worlds/${world}/send/${event}${query}`), value);
  }

  /** The command line, on this server. */
  async mundi(...words) {
    return (await promisify(execFile)(binary, words, { env: { ...process.env, MUNDI_URL: this.url } })).stdout;
  }

  /** Claims one task for a worker outside: of effects, or of children. */
  async claim(kind, of = 'tasks') {
    for (;;) {
      const tasks = await this.ask('POST', this.of(`/${of}/claim`), { kinds: [kind], limit: 1, wait: '10s', ttl: '1h' });
      if (tasks.length > 0) return tasks[0];
    }
  }

  /** An active lease of a pool. */
  async lease(pool, resource, holder) {
    const { lease_id, lease_epoch } = await this.ask('POST', this.of(`/pools/${pool}/reserve`), { resources: [resource], holder, ttl_slots: 3_600 });
    await this.ask('POST', this.of(`/pools/${pool}/activate`), { lease_id, lease_epoch, holder });
    return lease_id;
  }

  /** Asks until the answer is as wanted; a minute without it is a failure, however slow the machine is. */
  async until(path, isWanted) {
    for (const began = Date.now(); ; ) {
      const found = await this.ask('GET', this.of(path));
      if (isWanted(found)) return found;
      if (Date.now() - began > WAIT_MS) throw new Error(`${path} did not become as wanted: ${JSON.stringify(found)}`);
      await new Promise((wake) => setTimeout(wake, 100));
    }
  }
}

function browserPath() {
  const known = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  const found = [process.env.CHROMIUM, ...known].find((path) => path && existsSync(path));
  if (!found) throw new Error('there is no Chromium: `cargo xtask services` installs it, or set CHROMIUM');
  return found;
}

export function launch() {
  return chromium.launch({ executablePath: browserPath(), args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** A page of the console that notes what must not happen: errors, and requests to other hosts. */
export async function open(browser, server, hash = '', options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  // A page that is worked on: `dist` in place of what the server has built in.
  if (process.env.MUNDI_CONSOLE_DIST) {
    await context.route(`${server.url}/**`, async (route) => {
      const { pathname } = new URL(route.request().url());
      const name = pathname === '/' || pathname === '/console' ? 'index.html' : pathname.startsWith('/console/') ? pathname.slice('/console/'.length) : undefined;
      if (name === undefined) return route.fallback();
      const headers = { 'content-security-policy': "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:" };
      return route.fulfill({ body: readFileSync(join(here, '../dist', name)), contentType: TYPES[extname(name)], headers });
    });
  }
  const page = await context.newPage();
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(`error in the page: ${error.message}`));
  page.on('console', (message) => message.type() === 'error' && page.wrong.push(`console: ${message.text()}`));
  page.on('request', (request) => {
    const { host, protocol } = new URL(request.url());
    if (protocol.startsWith('http') && host !== new URL(server.url).host) page.wrong.push(`a request to ${host}`);
  });
  await page.goto(`${server.url}/${hash}`);
  return page;
}

/** Goes to another place of the same page. */
export async function go(page, hash) {
  await page.evaluate((wanted) => (location.hash = wanted), hash);
}
