// Counts of one crowd under three kinds of trust: what the analyzer sees, and the estimate.

import { bernoulli, coin, uniform } from "../../src/random.js";
import { data } from "../data.js";
import { source } from "../source.js";

export type Row = (typeof data.mixing.rows)[number];
export type Sharing = "response" | "zero" | "correlated" | "noisy";

/** What the analyzer sees, in words, and the estimate. */
export interface Answer {
  readonly sees: string;
  readonly estimate: number;
  /** The estimate before it is set to 0. The interval is around this number. */
  readonly middle: number;
}

const written = (value: number) => value.toLocaleString("en-US");
const yesNo = (bit: number) => (bit ? "yes" : "no");

function total(bits: Uint8Array): number {
  let sum = 0;
  for (const bit of bits) sum += bit;
  return sum;
}

/** Successes with probability ratio/2^64 before the first failure. */
function geometric(ratio: bigint): number {
  let count = 0;
  while (coin(source, ratio)) count += 1;
  return count;
}

function plain(sees: string, estimate: number): Answer {
  return { sees, estimate, middle: estimate };
}

function listed(bits: readonly number[]): string {
  return `${bits.map((bit, at) => `person ${at + 1} ${yesNo(bit)}`).join(", ")}, and so on.`;
}

/** The answers of the first people, of whom a share holds yes. They are spread evenly. */
function firstAnswers(yes: number, people: number): number[] {
  return Array.from({ length: data.mixing.shown }, (_, at) =>
    Number(Math.floor(((at + 1) * yes) / people) > Math.floor((at * yes) / people)),
  );
}

/** The number of ones after each bit was flipped with probability weight/2^64. */
function flippedOnes(yes: number, people: number, weight: bigint): number {
  return yes - total(bernoulli(source, yes, weight)) + total(bernoulli(source, people - yes, weight));
}

function unflipped(ones: number, people: number, weight: bigint): number {
  const lie = Number(weight) / 2 ** 64;
  return (ones - lie * people) / (1 - 2 * lie);
}

/** The curator sees everybody's answer and adds noise to the count. */
export function central({ people, central: { ratio } }: Row, yes: number): Answer {
  const noise = geometric(BigInt(ratio)) - geometric(BigInt(ratio));
  return plain(`everybody's answer: ${listed(firstAnswers(yes, people))}`, yes + noise);
}

/** Everybody lies sometimes, and the analyzer knows who sent which message. */
export function local({ people, local: { weight } }: Row, yes: number): Answer {
  const lie = BigInt(weight);
  const sent = firstAnswers(yes, people).map((bit) => bit ^ Number(coin(source, lie)));
  const estimate = unflipped(flippedOnes(yes, people, lie), people, lie);
  return plain(`everybody's message, with many lies: ${listed(sent)}`, estimate);
}

/** A shuffled crowd, or null if the crowd is too small. */
export function shuffled(row: Row, yes: number, sharing: Sharing): Answer | null {
  const { people } = row;
  if (sharing === "response") {
    const lie = BigInt(row.response.weight);
    const ones = flippedOnes(yes, people, lie);
    return plain(`${written(people)} bits without names. ${written(ones)} of them are yes.`, unflipped(ones, people, lie));
  }
  if (sharing === "zero") return row.zero && zeroExact(row.zero, people, yes);
  return sharing === "correlated" ? cancelling(row.correlated, yes) : augmented(row, yes);
}

/** Everybody sends a message for yes, and almost everybody one more. */
function zeroExact({ withheld }: NonNullable<Row["zero"]>, people: number, yes: number): Answer {
  const weight = BigInt(withheld);
  const messages = yes + people - total(bernoulli(source, people, weight));
  const middle = messages - people + (people * Number(weight)) / 2 ** 64;
  return {
    sees: `${written(messages)} messages from ${written(people)} people. All messages are the same.`,
    estimate: messages > people ? middle : 0,
    middle,
  };
}

/** Everybody sends +1 for yes. All people together also send noise, most of which cancels. */
function cancelling({ plus, minus, r, flood }: Row["correlated"], yes: number): Answer {
  const pairs = negativeBinomial(r, flood);
  const pluses = yes + geometricNumber(plus) + pairs;
  const minuses = geometricNumber(minus) + pairs;
  const mean = plus / (1 - plus) - minus / (1 - minus);
  return plain(
    `${written(pluses)} times +1 and ${written(minuses)} times −1, without names.`,
    pluses - minuses - mean,
  );
}

/** Everybody sends the answer, sealed. The shuffler adds made-up answers. */
function augmented({ people, epsilon, noisy: { dummies } }: Row, yes: number): Answer {
  const weights = Array.from({ length: dummies + 1 }, (_, at) => Math.exp(-epsilon * Math.abs(at - dummies / 2)));
  const ones = yes + chosen(weights);
  return plain(
    `${written(people + dummies)} answers without names. ${written(ones)} of them are yes. The shuffler made up ` +
      `${dummies} of all answers.`,
    ones - dummies / 2,
  );
}

// Draws from laws with real parameters ---------------------------------------------------------------

/** A place of a list, with a probability proportional to its weight. */
function chosen(weights: readonly number[]): number {
  let left = ((uniform(source, 2 ** 48) + 0.5) / 2 ** 48) * weights.reduce((sum, one) => sum + one, 0);
  for (const [at, weight] of weights.entries()) {
    left -= weight;
    if (left < 0) return at;
  }
  return weights.length - 1;
}

function geometricNumber(ratio: number): number {
  return geometric(BigInt(Math.round(ratio * 2 ** 53)) << 11n);
}

/** How many times something succeeds with probability p before it fails r times. r need not be whole. */
function negativeBinomial(r: number, p: number): number {
  const weights: number[] = [];
  const mean = (r * p) / (1 - p);
  let log = r * Math.log1p(-p);
  for (let k = 0; k < 20 * mean + 100; k++) {
    weights.push(Math.exp(log));
    log += Math.log(((k + r) / (k + 1)) * p);
  }
  return chosen(weights);
}
