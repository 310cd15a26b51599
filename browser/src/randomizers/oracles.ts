// Frequency oracles: reports that support some of the buckets.

import { refuse } from "../errors.js";
import { bernoulli, bitLength, coin, packedBernoulli, uniform, WHOLE, words, type Source } from "../random.js";
import { lieWeight, respond } from "./responses.js";
import {
  large,
  loss,
  reportOf,
  sizeOf,
  whole,
  type Instructions,
  type Meaning,
  type Message,
  type Randomizer,
} from "./randomizer.js";
import { treeOf } from "./tree.js";

const MOST = 2 ** 16; // the largest number of buckets

export const rowBytes = (bits: number) => Math.ceil(bits / 8);

/** Sets the bits after the last one to 0. */
function cleared(row: Uint8Array, bits: number): Uint8Array {
  if (bits % 8) row[row.length - 1]! &= (1 << bits % 8) - 1;
  return row;
}

export function put(row: Uint8Array, place: number, bit: boolean): void {
  const mask = 1 << (place & 7);
  row[place >> 3] = bit ? row[place >> 3]! | mask : row[place >> 3]! & ~mask;
}

const has = (row: Uint8Array, place: number) => ((row[place >> 3]! >> (place & 7)) & 1) === 1;

function ones(row: Uint8Array): number {
  return row.reduce((sum, byte) => sum + bitCount(byte), 0);
}

function bitCount(number: number): number {
  let count = 0;
  for (let left = number; left; left = Math.floor(left / 2)) count += left % 2;
  return count;
}

/** The buckets that a row of bits names. */
export function membersOf(message: Message, buckets: number): Meaning & { kind: "set" } {
  const row = Uint8Array.from(message as number[]);
  const values = Array.from({ length: buckets }, (_, bucket) => bucket).filter((one) => has(row, one));
  return { kind: "set", values };
}

/** The privacy loss if the bit of the own bucket is 1 with probability own/2^64, and any other bit with
 * probability other/2^64. */
function unaryLoss(own: bigint, other: bigint): number {
  const ratio = (over: bigint, under: bigint) => loss(over - under, under);
  return (
    Math.max(ratio(own, other), 0) + Math.max(ratio(WHOLE - other, WHOLE - own), 0)
  );
}

/** Sends a bit for every bucket. */
export function unary(from: Instructions): Randomizer {
  const buckets = whole(from, "buckets", 2, MOST);
  const own = large(from, "own", WHOLE);
  const other = large(from, "other", own);
  return {
    columns: rowBytes(buckets),
    localEpsilon: unaryLoss(own, other),
    domain: BigInt(buckets),
    send(value, source) {
      const row = packedBernoulli(source, rowBytes(buckets), other);
      put(row, Number(value), coin(source, own));
      return [[...cleared(row, buckets)]];
    },
    meaning: (message) => membersOf(message, buckets),
  };
}

/** Sends a random level of a tree, and a bit for each of its nodes. */
export function level(from: Instructions): Randomizer {
  const tree = treeOf(from);
  const own = large(from, "own", WHOLE);
  const other = large(from, "other", own);
  const width = rowBytes(tree.cells);
  return {
    columns: 1 + width,
    localEpsilon: unaryLoss(own, other),
    domain: BigInt(tree.cells),
    send(value, source) {
      const drawn = uniform(source, tree.sizes.length, 1);
      const size = tree.sizes[drawn]!;
      const row = cleared(packedBernoulli(source, rowBytes(size), other), size);
      put(row, Math.floor(Number(value) / (tree.cells / size)), coin(source, own));
      const message = new Array<number>(1 + width).fill(0);
      message[0] = drawn;
      row.forEach((byte, at) => (message[1 + at] = byte));
      return [message];
    },
    meaning([drawn, ...row]) {
      const size = tree.sizes[Number(drawn)]!;
      const nodes = membersOf(row, size).values;
      const each = tree.cells / size;
      return { kind: "ranges", ranges: nodes.map((node) => [node * each, (node + 1) * each - 1] as const) };
    },
  };
}

/** Sends a random coefficient, and a parity of the bucket's bits. */
export function hadamard(from: Instructions): Randomizer {
  const logSize = whole(from, "log_size", 1, 16);
  const weight = large(from, "weight", WHOLE / 2n);
  const every = 2 * 2 ** logSize - 2; // messages 2, …, 2·2^m − 1
  const size = sizeOf(every + 1);
  return {
    columns: 1,
    localEpsilon: loss(WHOLE - 2n * weight, weight),
    domain: 1n << BigInt(logSize),
    send(value, source) {
      const report = uniform(source, every, size) + 2;
      const parity = bitCount((report >>> 1) & Number(value)) % 2;
      const bit = parity ^ Number(coin(source, weight));
      return [[report - (report % 2) + bit]];
    },
    meaning: reportOf,
  };
}

