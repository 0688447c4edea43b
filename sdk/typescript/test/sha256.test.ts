/** The hash beside that of node. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { sha256 } from "../src/sha256.ts";

test("hashes of every length around a block are those of node", () => {
  for (const length of [0, 1, 3, 54, 55, 56, 57, 63, 64, 65, 119, 120, 1_000]) {
    const data = Uint8Array.from({ length }, (_, at) => (at * 37 + length) & 255);
    assert.deepEqual([...sha256(data, 32)], [...createHash("sha256").update(data).digest()], String(length));
  }
});
