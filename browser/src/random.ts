// Exact draws from random bytes. Every function takes its bytes in the order in which
// headcount.randomness takes them, so that the same bytes give the same results.

import { littleEndian } from "./bytes.js";

/** A stream of random bytes. */
export interface Source {
  fill(buffer: Uint8Array): void;
}

/** The cryptographically secure bytes of the browser. */
export class SecureSource implements Source {
  fill(buffer: Uint8Array): void {
    // The browser gives at most 65,536 bytes at a time.
    for (let at = 0; at < buffer.length; at += 65536) {
      crypto.getRandomValues(buffer.subarray(at, at + 65536) as Uint8Array<ArrayBuffer>);
    }
  }
}

/** Takes many bytes of another source at a time, which is faster. */
export class BufferedSource implements Source {
  private buffer = new Uint8Array(0);
  private at = 0;

  constructor(private readonly source: Source) {}

  fill(out: Uint8Array): void {
    if (this.at + out.length > this.buffer.length) {
      this.buffer = new Uint8Array(Math.max(65536, out.length));
      this.source.fill(this.buffer);
      this.at = 0;
    }
    out.set(this.buffer.subarray(this.at, this.at + out.length));
    this.at += out.length;
  }
}

/** Bytes that are known beforehand, for tests. */
export class GivenSource implements Source {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  fill(buffer: Uint8Array): void {
    if (this.at + buffer.length > this.bytes.length) throw new RangeError("too few random bytes");
    buffer.set(this.bytes.subarray(this.at, this.at + buffer.length));
    this.at += buffer.length;
  }

  /** How many bytes were taken. */
  get used(): number {
    return this.at;
  }
}

export const WHOLE = 1n << 64n; // a probability is an integer divided by this
export const FINE = 1n << 128n; // weights of tables add up to this number or to 2^64

/** `count` integers of `size` bytes each. */
export function words(source: Source, count: number, size = 8): bigint[] {
  const buffer = new Uint8Array(count * size);
  source.fill(buffer);
  return Array.from({ length: count }, (_, at) =>
    littleEndian(buffer.subarray(at * size, (at + 1) * size)),
  );
}

/** One integer of 64 bits. */
export function word(source: Source): bigint {
  return words(source, 1)[0]!;
}

/** `count` bits that are 1 with probability weight / 2^bits, for bits ≤ 128. */
export function bernoulli(source: Source, count: number, weight: bigint, bits = 64): Uint8Array {
  const scaled = weight << BigInt(128 - bits);
  const last = scaled % WHOLE;
  return below(source, count, scaled / WHOLE, (ties) =>
    last ? words(source, ties).map((one) => one < last) : new Array<boolean>(ties).fill(false),
  );
}

/** A bit that is 1 with probability weight / 2^64. */
export function coin(source: Source, weight: bigint): boolean {
  return bernoulli(source, 1, weight)[0] === 1;
}

/** A bit that is 1 with probability p. `binary(b)` is ⌊p·2^b⌋. */
export function realCoin(source: Source, binary: (digits: number) => bigint): boolean {
  const bit = below(source, 1, binary(64), (ties) =>
    Array.from({ length: ties }, () => decided(source, binary)),
  );
  return bit[0] === 1;
}

/** Whether a uniform number is below p, if their first 64 binary digits are the same. */
export function decided(source: Source, binary: (digits: number) => bigint): boolean {
  for (let digits = 128; ; digits += 64) {
    const drawn = word(source);
    const threshold = binary(digits) % WHOLE;
    if (drawn !== threshold) return drawn < threshold;
  }
}

/** For each of `count` uniform numbers, whether it is below a threshold. `first` is
 * ⌊threshold·2^64⌋. The top byte is compared first, then 56 bits, and then `rest` decides. */
function below(
  source: Source,
  count: number,
  first: bigint,
  rest: (ties: number) => boolean[],
): Uint8Array {
  const out = new Uint8Array(count);
  const top = Number(first >> 56n);
  if (top === 256) return out.fill(1);
  const more = first & ((1n << 56n) - 1n);
  source.fill(out);
  const ties: number[] = [];
  for (let at = 0; at < count; at++) {
    if (out[at] === top) ties.push(at);
    out[at] = Number(out[at]! < top);
  }
  const further = words(source, ties.length).map((one) => one >> 8n);
  const again: number[] = [];
  ties.forEach((at, number) => {
    out[at] = Number(further[number]! < more);
    if (further[number] === more) again.push(at);
  });
  if (again.length) {
    const settled = rest(again.length);
    again.forEach((at, number) => (out[at] = Number(settled[number])));
  }
  return out;
}

/** `size` bytes of bits, each of which is 1 with probability weight / 2^64. */
export function packedBernoulli(source: Source, size: number, weight: bigint): Uint8Array {
  const count = Math.ceil(size / 8);
  const every = WHOLE - 1n;
  const out = new Array<bigint>(count).fill(0n);
  if (weight === WHOLE) out.fill(every);
  else if (count) {
    const digits = Array.from({ length: 64 }, (_, place) => (weight >> BigInt(63 - place)) & 1n);
    while (digits.length && !digits.at(-1)) digits.pop(); // trailing zeros decide nothing
    let equal = new Array<bigint>(count).fill(every);
    const uniforms = words(source, Math.min(10, digits.length) * count);
    const compared = (place: number, drawn: bigint, digit: bigint) => {
      const same = drawn & equal[place]!; // a drawn 1 means that the digits are equal
      if (digit) out[place]! |= equal[place]! ^ same;
      equal[place] = same;
    };
    digits.slice(0, 10).forEach((digit, row) => {
      for (let place = 0; place < count; place++) {
        compared(place, uniforms[row * count + place]!, digit);
      }
    });
    let where = [...equal.keys()].filter((place) => equal[place]);
    for (const digit of digits.slice(10)) {
      const drawn = words(source, where.length);
      where.forEach((place, at) => compared(place, drawn[at]!, digit));
      where = where.filter((place) => equal[place]);
    }
  }
  const bytes = new Uint8Array(8 * count);
  const view = new DataView(bytes.buffer);
  out.forEach((one, at) => view.setBigUint64(8 * at, one, true));
  return bytes.subarray(0, size);
}

