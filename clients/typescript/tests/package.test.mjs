// What `npm pack` publishes: it installs into an empty folder, and needs nothing else.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');

test('the package is packed, installs without dependencies, and is imported', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mundi-pack-'));
  try {
    const run = (program, given, cwd = folder) => execFileSync(program, given, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    const [packed] = JSON.parse(run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], root));
    const files = packed.files.map((file) => file.path);
    assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts') && files.includes('README.md'), files.join());
    assert.ok(!files.some((file) => /test|\.ts$/.test(file) && !file.endsWith('.d.ts')), files.join());
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--silent', `./${packed.filename}`]);
    assert.deepEqual(readdirSync(join(folder, 'node_modules')).filter((it) => !it.startsWith('.')), ['mundi-client']);
    const seen = run('node', ['--input-type=module', '--eval', "import { Mundi } from 'mundi-client'; console.log(typeof new Mundi().world('a').call)"]);
    assert.equal(seen.trim(), 'function');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('nothing in it is of node alone', () => {
  for (const file of readdirSync(join(root, 'dist')).filter((it) => it.endsWith('.js'))) {
    const source = readFileSync(join(root, 'dist', file), 'utf8');
    assert.doesNotMatch(source, /from ['"](?!\.\/)|\brequire\(|\bprocess\.|\bBuffer\b/, file);
  }
});
