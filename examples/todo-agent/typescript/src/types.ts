// Made by `mundi program build` from mundi.json. Changes here are lost.

import type { Kinds } from "mundi-sdk";

export interface Add {
  "id": string;
  "text": string;
}

export interface Notice {
  "id": string;
  "what": "planned" | "reminded";
}

export interface Setup {
  "notify": string;
  "remind_ms": number;
  "service": string;
}

/** Events that the program accepts. */
export interface Events {
  "add": Add;
  "notice": Notice;
  "setup": Setup;
}

/** Queries that the program answers. */
export interface Queries {
  "notices": unknown;
  "todos": unknown;
  "version": unknown;
}

/** Effects that the program requests. */
export interface Effects {
  "fabric.send": { params: Kinds["fabric.send"]["params"]; receipt: Kinds["fabric.send"]["receipt"] };
  "http.request": { params: Kinds["http.request"]["params"]; receipt: Kinds["http.request"]["receipt"] };
}
