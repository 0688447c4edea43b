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

/** What the program takes in. */
export interface Events {
  "chain": Chain;
  "hand": Hand;
}

/** What it answers. */
export interface Queries {
}

/** What it asks for. */
export interface Effects {
  "work": { params: Work; receipt: WorkReceipt };
}
