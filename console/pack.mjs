// Packs `dist/` into the archive that the server embeds, or, with `--check`, compares the two.
//
// The archive is tar with every member compressed by gzip: sorted names, no owner, fixed times. What is compared is the content, because
// two versions of zlib may compress it differently.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';

const here = import.meta.dirname;
const dist = join(here, 'dist');
const archive = join(here, '../crates/server/console.tar');
const BLOCK = 512;

function filesBelow(folder) {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.flatMap((entry) => (entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)]));
}

function built() {
  const files = filesBelow(dist).map((path) => [relative(dist, path), readFileSync(path)]);
  return files.sort(([a], [b]) => (a < b ? -1 : 1));
}

function member(name, content) {
  const header = Buffer.alloc(BLOCK);
  const octal = (value, at, length) => header.write(value.toString(8).padStart(length - 1, '0'), at);
  header.write(name, 0, 100);
  octal(0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(content.length, 124, 12);
  octal(0, 136, 12);
  header.write('        0', 148);
  header.write('ustar\u000000', 257);
  octal([...header].reduce((sum, byte) => sum + byte, 0), 148, 7);
  const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK);
  return Buffer.concat([header, content, padding]);
}

function pack(files) {
  const compress = (content) => {
    const bytes = gzipSync(content, { level: 9 });
    bytes[9] = 255; // the operating system, which is none of the reader's business
    return bytes;
  };
  const members = files.map(([name, content]) => member(`${name}.gz`, compress(content)));
  return Buffer.concat([...members, Buffer.alloc(2 * BLOCK)]);
}

function unpack(bytes) {
  const files = [];
  for (let at = 0; bytes[at]; ) {
    const text = (from, length) => bytes.toString('latin1', at + from, at + from + length).replace(/\0.*$/, '');
    const size = parseInt(text(124, 12), 8);
    files.push([text(0, 100).replace(/\.gz$/, ''), gunzipSync(bytes.subarray(at + BLOCK, at + BLOCK + size))]);
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}

const files = built();
if (process.argv.includes('--check')) {
  const committed = unpack(readFileSync(archive));
  const same = committed.length === files.length && files.every(([name, content], index) => committed[index][0] === name && committed[index][1].equals(content));
  if (!same) {
    console.error('crates/server/console.tar is not what console/ builds: run `cargo xtask console` and commit the archive');
    process.exit(1);
  }
} else {
  const bytes = pack(files);
  writeFileSync(archive, bytes);
  const sum = files.reduce((total, [, content]) => total + content.length, 0);
  console.log(`crates/server/console.tar: ${bytes.length} bytes (${sum} unpacked)`);
}
