// An attack on one person in a crowd whose randomized bits were mixed.

import { bernoulli, coin, WHOLE } from "../../../src/random.js";
import { source } from "../../source.js";

export const CROWDS = 1000;

/** How often the attacker guessed right, and how often the odds moved by more than e^ε. */
export interface Outcome {
  readonly right: number;
  readonly beyond: number;
}

/** The victim holds a fair coin. The other people hold "no", and the attacker knows it. The attacker
 * sees how many of the `people` messages say yes. Each message is a lie with probability
 * weight/2^64. */
export function attacked(people: number, weight: bigint, epsilon: number): Outcome {
  const lie = Number(weight) / Number(WHOLE);
  let right = 0;
  let beyond = 0;
  for (let crowd = 0; crowd < CROWDS; crowd++) {
    const lies = bernoulli(source, people, weight); // the first one is the victim's
    const held = Number(coin(source, WHOLE / 2n));
    let yes = held ? 1 - 2 * lies[0]! : 0;
    for (const one of lies) yes += one;
    const evidence = logRatio(yes, people, lie);
    right += Number(Number(evidence >= 0) === held);
    beyond += Number(Math.abs(evidence) > epsilon);
  }
  return { right, beyond };
}

/** The logarithm of P(yes messages | the victim holds yes)/P(yes messages | no).
 *
 * The lies of the others are binomial. Their probability of y − 1 is r times their probability of y,
 * with r = y(1 − q)/((n − y)q). */
export function logRatio(yes: number, people: number, lie: number): number {
  const one = yes * (1 - lie); // r = one/other
  const other = (people - yes) * lie;
  return Math.log(((1 - lie) * one + lie * other) / ((1 - lie) * other + lie * one));
}
