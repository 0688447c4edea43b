// Made by `mundi program build` from mundi.json. Changes here are lost.

import type { Kinds } from "mundi-sdk";

export interface Ask {
  "ask"?: string;
  "kind": string;
  "manifest"?: string;
  "to"?: string;
  "url"?: string;
}

/** Events that the program accepts. */
export interface Events {
  "ask": Ask;
  "note": string;
}

/** Queries that the program answers. */
export interface Queries {
  "note": unknown;
}

/** Effects that the program requests. */
export interface Effects {
  "blob.get": { params: Kinds["blob.get"]["params"]; receipt: Kinds["blob.get"]["receipt"] };
  "blob.put": { params: Kinds["blob.put"]["params"]; receipt: Kinds["blob.put"]["receipt"] };
  "fabric.send": { params: Kinds["fabric.send"]["params"]; receipt: Kinds["fabric.send"]["receipt"] };
  "http.request": { params: Kinds["http.request"]["params"]; receipt: Kinds["http.request"]["receipt"] };
  "llm.chat": { params: Kinds["llm.chat"]["params"]; receipt: Kinds["llm.chat"]["receipt"] };
  "process.run": { params: Kinds["process.run"]["params"]; receipt: Kinds["process.run"]["receipt"] };
  "world.call": { params: Kinds["world.call"]["params"]; receipt: Kinds["world.call"]["receipt"] };
  "world.fork": { params: Kinds["world.fork"]["params"]; receipt: Kinds["world.fork"]["receipt"] };
  "world.spawn": { params: Kinds["world.spawn"]["params"]; receipt: Kinds["world.spawn"]["receipt"] };
}
