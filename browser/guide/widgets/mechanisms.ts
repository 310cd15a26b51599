// Small mechanisms that a reader edits and audits. Each has a law for each of two neighboring datasets.

import { exactly } from "../../src/fractions.js";
import { twoSided } from "../../src/noise.js";
import { Table, WHOLE } from "../../src/random.js";
import { short } from "../charts/numbers.js";
import { leastEpsilon } from "../models/auditing.js";
import { source } from "../source.js";

export type Side = 0 | 1;

export interface Mechanism {
  /** The two neighboring datasets, in words. */
  readonly datasets: readonly [string, string];
  /** Outputs of this many runs on one of the datasets. */
  draw(side: Side, runs: number): number[];
  /** An output in words. */
  label(output: number): string;
  /** The least ε at this δ, from the laws. */
  epsilon(delta: number): number;
}

/** Randomized response: the answer itself, or its opposite with probability `lie`. */
export function coinMechanism(lie: number): Mechanism {
  const weight = BigInt(Math.round(lie * Number(WHOLE)));
  const tables = [new Table([WHOLE - weight, weight]), new Table([weight, WHOLE - weight])] as const;
  return {
    datasets: ["the answer no", "the answer yes"],
    draw: (side, runs) => tables[side].samples(source, runs),
    label: (output) => (output ? "“yes”" : "“no”"),
    epsilon: (delta) => leastEpsilon([1 - lie, lie], [lie, 1 - lie], delta),
  };
}

/** A count with two-sided geometric noise. Noise is cut off where less than e^−45 of it is left. */
export function noiseMechanism(scale: number): Mechanism {
  const { over, under } = exactly(scale);
  const noise = twoSided({ over: under, under: over }, Math.ceil(45 * scale));
  const counts = [3, 4] as const;
  // The losses of this noise are ±1/scale, with the probabilities of a randomized response.
  const lie = 1 / (1 + Math.exp(1 / scale));
  return {
    datasets: counts.map((count) => `a count of ${count}`) as [string, string],
    draw: (side, runs) => noise.samples(source, runs).map((one) => counts[side] + one),
    label: short,
    epsilon: (delta) => (delta ? leastEpsilon([1 - lie, lie], [lie, 1 - lie], delta) : 1 / scale),
  };
}

/** Outputs A, B, … with these weights, which must not all be 0. */
export function tableMechanism(weights: readonly [readonly number[], readonly number[]]): Mechanism {
  const sums = weights.map((row) => row.reduce((sum, one) => sum + one, 0));
  const tables = weights.map((row, side) => Table.fine(row.map(BigInt), BigInt(sums[side]!)));
  const [one, other] = weights.map((row, side) => row.map((weight) => weight / sums[side]!));
  return {
    datasets: ["the first dataset", "the second dataset"],
    draw: (side, runs) => tables[side]!.samples(source, runs),
    label: letter,
    epsilon: (delta) => leastEpsilon(one!, other!, delta),
  };
}

export function letter(output: number): string {
  return String.fromCharCode(65 + output);
}
