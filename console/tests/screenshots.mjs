// Pictures of the main screens, light and dark, for the README and the guide: `cargo xtask console-screenshots`.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fill } from './data.mjs';
import { launch, open, Server } from './harness.mjs';

const folder = process.argv[2] ?? join(import.meta.dirname, '../../docs/guides/console');
mkdirSync(folder, { recursive: true });

const SCREENS = [
  ['home', '#/u/default', 'What needs a person'],
  ['worlds', '#/u/default/worlds?sort=active', 'order-1042'],
  ['world', '#/u/default/worlds/order-1042?at=10', 'refused'],
  ['fork', '#/u/default/worlds/till/fork?at=7&event=7', 'Nothing ever leaves the fork'],
  ['functions', '#/u/default/worlds/lamps?tab=functions&instance=order/1042', 'Input'],
  ['children', '#/u/default/worlds/research?tab=children', 'delivery times'],
  ['pools', '#/u/default/pools/gpus', 'gpu-2'],
  ['fleet', '#/u/default/fleet', 'embedded, answers'],
  ['compare', '#/u/default/compare?left=till&right=till-what-if&from=10', 'first difference'],
];
const wanted = process.argv.slice(3);

const [server, browser] = await Promise.all([new Server().start(), launch()]);
try {
  await fill(server);
  for (const theme of ['light', 'dark']) {
    const page = await open(browser, server, '', { colorScheme: theme, viewport: { width: 1200, height: 740 } });
    for (const [name, hash, text] of SCREENS.filter(([it]) => wanted.length === 0 || wanted.includes(it))) {
      // Home is long: its charts belong to what one sees first.
      await page.setViewportSize({ width: 1200, height: name === 'home' ? 960 : 740 });
      await page.evaluate((to) => (location.hash = to), hash);
      await page.getByText(text, { exact: false }).filter({ visible: true }).first().waitFor();
      if (name === 'home') {
        // Six samples of a chart, with more and less in each.
        for (const [began, calls] = [Date.now(), { made: 0 }]; Date.now() - began < 32_000; calls.made += 1) {
          await server.call('till', 'add', calls.made % 7);
          await page.waitForTimeout(40 + 120 * (Math.floor((Date.now() - began) / 5_000) % 3));
        }
      } else {
        await page.waitForTimeout(600);
      }
      await page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
    }
    await page.context().close();
  }
} finally {
  await browser.close();
  await server.end();
}
