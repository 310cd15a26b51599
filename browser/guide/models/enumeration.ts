// Lists everything that a shuffled crowd can show, for all pairs of neighboring datasets, in fractions.

import type { Fraction } from "../../src/fractions.js";

/** A randomizer for a bit. Everybody sends the same number of bits, and the shuffler hides their order.
 * `weights[x][k]` is proportional to the probability of k ones if a person holds x. */
export interface Randomizer {
  readonly weights: readonly [readonly bigint[], readonly bigint[]];
  /** Whether the order of one person's bits tells the value, if nobody hides it. */
  readonly orderTells: boolean;
}

/** One bit, which is a lie with probability 1/(1 + factor). */
export function response(factor: bigint): Randomizer {
  return { weights: [[factor, 1n], [1n, factor]], orderTells: false };
}

/** The bits x and 1 − x. */
export const both: Randomizer = { weights: [[0n, 1n, 0n], [0n, 1n, 0n]], orderTells: true };

/** Four fair bits. A person who holds 1 never sends exactly `never` ones. */
export function gap(never: number): Randomizer {
  const fair = [1n, 4n, 6n, 4n, 1n];
  return { weights: [fair, fair.map((one, ones) => (ones === never ? 0n : one))], orderTells: false };
}

/** A law of the number of ones: `weights[k]` over `total`. */
export interface Law {
  readonly weights: readonly bigint[];
  readonly total: bigint;
}

/** The law of the number of ones of all people together. `held[x]` people hold x. */
export function viewOf({ weights }: Randomizer, held: readonly [number, number]): Law {
  let sum = [1n];
  let total = 1n;
  held.forEach((people, x) => {
    const own = weights[x as 0 | 1];
    const one = own.reduce((all, weight) => all + weight, 0n);
    for (let person = 0; person < people; person++) {
      const next = new Array<bigint>(sum.length + own.length - 1).fill(0n);
      sum.forEach((before, at) => own.forEach((weight, ones) => (next[at + ones]! += before * weight)));
      sum = next;
      total *= one;
    }
  });
  return { weights: sum, total };
}

/** The worst event of two laws P and Q: the numbers of ones with P(event) = ratio·Q(event) + δ. The
 * ratio is e^ε, and null if no ε is large enough. */
export interface Loss {
  readonly ratio: Fraction | null;
  readonly event: readonly number[];
}

/** The least ε ≥ 0 with P(E) ≤ e^ε·Q(E) + δ for all events E. Some worst event consists of the outcomes
 * with the largest ratios P/Q. */
export function leastLoss(law: Law, other: Law, delta: Fraction): Loss {
  const outcomes = [...law.weights.keys()].filter((at) => law.weights[at]);
  outcomes.sort((one, two) => {
    const left = law.weights[one]! * other.weights[two]!;
    const right = law.weights[two]! * other.weights[one]!;
    return left > right ? -1 : left < right ? 1 : 0;
  });
  let worst: Loss = { ratio: { over: 1n, under: 1n }, event: [] };
  let chance = 0n; // times law.total
  let beside = 0n; // times other.total
  for (const [place, outcome] of outcomes.entries()) {
    chance += law.weights[outcome]!;
    beside += other.weights[outcome]!;
    // (chance/total − δ)/(beside/total')
    const over = (chance * delta.under - delta.over * law.total) * other.total;
    const under = beside * law.total * delta.under;
    if (over <= 0n) continue;
    const event = outcomes.slice(0, place + 1).sort((one, two) => one - two);
    if (!under) worst = { ratio: null, event };
    else if (worst.ratio && over * worst.ratio.under > worst.ratio.over * under) {
      worst = { ratio: lowest({ over, under }), event };
    }
  }
  return worst;
}

/** The largest loss of all pairs of neighbors, and one pair that has it. */
export interface Found extends Loss {
  /** How many of the other people hold 1. */
  readonly others: number;
  /** What the person holds in the law P of the pair. In the law Q it is the other value. */
  readonly value: 0 | 1;
  readonly law: Law;
  readonly neighbor: Law;
  /** How many ordered pairs of neighbors were compared. */
  readonly pairs: number;
}

/** Compares all pairs of datasets that differ in one person's value, in both directions. */
export function enumerated(randomizer: Randomizer, people: number, delta: Fraction): Found {
  let worst: Found | undefined;
  for (let others = 0; others < people; others++) {
    const laws = [
      viewOf(randomizer, [people - others, others]),
      viewOf(randomizer, [people - others - 1, others + 1]),
    ] as const;
    for (const value of [0, 1] as const) {
      const [law, neighbor] = [laws[value], laws[(1 - value) as 0 | 1]];
      const loss = leastLoss(law, neighbor, delta);
      if (!worst || larger(loss.ratio, worst.ratio)) {
        worst = { ...loss, others, value, law, neighbor, pairs: 2 * people };
      }
    }
  }
  return worst!;
}

/** Whether one ratio is larger than another. null is infinite. */
function larger(one: Fraction | null, other: Fraction | null): boolean {
  if (!one || !other) return !one && other !== null;
  return one.over * other.under > other.over * one.under;
}

export function lowest({ over, under }: Fraction): Fraction {
  let [a, b] = [over, under];
  while (b) [a, b] = [b, a % b];
  return { over: over / a, under: under / a };
}
