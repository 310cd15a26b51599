// Questions about what privacy costs in the rates of multinomial estimation and of density estimation.

import { WHOLE } from "../../src/random.js";
import { randomizerOf } from "../../src/randomizers/index.js";
import { short } from "../charts/numbers.js";
import { axisOf } from "../charts/scale.js";
import type { Spec } from "../charts/chart.js";
import { data } from "../data.js";
import { source } from "../source.js";
import { mean, ones, pick, runs } from "./draws.js";
import { question, type Answer, type Question, type Simulation } from "./question.js";
import { table } from "./shown.js";

type Setting = (typeof data.quiz.answers)[number];

const FIRST = data.quiz.answers[0]!; // the setting with which others are compared
const CROWDS = 100;
const CROWD = 50; // people in each of these crowds

/** The error of one crowd's shares, as the sum of the squares of all differences. */
function errorOfShares({ buckets, device }: Setting): number {
  const randomizer = randomizerOf(device);
  const [own, other] = [device.own, device.other].map((weight) => Number(weight) / Number(WHOLE)) as [number, number];
  const counts = new Array<number>(buckets).fill(0);
  for (let person = 0; person < CROWD; person++) {
    const [message] = randomizer.send(person % buckets, source, 1);
    const meaning = randomizer.meaning(message!);
    if (meaning.kind === "set") for (const bucket of meaning.values) counts[bucket]! += 1;
  }
  return counts.reduce((sum, count, bucket) => {
    const held = Math.floor(CROWD / buckets) + Number(bucket < CROWD % buckets);
    return sum + ((count / CROWD - other) / (own - other) - held / CROWD) ** 2;
  }, 0);
}

export function multinomial(): Question {
  const setting = pick(data.quiz.answers.filter(({ buckets, alpha }) => buckets > FIRST.buckets && alpha < 1));
  const { buckets, alpha } = setting;
  const people = pick([20_000, 50_000, 100_000]); // nα² is at least d², so upper and lower bounds agree
  /** What the library says: the exact error of flipped bits, compared with the first setting. */
  const exact = (buckets * setting.variance) / (FIRST.buckets * FIRST.variance);
  const rates: readonly (readonly [formula: string, rate: (d: number, n: number, alpha: number) => number, why: string])[] = [
    [
      "d/(nα²)",
      (d, n, a) => d / (n * a * a),
      "Privacy turns n answers into about nα²/d unprotected ones, up to a constant. No randomizer in local trust does " +
        "better, as long as nα² is at least d².",
    ],
    ["1/(nα²)", (_, n, a) => 1 / (n * a * a), "This is the rate for yes or no. With d answers, noise is added to each of them."],
    ["d/(nα)", (d, n, a) => d / (n * a), "Half of the α doubles the standard error. So it makes the squared error four times as large."],
    ["1/n", (_, n) => 1 / n, "This is the rate without privacy. The noise would have to cost nothing."],
  ];
  const growth = rates.map(([, rate]) => rate(buckets, 1, alpha) / rate(FIRST.buckets, 1, FIRST.alpha));
  const away = growth.map((one) => Math.abs(Math.log(one / exact)));
  const nearest = away.indexOf(Math.min(...away));
  return question({
    name: "multinomial",
    title: "The price of many answers",
    part: 4,
    story: [
      `${short(people, 6)} people answer a question with d = ${buckets} possible answers, with α-local privacy and ` +
        `α = ${alpha}. The error of the estimated shares is the expected sum of their squared errors.`,
      `Without privacy, it is of the order 1/n, here ${short(1 / people)}.`,
    ],
    asks: "Of which order is the least possible error with privacy, for the worst shares?",
    answers: rates.map(([formula, rate, why], at): Answer => {
      const right = at === nearest;
      const simulate = (): Simulation => {
        const measured = [FIRST, setting].map((one) => mean(runs(CROWDS, () => errorOfShares(one))));
        return {
          text:
            `${CROWDS} crowds of ${CROWD} people answer a question with ${FIRST.buckets} answers at α = ${FIRST.alpha}, and ` +
            `then one with ${buckets} answers at α = ${alpha}. Each device flips the bits of its answer.`,
          measured: "The second error, divided by the first",
          believed: short(growth[at]!),
          found: short(measured[1]! / measured[0]!),
          exact: short(exact),
          table: table(
            ["answers", "α", "error"],
            [FIRST, setting].map((one, which) => [String(one.buckets), String(one.alpha), short(measured[which]!)]),
          ),
        };
      };
      const label = `${formula}, here ${short(rate(buckets, people, alpha))}`;
      return { label, right, why, ...(right ? {} : { simulate }) };
    }),
  });
}

