// A density of a made-up population, estimated from bins with Laplace noise or from waves.

import { bernoulli } from "../../src/random.js";
import { data } from "../data.js";
import { source } from "../source.js";

export type Level = (typeof data.shapes.levels)[number];
export type Way = "bins" | "waves";

/** The parts of a mean integrated squared error, for a range scaled to [0, 1]. */
export interface Parts {
  readonly bias: number;
  /** The error from choosing people at random. With waves, the noise includes it. */
  readonly sampling: number;
  readonly noise: number;
  readonly total: number;
}

const { density: curve, bias, square, coefficients } = data.shapes;

/** The error of K bins. `variance` is that of the count of a bin, for `people` people. */
export function binError(bins: number, people: number, variance: number): Parts {
  const missed = bias[bins - 1]!;
  const sampling = (bins - (square - missed)) / people;
  const noise = (bins / people) ** 2 * variance;
  return { bias: missed, sampling, noise, total: missed + sampling + noise };
}

/** The error of the first waves. Their number is odd. */
export function waveError(waves: number, people: number, level: Level): Parts {
  const seen = coefficients.slice(0, waves).reduce((sum, one) => sum + one ** 2, 0);
  const missed = square - 1 - seen;
  const noise = (waves * level.amplitudes[(waves - 1) / 2]! ** 2 - seen) / people;
  return { bias: missed, sampling: 0, noise, total: missed + noise };
}

export function errorOf(way: Way, number: number, people: number, level: Level): Parts {
  return way === "bins" ? binError(number, people, people * level.variance) : waveError(number, people, level);
}

// Crowds -------------------------------------------------------------------------------------------

const shares = curve.map((height) => height / curve.reduce((sum, one) => sum + one, 0));
const ends = shares.reduce<number[]>((sums, share) => [...sums, (sums.at(-1) ?? 0) + share], []);

/** Numbers between 0 and 1 that are uniform, with 32 binary digits. */
function uniforms(count: number): Float64Array {
  const bytes = new Uint8Array(4 * count);
  source.fill(bytes);
  const words = new Uint32Array(bytes.buffer);
  return Float64Array.from(words, (word) => (word + 0.5) / 2 ** 32);
}

/** The places in [0, 1] of people who are drawn from the population. */
export function drawnPeople(count: number): Float64Array {
  return uniforms(count).map((drawn) => {
    let low = 0;
    let high = ends.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle]! > drawn) high = middle;
      else low = middle + 1;
    }
    const inside = (drawn - (ends[low]! - shares[low]!)) / shares[low]!;
    return Math.min(0.999999, (low + Math.min(Math.max(inside, 0), 1)) / ends.length);
  });
}

/** The estimated density on the points of the curve, from what these people send. */
export function estimated(way: Way, number: number, people: Float64Array, level: Level): number[] {
  return way === "bins" ? fromBins(number, people, level) : fromWaves(number, people, level);
}

function fromBins(bins: number, people: Float64Array, { ratio_weight }: Level): number[] {
  const counts = new Array<number>(bins).fill(0);
  for (const place of people) counts[Math.floor(bins * place)]! += 1;
  // Everybody adds noise to every number. Only the sum of all noise matters.
  const ratio = BigInt(ratio_weight);
  const noisy = counts.map((count) => count + geometrics(people.length, ratio) - geometrics(people.length, ratio));
  return curve.map((_, at) => (bins * noisy[Math.floor((bins * (at + 0.5)) / curve.length)]!) / people.length);
}

/** The sum of `count` geometric numbers: successes with probability ratio/2^64 before `count` failures. */
function geometrics(count: number, ratio: bigint): number {
  let sum = 0;
  for (let failures = count; failures; ) {
    let successes = 0;
    for (const success of bernoulli(source, failures, ratio)) successes += success;
    sum += successes;
    failures = successes; // each of the other draws was one of the failures
  }
  return sum;
}

/** Everybody sends a random sign for each wave. Most of them agree with the waves, or with probability
 * `lie` most of them disagree. */
function fromWaves(waves: number, people: Float64Array, level: Level): number[] {
  const sums = new Array<number>(waves).fill(0);
  const lies = uniforms(people.length);
  const signs = new Int8Array(waves);
  const each = 4096; // people whose random numbers are drawn at a time
  for (let start = 0; start < people.length; start += each) {
    const some = people.subarray(start, start + each);
    const drawn = uniforms(some.length * waves);
    const bits = new Uint8Array(some.length * waves);
    source.fill(bits);
    some.forEach((place, person) => {
      let agreeing = 0;
      for (let wave = 0; wave < waves; wave++) {
        const at = person * waves + wave;
        const rounded = drawn[at]! < (1 + waveAt(wave, place)) / 2 ? 1 : -1;
        signs[wave] = bits[at]! & 1 ? 1 : -1;
        agreeing += rounded * signs[wave]!;
      }
      const lying = lies[start + person]! < level.lie;
      const turn = agreeing > 0 === lying ? -1 : 1;
      for (let wave = 0; wave < waves; wave++) sums[wave]! += turn * signs[wave]!;
    });
  }
  const amplitude = level.amplitudes[(waves - 1) / 2]!;
  const found = sums.map((sum) => (amplitude * sum) / people.length);
  return curve.map((_, at) => {
    const place = (at + 0.5) / curve.length;
    return 1 + found.reduce((sum, one, wave) => sum + one * Math.SQRT2 * waveAt(wave, place), 0);
  });
}

/** The cosine and the sine of one period, then those of two periods, and so on. */
function waveAt(wave: number, place: number): number {
  const angle = 2 * Math.PI * ((wave >> 1) + 1) * place;
  return wave % 2 ? Math.sin(angle) : Math.cos(angle);
}

/** The integrated squared difference between an estimate and the density. */
export function squaredError(estimate: readonly number[]): number {
  return estimate.reduce((sum, one, at) => sum + (one - curve[at]!) ** 2, 0) / curve.length;
}
