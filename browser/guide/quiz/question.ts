// What a question of the quiz is. Questions draw their numbers anew, and compute which answer is right.

import { permutation } from "../../src/random.js";
import type { Spec } from "../charts/chart.js";
import { source } from "../source.js";

/** What a simulation of a mistake shows. */
export interface Simulation {
  /** What was simulated. */
  readonly text: string;
  /** What was measured. */
  readonly measured: string;
  /** What would have come out if the answer were right. */
  readonly believed: string;
  /** What came out. */
  readonly found: string;
  /** What comes out on average, or in the long run. */
  readonly exact: string;
  readonly chart?: Spec;
  readonly table?: HTMLElement;
}

export interface Answer {
  readonly label: string | HTMLElement;
  readonly right: boolean;
  /** Why the answer is right or wrong. */
  readonly why: string;
  /** A simulation of the mistake. A right answer has none. */
  readonly simulate?: () => Simulation;
}

export interface Question {
  readonly name: string;
  readonly title: string;
  /** The number of the part of the guide that says more. */
  readonly part: number;
  readonly story: readonly string[];
  readonly asks: string;
  readonly answers: readonly Answer[];
}

/** A question with its answers in random order. Exactly one of them must be right, and each of the
 * others must have a simulation. */
export function question(asked: Question): Question {
  const { name, answers } = asked;
  if (answers.filter(({ right }) => right).length !== 1) throw new Error(`${name} needs one right answer`);
  if (answers.some(({ right, simulate }) => right === Boolean(simulate))) {
    throw new Error(`${name} needs a simulation for each wrong answer, and none for the right one`);
  }
  const labels = answers.map(({ label }) => (typeof label === "string" ? label : label.textContent));
  if (new Set(labels).size < labels.length) throw new Error(`${name} has the same answer twice`);
  return { ...asked, answers: permutation(source, answers.length).map((at) => answers[at]!) };
}
