/** The history of a recorded world as a unit test. */

import { spawnSync } from "node:child_process";

export interface ReplayOptions {
  /** The folder of a project, which is built first, or a component. The working directory if absent. */
  program?: string;
  /**
   * Only what an upgrade at the end of the bundle would compare: running instances of durable functions by what is on record of them, also where
   * `ctx.version` has another way for new ones, and the outputs of steps that are of no function.
   */
  openWork?: boolean;
}

/**
 * Replays a bundle, which `mundi world export` writes, with the program of this project: each recorded input must lead to the same cells, effects and
 * replies, and each running instance of a durable function must be able to go on. The error says where it does not. Needs `mundi` on the path.
 */
export function replayBundle(bundle: string, { program = ".", openWork = false }: ReplayOptions = {}): void {
  const given = ["world", "replay", "--program", program, "--bundle", bundle, ...(openWork ? ["--open-work"] : [])];
  const { status, stdout, stderr, error } = spawnSync("mundi", given, { encoding: "utf8" });
  if (error) throw new Error(`\`mundi\` does not run: ${error.message}`);
  if (status !== 0) throw new Error(`${bundle}: ${stdout}${stderr}`);
}
