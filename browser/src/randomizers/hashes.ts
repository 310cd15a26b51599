// Public hashes that are derived from seeds, as headcount.protocols.seeds derives them.

import { refuse } from "../errors.js";
import { fraction, toNumber } from "../fractions.js";
import { once, poisson } from "../noise.js";
import { word, words } from "../random.js";
import { fitting, reportOf, whole, type Instructions, type Randomizer } from "./randomizer.js";

const ROUNDS = 8;
const CONSTANTS = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]; // "expand 32-byte k"
// The places of the words that a quarter of a round mixes: four columns, then four diagonals.
const COLUMNS = [0, 1, 2, 3].map((at) => [at, 4 + at, 8 + at, 12 + at]);
const DIAGONALS = [0, 1, 2, 3].map((at) => [at, 4 + ((at + 1) % 4), 8 + ((at + 2) % 4), 12 + ((at + 3) % 4)]);
const ODD = [0xbf58476d1ce4e5b9n, 0x94d049bb133111ebn];

/** The words u and v of a seed: the first 128 bits of a block of ChaCha with 8 rounds. */
function wordsOf(seed: bigint): [bigint, bigint] {
  const start = new Uint32Array(16);
  start.set(CONSTANTS);
  start.set([Number(BigInt.asUintN(32, seed)), Number(seed >> 32n)], 4);
  const state = start.slice();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [a, b, c, d] of round % 2 ? DIAGONALS : COLUMNS) {
      for (const [one, other, left, by] of [[a, b, d, 16], [c, d, b, 12], [a, b, d, 8], [c, d, b, 7]]) {
        state[one!]! += state[other!]!;
        const mixed = state[left!]! ^ state[one!]!;
        state[left!] = (mixed << by!) | (mixed >>> (32 - by!));
      }
    }
  }
  const block = (at: number) => BigInt((state[at]! + start[at]!) >>> 0);
  return [block(0) | (block(1) << 32n), block(2) | (block(3) << 32n)];
}

/** A fixed bijection of the numbers with this number of bits. */
function spread(number: bigint, bits: number): bigint {
  const half = BigInt(bits >> 1);
  const mixed = ODD.reduce((out, odd) => BigInt.asUintN(bits, (out ^ (out >> half)) * odd), number);
  return mixed ^ (mixed >> half);
}

/** Sends a random seed with the cell of the bucket under its hash, and a Poisson number of messages
 * with random seeds and cells. */
export function hashed(from: Instructions): Randomizer {
  const logCells = whole(from, "log_cells", 1, 25);
  const mean = fraction(String(from["mean"]));
  if (mean.over < 0n || toNumber(mean) > 20_000) refuse("must have fewer noise messages");
  const number = once(() => poisson(mean));
  const cellOf = (hash: bigint) => BigInt.asUintN(64, hash) >> BigInt(64 - logCells);
  return {
    columns: 2,
    localEpsilon: Infinity,
    domain: 1n << BigInt(65 - logCells),
    send(value, source, slots) {
      const key = spread(BigInt(value), 65 - logCells);
      return fitting(slots, 0, () => {
        const seed = word(source);
        const [u, v] = wordsOf(seed);
        const drawn = words(source, 2 * number().sample(source));
        const dummies = drawn.flatMap((one, at) => (at % 2 ? [] : [[one, cellOf(drawn[at + 1]!)]]));
        return [[seed, cellOf(u * key + v)], ...dummies];
      });
    },
    meaning: reportOf,
  };
}
