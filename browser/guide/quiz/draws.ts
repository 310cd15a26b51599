// Draws of the quiz, from the random bytes of the page.

import { bernoulli, uniform, WHOLE } from "../../src/random.js";
import { source } from "../source.js";

export function pick<T>(from: readonly T[]): T {
  return from[uniform(source, from.length)]!;
}

/** A whole number from `low` to `high`, both included. */
export function whole(low: number, high: number): number {
  return low + uniform(source, high - low + 1);
}

/** How many of `count` coins show a 1. Each does so with probability weight / 2^64. */
export function ones(count: number, weight: bigint): number {
  let sum = 0;
  for (const bit of bernoulli(source, count, weight)) sum += bit;
  return sum;
}

/** A device that flips a bit, as the library describes it. */
export interface Flip {
  readonly weight: string;
}

/** How many of `people` messages say yes, if `yes` people hold a yes. */
export function yesMessages(flip: Flip, people: number, yes: number): number {
  const lie = BigInt(flip.weight);
  return ones(yes, WHOLE - lie) + ones(people - yes, lie);
}

/** The probability of a lie. */
export function lieOf(flip: Flip): number {
  return Number(flip.weight) / Number(WHOLE);
}

/** How often each outcome comes in `count` draws. Outcome k has probability weights[k] / Σ weights. */
export function outcomes(count: number, weights: readonly number[]): number[] {
  let left = count;
  let rest = weights.reduce((sum, one) => sum + one, 0);
  return weights.map((weight) => {
    const drawn = rest ? ones(left, (WHOLE * BigInt(weight)) / BigInt(rest)) : 0;
    left -= drawn;
    rest -= weight;
    return drawn;
  });
}

/** The results of `count` runs. */
export function runs<T>(count: number, run: () => T): T[] {
  return Array.from({ length: count }, run);
}

export function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}

/** The root of the mean squared distance from a number. */
export function distance(numbers: readonly number[], from: number): number {
  return Math.sqrt(mean(numbers.map((one) => (one - from) ** 2)));
}