/** Exponents of n: without privacy, and of nα² with it. The error falls like n to the power −exponent. */
interface Exponents {
  readonly open: (beta: number) => number;
  readonly kept: (beta: number) => number;
}

const SMOOTH = (beta: number) => (2 * beta) / (2 * beta + 1);
const ROUGH = (beta: number) => (2 * beta) / (2 * beta + 2);
const FAST = () => 1;

/** How fast the least of bias K^(−2β) and noise K^power/n together falls with n, over all K. */
function balanced(beta: number, power: number): number {
  const least = (n: number) =>
    Math.min(...Array.from({ length: 4000 }, (_, at) => 10 ** (at / 500)).map((k) => k ** (-2 * beta) + k ** power / n));
  const [few, many] = [1e8, 1e14];
  return Math.log(least(few) / least(many)) / Math.log(many / few);
}

/** An exponent as a power of n or of nα², such as n^(−2/3). */
function power(base: string, over: number, under: number): string {
  return over === under ? `1/${base}` : `${base}^(−${over / divisor(over, under)}/${under / divisor(over, under)})`;
}

function divisor(one: number, other: number): number {
  return other ? divisor(other, one % other) : one;
}

export function density(): Question {
  const beta = pick([1, 2, 3]);
  const factor = pick([10, 100, 1000]);
  const smooth = 2 * beta + 1;
  const rough = 2 * beta + 2;
  const right = { open: balanced(beta, 1), kept: balanced(beta, 2) };
  const option = (
    { open, kept }: Exponents,
    [openUnder, keptUnder]: readonly [number, number],
    why: string,
    simulate: () => Simulation,
  ): Answer => {
    const fits = Math.abs(open(beta) - right.open) < 0.01 && Math.abs(kept(beta) - right.kept) < 0.01;
    const label =
      `${power("n", 2 * beta, openUnder)} without privacy, and ${power("(nα²)", 2 * beta, keptUnder)} with it. ` +
      `${short(factor)} times as many people divide the error by ${short(factor ** open(beta))} and by ` +
      `${short(factor ** kept(beta))}.`;
    return { label, right: fits, why, ...(fits ? {} : { simulate }) };
  };
  return question({
    name: "density",
    title: "The price of a shape",
    part: 5,
    story: [
      `A density has the smoothness β = ${beta}. Roughly speaking, it has ${beta === 1 ? "one derivative" : `${beta} derivatives`}. ` +
        "It is estimated from n people, once without privacy and once with α-local privacy, where α is at most 1. The " +
        "error is the mean integrated squared error.",
    ],
    asks: "How fast does the least possible error fall, for the worst density?",
    answers: [
      option(
        { open: SMOOTH, kept: ROUGH },
        [smooth, rough],
        "In general, it is n^(−2β/(2β+1)) without privacy and (nα²)^(−2β/(2β+2)) with it. With K bins, the bias falls like " +
          "K^(−2β). The noise is K/n without privacy, but K²/(nα²) with it, since it hides each of the K bins.",
        () => shape(SMOOTH, kept()),
      ),
      option(
        { open: SMOOTH, kept: SMOOTH },
        [smooth, smooth],
        "This would be so if privacy only replaced n by nα². But it also changes the exponent: each of K bins gets noise of " +
          "its own.",
        () => shape(SMOOTH, kept()),
      ),
      option(
        { open: ROUGH, kept: ROUGH },
        [rough, rough],
        "Some texts state this rate for densities without privacy. But there the noise is only K/n, and the rate is faster.",
        () => shape(ROUGH, open()),
      ),
      option(
        { open: FAST, kept: FAST },
        [2 * beta, 2 * beta],
        "This is the rate for a number such as a mean. A density is a whole shape: with more people, one also wants to see " +
          "finer details, and each detail has fewer people.",
        () => shape(FAST, kept()),
      ),
    ],
  });
}

/** An experiment that measures errors of densities. */
interface Experiment {
  readonly words: string;
  readonly base: string; // n or nα²
  readonly exponent: (beta: number) => number;
  readonly points: readonly (readonly [people: number, found: number, exact: number])[];
}