/** Sends a random hash, and the bucket's hash by randomized response. */
export function hashing(from: Instructions): Randomizer {
  const buckets = whole(from, "buckets", 2, MOST);
  const values = whole(from, "values", 2, MOST);
  const bits = whole(from, "bits", 1, 20);
  const guards = whole(from, "guards", 1, 2);
  const weight = lieWeight(from, values);
  const logSize = bitLength(buckets - 1);
  const every = 2 * 2 ** logSize;
  const size = sizeOf(Math.max(every, values) - 1);
  if (guards > bits) refuse("must have at most as many guards as bits");
  return {
    columns: bits + 1,
    localEpsilon: loss(WHOLE - BigInt(values) * weight, weight),
    domain: BigInt(buckets),
    send(value, source) {
      const rows = words(source, bits, size).map((one) =>
        Number(one >> BigInt(8 * size - 1 - logSize)),
      );
      for (let place = bits - guards; place < bits; place++) {
        rows[place] = uniform(source, every - 2, size) + 2;
      }
      const hashed = hashOf(rows, Number(value), values, guards);
      return [[...rows, respond(hashed, values, weight, source)]];
    },
    meaning: reportOf,
  };
}

/** The hash of a bucket. Row i gives bit i of a number v, and v chooses one of equal intervals. */
function hashOf(rows: readonly number[], bucket: number, values: number, guards: number): number {
  let linear = 0;
  rows.forEach((row, place) => {
    linear += (bitCount(row & (2 * bucket + 1)) % 2) * 2 ** place;
  });
  if (guards === 2) linear ^= (linear >>> (rows.length - 1)) << (rows.length - 2);
  return Math.floor((linear * values) / 2 ** rows.length);
}

/** Sends a random set of buckets that contains the owner's, except with probability weight/2^64. */
export function subset(from: Instructions): Randomizer {
  const buckets = whole(from, "buckets", 2, MOST);
  const size = whole(from, "size", 1, buckets - 1);
  const weight = large(from, "weight", WHOLE);
  const listed = from["first"] === null;
  const first = listed ? 0n : large(from, "first", WHOLE);
  const rows = listed ? 0 : whole(from, "rows", 1, 10_000);
  if (listed && buckets > 24) refuse("must say which rows of bits are drawn first");
  const draw = (value: number, source: Source) => {
    const lie = bernoulli(source, 1, weight)[0]!;
    const width = rowBytes(buckets);
    if (listed) return listedSet(value, lie, buckets, size, source);
    let row: Uint8Array | undefined;
    while (!row) {
      const drawn = packedBernoulli(source, rows * width, first);
      for (let at = 0; at < rows && !row; at++) {
        const one = cleared(drawn.slice(at * width, (at + 1) * width), buckets);
        if (ones(one) < size) row = one;
      }
    }
    put(row, value, true);
    for (let missing = lie + size - ones(row); missing; ) {
      const added = uniform(source, buckets, sizeOf(buckets - 1));
      if (!has(row, added)) missing--;
      put(row, added, true);
    }
    put(row, value, !lie);
    return row;
  };
  // The chances of a set for its members and for others. Either may be the larger one.
  const inside = (WHOLE - weight) * BigInt(buckets - size);
  const outside = weight * BigInt(size);
  return {
    columns: rowBytes(buckets),
    localEpsilon: Math.max(loss(inside - outside, outside), loss(outside - inside, inside)),
    domain: BigInt(buckets),
    send: (value, source) => [[...draw(Number(value), source)]],
    meaning: (message) => membersOf(message, buckets),
  };
}

/** A set of few buckets, from a list of all sets of the other buckets. */
function listedSet(value: number, lie: number, buckets: number, size: number, source: Source): Uint8Array {
  const sets = everySet(buckets - 1, size - 1 + lie);
  const drawn = sets[uniform(source, sets.length, 4)]!;
  const row = new Uint8Array(rowBytes(buckets));
  for (const member of drawn) put(row, member + Number(member >= value), true);
  put(row, value, !lie);
  return row;
}

const known = new Map<string, number[][]>();

/** All sets of this size, in the order of their members. */
function everySet(buckets: number, size: number): number[][] {
  const key = `${buckets} ${size}`;
  const found = known.get(key);
  if (found) return found;
  const sets: number[][] = [];
  const extend = (members: number[], next: number) => {
    if (members.length === size) sets.push(members);
    else for (let one = next; one <= buckets - size + members.length; one++) extend([...members, one], one + 1);
  };
  extend([], 0);
  known.set(key, sets);
  return sets;
}
