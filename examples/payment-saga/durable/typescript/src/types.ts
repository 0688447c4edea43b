// Made by `mundi program build` from mundi.json. Changes here are lost.

import type { Kinds } from "mundi-sdk";

export interface Begin {
  "confirm_within_ms": number;
  "order": string;
  "shop": string;
}

/** Events that the program accepts. */
export interface Events {
  "begin": Begin;
  "confirm": unknown;
  "outcome": unknown;
}

/** Queries that the program answers. */
export interface Queries {
}

/** Effects that the program requests. */
export interface Effects {
  "http.request": { params: Kinds["http.request"]["params"]; receipt: Kinds["http.request"]["receipt"] };
}
