// Finds the randomizer that the instructions of a document describe.

import { HeadcountError, refuse } from "../errors.js";
import { filledSet, filledTicks } from "./boxes.js";
import { hashed } from "./hashes.js";
import { fakeUsers, oneMore, oneOfEach, paths, signedBuckets, signs } from "./noisy.js";
import { bits, digits, hybrid, laplace, piecewise, rounding } from "./numbers.js";
import { hadamard, hashing, level, subset, unary } from "./oracles.js";
import type { Instructions, Randomizer } from "./randomizer.js";
import { blocks, disclosure, flip, response } from "./responses.js";
import { bucketShares, shares } from "./shares.js";

const KINDS: Readonly<Record<string, (from: Instructions) => Randomizer>> = {
  value: () => disclosure(1n << 62n),
  flip,
  response,
  blocks,
  unary,
  level,
  hadamard,
  hashing,
  subset,
  "filled-set": filledSet,
  "filled-ticks": filledTicks,
  "fake-users": fakeUsers,
  path: paths,
  signs,
  "signed-buckets": signedBuckets,
  "one-more": oneMore,
  "one-of-each": oneOfEach,
  rounding: (from) => rounding(from, randomizerOf),
  shares,
  "bucket-shares": bucketShares,
  hashed,
  bits,
  digits,
  windows: piecewise,
  hybrid,
  laplace,
};

/** The randomizer for these instructions, which are checked. */
export function randomizerOf(from: Instructions): Randomizer {
  const kind = from["kind"];
  if (typeof kind !== "string" || !Object.hasOwn(KINDS, kind)) {
    throw new HeadcountError("unsupported", `this client cannot run ${JSON.stringify(kind)}`);
  }
  try {
    return KINDS[kind]!(from);
  } catch (error) {
    if (error instanceof RangeError) return refuse(`must have valid instructions: ${error.message}`);
    throw error;
  }
}

export type { Blocks, Instructions, Meaning, Message, Randomizer, Value } from "./randomizer.js";