/** `count` integers that are uniform below a number, from integers of `size` bytes. */
export function uniforms(source: Source, count: number, limit: number, size = 8): number[] {
  const bits = bitLength(limit - 1);
  const draw = (number: number) =>
    words(source, number, size).map((one) => Number(BigInt.asUintN(bits, one)));
  const out = draw(count);
  for (;;) {
    const large = [...out.keys()].filter((at) => out[at]! >= limit);
    if (!large.length) return out;
    const again = draw(large.length);
    large.forEach((at, number) => (out[at] = again[number]!));
  }
}

/** One integer that is uniform below a number, from integers of `size` bytes. */
export function uniform(source: Source, limit: number, size = 8): number {
  return uniforms(source, 1, limit, size)[0]!;
}

/** One integer that is uniform below a number of any size. */
export function uniformBelow(source: Source, limit: bigint): bigint {
  const bits = (limit - 1n).toString(2).length * Number(limit > 1n);
  const size = Math.max(1, Math.ceil(bits / 8));
  for (;;) {
    const number = words(source, 1, size)[0]! >> BigInt(8 * size - bits);
    if (number < limit) return number;
  }
}

/** A uniform permutation of 0, …, count − 1. */
export function permutation(source: Source, count: number): number[] {
  const bits = BigInt(Math.max(1, bitLength(count - 1)));
  const mask = (1n << bits) - 1n;
  const keyed = words(source, count).map((one, at) => (one & ~mask) | BigInt(at));
  keyed.sort(ascending);
  const order = keyed.map((one) => Number(one & mask));
  const keys = keyed.map((one) => one >> bits);
  const tied = [...keys.keys()].filter((at) => keys[at] === keys[at - 1] || keys[at] === keys[at + 1]);
  if (!tied.length) return order;
  let fresh: bigint[];
  do fresh = words(source, tied.length);
  while (new Set(fresh).size < fresh.length);
  const places = [...tied.keys()].sort(
    (one, other) => ascending(keys[tied[one]!]!, keys[tied[other]!]!) || ascending(fresh[one]!, fresh[other]!),
  );
  const settled = places.map((place) => order[tied[place]!]!);
  tied.forEach((at, number) => (order[at] = settled[number]!));
  return order;
}

function ascending(one: bigint, other: bigint): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The number of binary digits. It is 0 for 0. */
export function bitLength(number: number): number {
  return number ? Math.floor(number).toString(2).length : 0;
}

/** Draws outcomes with probability weight / Σ weights. The weights add up to 2^64 or 2^128. */
export class Table {
  readonly outcomes: number[] = [];
  readonly weights: bigint[] = [];
  private readonly starts: bigint[] = []; // the threshold of each outcome, over 2^128
  private readonly long: boolean;

  constructor(weights: readonly bigint[], start = 0) {
    const total = weights.reduce((sum, one) => sum + one, 0n);
    if ((total !== WHOLE && total !== FINE) || weights.some((one) => one < 0n)) {
      throw new RangeError("weights must add up to 2^64 or 2^128");
    }
    this.long = total === FINE;
    let sum = 0n;
    weights.forEach((weight, at) => {
      if (!weight) return;
      this.outcomes.push(at + start);
      this.weights.push(weight);
      this.starts.push(sum);
      sum += weight * (FINE / total);
    });
  }

  /** The table of masses, which are rounded down to multiples of 2^−128. What is missing is added
   * to the largest mass. `total` is the sum of all masses. */
  static fine(masses: readonly bigint[], total: bigint, start = 0): Table {
    const weights = masses.map((mass) => (mass * FINE) / total);
    const left = FINE - weights.reduce((sum, one) => sum + one, 0n);
    const largest = weights.reduce((best, one, at) => (one > weights[best]! ? at : best), 0);
    weights[largest] = weights[largest]! + left;
    return new Table(weights, start);
  }

  sample(source: Source): number {
    return this.samples(source, 1)[0]!;
  }

  samples(source: Source, count: number): number[] {
    const drawn = words(source, count);
    const places = drawn.map((one) => this.place(one << 64n, WHOLE - 1n));
    if (this.long) {
      drawn.forEach((one, at) => {
        if (this.starts[places[at]!]! >> 64n === one) {
          places[at] = this.place((one << 64n) | word(source), 0n);
        }
      });
    }
    return places.map((place) => this.outcomes[place]!);
  }

  /** The last outcome whose threshold is at most `number`, after `slack` is added to it. */
  private place(number: bigint, slack: bigint): number {
    let low = 0;
    let high = this.starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.starts[middle]! <= number + slack) low = middle;
      else high = middle;
    }
    return low;
  }
}