const PEOPLE = [1000, 5000, 25_000] as const;
const REPEATS = [200, 60, 20] as const;

/** How many people fall into each of K bins, if the density is 2x on [0, 1]. */
function binned(people: number, bins: number): number[] {
  const drawn = new Uint32Array(people);
  source.fill(new Uint8Array(drawn.buffer));
  const counts = new Array<number>(bins).fill(0);
  for (const one of drawn) counts[Math.floor(bins * Math.sqrt((one + 0.5) / 2 ** 32))]! += 1;
  return counts;
}

/** The integrated squared error of a histogram of the density 2x: that of the heights, and that of steps. */
function integrated(heights: readonly number[]): number {
  const bins = heights.length;
  return mean(heights.map((height, at) => (height - (2 * at + 1) / bins) ** 2)) + 1 / (3 * bins ** 2);
}

/** Densities with flipped bits at α = 1, with about the best number of bins. */
function kept(): Experiment {
  const { device, variance } = FIRST;
  const [own, other] = [BigInt(device.own), BigInt(device.other)];
  const [p, q] = [own, other].map((weight) => Number(weight) / Number(WHOLE)) as [number, number];
  return {
    words: `flipped bits at α = ${FIRST.alpha}`,
    base: "(nα²)",
    exponent: ROUGH,
    points: PEOPLE.map((people, at) => {
      const bins = Math.round((people / (3 * variance)) ** (1 / 4));
      const found = runs(REPEATS[at]!, () => {
        const held = binned(people, bins);
        const messages = held.map((count) => ones(count, own) + ones(people - count, other));
        return integrated(messages.map((count) => (bins * (count / people - q)) / (p - q)));
      });
      const spread = (share: number) => {
        const one = share * p + (1 - share) * q;
        return (bins ** 2 * one * (1 - one)) / (people * (p - q) ** 2);
      };
      const shares = Array.from({ length: bins }, (_, bin) => (2 * bin + 1) / bins ** 2);
      return [people, mean(found), mean(shares.map(spread)) + 1 / (3 * bins ** 2)] as const;
    }),
  };
}

/** Densities without privacy, with about the best number of bins. */
function open(): Experiment {
  return {
    words: "people's own numbers, without any privacy",
    base: "n",
    exponent: SMOOTH,
    points: PEOPLE.map((people, at) => {
      const bins = Math.round(((2 * people) / 3) ** (1 / 3));
      const found = runs(REPEATS[at]!, () => integrated(binned(people, bins).map((count) => (bins * count) / people)));
      const shares = Array.from({ length: bins }, (_, bin) => (2 * bin + 1) / bins ** 2);
      const spread = (share: number) => (bins ** 2 * share * (1 - share)) / people;
      return [people, mean(found), mean(shares.map(spread)) + 1 / (3 * bins ** 2)] as const;
    }),
  };
}

/** Measured errors beside the rate of an answer, both for β = 1. */
function shape(believed: (beta: number) => number, { words, base, exponent, points }: Experiment): Simulation {
  const [first, last] = [points[0]!, points.at(-1)!];
  const more = last[0] / first[0];
  const line = (of: (beta: number) => number) => points.map(([people]) => [people, first[1] * (first[0] / people) ** of(1)]);
  const chart: Spec = {
    title: "Error of a density with β = 1",
    summary:
      `With ${short(more)} times as many people, the simulated error falls by the factor ${short(first[1] / last[1])}. Your ` +
      `answer says ${short(more ** believed(1))}, and theory says ${short(more ** exponent(1))}.`,
    x: { ...axisOf("people", PEOPLE, true), ticks: PEOPLE },
    y: axisOf("error", [...line(believed), ...points.map(([, found]) => [0, found])].map(([, y]) => y!), true),
    series: [
      { label: "simulated", color: "local", kind: "points", points: points.map(([people, found]) => [people, found]) },
      { label: "theory", color: "ink", kind: "line", points: line(exponent) },
      { label: "your answer", color: "accent", kind: "dashed", points: line(believed) },
    ],
  };
  return {
    text:
      `The density is 2x on [0, 1], for which β = 1. It is estimated by a histogram from ${words}. For β = 1, your answer ` +
      `says that the error falls like ${power(base, 2, 2 / believed(1))}.`,
    measured: `${short(more)} times as many people divide the error by`,
    believed: short(more ** believed(1)),
    found: short(first[1] / last[1]),
    exact: short(first[2] / last[2]),
    chart,
  };
}
