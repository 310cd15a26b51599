// All questions of the quiz, in the order of the guide.

import { delta, mechanism, privacy } from "./definitions.js";
import { clipping, interval, moment, noise } from "./estimates.js";
import { honest, oneMessage, waves } from "./crowds.js";
import type { Question } from "./question.js";
import { density, multinomial } from "./rates.js";
import { collusion, shuffler, trust } from "./trusts.js";

const ALL: readonly (() => Question)[] = [
  moment,
  noise,
  privacy,
  delta,
  mechanism,
  multinomial,
  density,
  clipping,
  trust,
  shuffler,
  collusion,
  honest,
  oneMessage,
  waves,
  interval,
];

/** Every question once, with fresh numbers. */
export function questions(): Question[] {
  return ALL.map((draw) => draw());
}

export type { Question, Simulation } from "./question.js";
