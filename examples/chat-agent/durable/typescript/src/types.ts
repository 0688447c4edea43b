// Made by `mundi program build` from mundi.json. Changes here are lost.

import type { Kinds } from "mundi-sdk";

/** Events that the program accepts. */
export interface Events {
  "ask": string;
}

/** Queries that the program answers. */
export interface Queries {
}

/** Effects that the program requests. */
export interface Effects {
  "http.request": { params: Kinds["http.request"]["params"]; receipt: Kinds["http.request"]["receipt"] };
  "llm.chat": { params: Kinds["llm.chat"]["params"]; receipt: Kinds["llm.chat"]["receipt"] };
}
