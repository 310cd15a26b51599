// Numbers: they are rounded to levels at random, and the level is sent.

import { refuse } from "../errors.js";
import { exactly, fraction, toNumber, type Fraction } from "../fractions.js";
import { once, twoSided } from "../noise.js";
import { bernoulli, coin, uniform, WHOLE, word, type Source } from "../random.js";
import {
  inner,
  large,
  loss,
  reportOf,
  whole,
  type Instructions,
  type Randomizer,
  type Value,
} from "./randomizer.js";

const MOST_LEVELS = 2 ** 40;

/** Rounds a number to a level without bias, and hands the level to another randomizer. */
export function rounding(from: Instructions, build: (from: Instructions) => Randomizer): Randomizer {
  const [low, unit] = [fraction(String(from["low"])), fraction(String(from["unit"]))];
  if (unit.over <= 0n) refuse("must have a positive distance between levels");
  const exact = from["exact"] === true;
  const levels = build(inner(from, "then"));
  const { domain } = levels;
  if (domain === null) refuse("must round numbers once");
  /** The place t = (value − low)/unit among the levels. */
  const placeOf = (value: number): Fraction => {
    const number = exactly(value);
    const over = (number.over * low.under - low.over * number.under) * unit.under;
    return { over, under: number.under * low.under * unit.over };
  };
  return {
    columns: levels.columns,
    localEpsilon: levels.localEpsilon,
    domain: null,
    takes(least, most) {
      const [first, last] = [placeOf(least), placeOf(most)];
      return first.over >= 0n && last.over <= (domain - 1n) * last.under;
    },
    send(value, source, slots) {
      const { over, under } = placeOf(Number(value));
      const level = exact ? over / under : rounded(over, under, source);
      return levels.send(level, source, slots);
    },
    // A level is not an answer.
    meaning: (message) => {
      const found = levels.meaning(message);
      return found.kind === "share" ? found : reportOf(message);
    },
  };
}

/** ⌈t − U⌉ for t = over/under ≥ 0 and a uniform U in [0, 1). */
function rounded(over: bigint, under: bigint, source: Source): bigint {
  let rest = over % under;
  for (;;) {
    const drawn = word(source);
    const digit = (rest * WHOLE) / under;
    rest = (rest * WHOLE) % under;
    if (drawn !== digit || !rest) return over / under + BigInt(drawn < digit);
  }
}

/** Sends bits, with the level as the number of ones. Each is flipped with probability weight/2^64. */
export function bits(from: Instructions): Randomizer {
  const count = whole(from, "bits", 1, 10_000);
  const weight = large(from, "weight", WHOLE / 2n);
  const each = loss(WHOLE - 2n * weight, weight);
  return {
    columns: 1,
    localEpsilon: weight ? count * each : Infinity,
    domain: BigInt(count) + 1n,
    send(value, source) {
      const flips = weight ? bernoulli(source, count, weight) : new Uint8Array(count);
      return Array.from(flips, (flip, place) => [flip ^ Number(place < Number(value))]);
    },
    meaning: reportOf,
  };
}

/** Sends 2j + d for each binary digit d of the level, where j is its place. */
export function digits(from: Instructions): Randomizer {
  const count = whole(from, "digits", 1, 50);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: 1n << BigInt(count),
    send: (value) =>
      Array.from({ length: count }, (_, place) => [
        2 * place + Number((BigInt(value) >> BigInt(place)) & 1n),
      ]),
    meaning: reportOf,
  };
}

/** Responses within a window of outputs around the level. */
interface Windows {
  readonly outputs: number;
  readonly window: number;
  readonly localEpsilon: number;
  respond(level: number, source: Source): number;
}

function windowsOf(from: Instructions): Windows {
  const outputs = whole(from, "outputs", 2, MOST_LEVELS);
  const window = whole(from, "window", 1, outputs - 1);
  const weight = large(from, "weight", WHOLE);
  return {
    outputs,
    window,
    localEpsilon: loss((WHOLE - weight) * BigInt(outputs), weight * BigInt(window)),
    respond: (level, source) =>
      coin(source, weight) ? uniform(source, outputs) : level + uniform(source, window),
  };
}

export function piecewise(from: Instructions): Randomizer {
  const found = windowsOf(from);
  return {
    columns: 1,
    localEpsilon: found.localEpsilon,
    domain: BigInt(found.outputs - found.window + 1),
    send: (value, source) => [[found.respond(Number(value), source)]],
    meaning: reportOf,
  };
}

/** Sends one bit, or with some probability 2 + a response within a window. */
export function hybrid(from: Instructions): Randomizer {
  const levels = whole(from, "levels", 1, MOST_LEVELS);
  const lie = large(from, "lie", WHOLE / 2n);
  const share = large(from, "share", WHOLE);
  const found = from["windows"] === null ? undefined : windowsOf(inner(from, "windows"));
  if (found && found.outputs - found.window < levels) refuse("must have windows for all levels");
  const bit = (level: number, source: Source) => {
    const one = uniform(source, levels) < level;
    return Number(one !== coin(source, lie));
  };
  return {
    columns: 1,
    localEpsilon: Math.max(loss(WHOLE - 2n * lie, lie), found?.localEpsilon ?? 0),
    domain: BigInt(levels) + 1n,
    send(value: Value, source) {
      const level = Number(value);
      if (!found || !coin(source, share)) return [[bit(level, source)]];
      return [[2 + found.respond(level, source)]];
    },
    meaning: reportOf,
  };
}

/** Sends the level with two-sided geometric noise, limited to a range. */
export function laplace(from: Instructions): Randomizer {
  const levels = whole(from, "levels", 1, 2 ** 18);
  const reach = whole(from, "reach", 0, 2 ** 18);
  const rate = fraction(String(from["rate"]));
  if (rate.over <= 0n) refuse("must have noise with a positive rate");
  const table = once(() => twoSided(rate, levels + reach));
  const last = levels + 2 * reach;
  return {
    columns: 1,
    localEpsilon: toNumber(rate) * levels,
    domain: BigInt(levels) + 1n,
    send: (value, source) => [
      [Math.min(Math.max(Number(value) + reach + table().sample(source), 0), last)],
    ],
    meaning: reportOf,
  };
}
