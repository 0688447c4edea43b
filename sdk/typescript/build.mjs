// Makes a component of a program: `node build.mjs`, in a folder with entry.ts, mundi-sdk, wit and node_modules. `mundi program
// build` makes such a folder and runs it.
import { componentize } from "@bytecodealliance/componentize-js";
import * as esbuild from "esbuild";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

const workshop = import.meta.dirname;

await esbuild.build({
  entryPoints: [join(workshop, "entry.ts")],
  outfile: join(workshop, "bundle.js"),
  bundle: true,
  format: "esm",
  platform: "neutral",
  target: "es2022",
  // Durable functions run on promises of the SDK (src/jobs.ts): `async` becomes generators over them.
  supported: { "async-await": false, "async-generator": false, "for-await": false },
  external: ["mundi:*"],
  alias: {
    "mundi-sdk/component": join(workshop, "mundi-sdk/src/component.ts"),
    "mundi-sdk": join(workshop, "mundi-sdk/src/index.ts"),
  },
  logLevel: "error",
});
const { component } = await componentize({
  sourcePath: join(workshop, "bundle.js"),
  witPath: join(workshop, "wit"),
  worldName: "program",
  // Nothing ambient: what is disabled here is not even imported.
  disableFeatures: ["stdio", "random", "clocks", "http", "fetch-event"],
});
await writeFile(join(workshop, "program.wasm"), component);
