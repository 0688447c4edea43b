// Made by `mundi program build` from mundi.json. Changes here are lost.

export interface Chain {
  "n": number;
}

export interface Hand {
  "n": number;
}

export interface Work {
  "note": string;
  "step": number;
}

export interface WorkReceipt {
  "by": string;
  "worth": number;
}

/** Events that the program accepts. */
export interface Events {
  "chain": Chain;
  "hand": Hand;
}

/** Queries that the program answers. */
export interface Queries {
}

/** Effects that the program requests. */
export interface Effects {
  "work": { params: Work; receipt: WorkReceipt };
}
