// Makes a component of a program: `node build.mjs`, in a folder with entry.ts, mundi-sdk, wit and node_modules. `mundi program
// build` makes such a folder and runs it.
import { componentize } from "@bytecodealliance/componentize-js";
import * as esbuild from "esbuild";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

const workshop = import.meta.dirname;

const { outputFiles } = await esbuild.build({
  entryPoints: [join(workshop, "entry.ts")],
  outfile: join(workshop, "bundle.js"),
  bundle: true,
  format: "esm",
  platform: "neutral",
  target: "es2022",
  write: false,
  // Constants of the SDK become the numbers that they are.
  minifySyntax: true,
  // Durable functions run on promises of the SDK (src/jobs.ts): `async` becomes generators over them.
  supported: { "async-await": false, "async-generator": false, "for-await": false },
  external: ["mundi:*"],
  alias: {
    "mundi-sdk/component": join(workshop, "mundi-sdk/src/component.ts"),
    "mundi-sdk": join(workshop, "mundi-sdk/src/index.ts"),
  },
  logLevel: "error",
});
// The helper that esbuild makes `async` functions with gives way to the one of src/jobs.ts, which needs no promise for an await that has ended.
const HELPER = /^var __async = [^]*?^\}.*$/m;
const bundle = outputFiles[0].text;
const own = bundle.replace(HELPER, "var __async = (self, given, code) => globalThis.mundiAsync(self, given, code);");
if (own === bundle && bundle.includes("__async(")) throw new Error("esbuild has another helper for async functions: build.mjs does not know it");
await writeFile(join(workshop, "bundle.js"), own);
const { component } = await componentize({
  sourcePath: join(workshop, "bundle.js"),
  witPath: join(workshop, "wit"),
  worldName: "program",
  // Nothing ambient: what is disabled here is not even imported.
  disableFeatures: ["stdio", "random", "clocks", "http", "fetch-event"],
});
await writeFile(join(workshop, "program.wasm"), component);
