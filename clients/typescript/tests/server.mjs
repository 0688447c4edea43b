// A real server for the tests: `mundi dev` on a folder of its own, which can be killed and started again.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const target = process.env.CARGO_TARGET_DIR ?? join(import.meta.dirname, '../../../target');
export const binary = process.env.MUNDI_BIN ?? join(target, process.env.MUNDI_PROFILE ?? 'debug', 'mundi');

export class Server {
  constructor(environment = {}) {
    this.folder = mkdtempSync(join(tmpdir(), 'mundi-client-'));
    this.environment = environment;
    this.bind = '127.0.0.1:0';
  }

  async start() {
    const child = spawn(binary, ['dev', '--data', join(this.folder, 'data'), '--bind', this.bind], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...this.environment } });
    this.child = child;
    const said = [];
    this.url = await new Promise((found, failed) => {
      createInterface({ input: child.stderr }).on('line', (line) => {
        said.push(line);
        const address = /API at (\S+)/.exec(line)?.[1];
        if (address) found(address);
      });
      child.on('error', failed);
      child.on('exit', () => failed(new Error(`the server ended:\n${said.join('\n')}`)));
    });
    this.bind = new URL(this.url).host;
    return this;
  }

  /** The command line, on this server. */
  async mundi(...words) {
    return (await promisify(execFile)(binary, words, { env: { ...process.env, MUNDI_URL: this.url } })).stdout;
  }

  /** A program with the durable function `order`, under the name `shop`. */
  async uploadShop() {
    const folder = join(import.meta.dirname, '../../../examples/order-saga/durable/rust');
    await this.mundi('program', 'build', folder);
    await this.mundi('program', 'upload', folder, '--as', 'shop');
  }

  /** kill -9. */
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
}

/** Asks until the answer is as wanted; a minute without it is a failure. */
export async function until(ask, isWanted) {
  for (const began = Date.now(); ; ) {
    const found = await ask();
    if (isWanted(found)) return found;
    if (Date.now() - began > 60_000) throw new Error(`it did not become as wanted: ${JSON.stringify(found)}`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}
