import { defineConfig } from 'vite';

// `MUNDI_URL` is a server to ask while one works on the page with `npm run dev`.
export default defineConfig({
  base: '/console/',
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: false, reportCompressedSize: false, sourcemap: false },
  server: { proxy: Object.fromEntries(['/v1', '/metrics', '/readyz'].map((path) => [path, process.env.MUNDI_URL ?? 'http://127.0.0.1:7600'])) },
});
