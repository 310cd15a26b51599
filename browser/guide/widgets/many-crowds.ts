// Part 2: many crowds answer, and their estimates build up a distribution. The reader predicts first.

import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { percent, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { steps } from "../motion.js";
import { button, buttons, readings, result, slider } from "./controls.js";
import { sender } from "./randomizers.js";

/** How close an estimate should be, in words. */
const POINTS = `${short(100 * data.crowds.margin)} percentage points`;

type Honesty = (typeof data.crowds.honesties)[number];
type Row = Honesty["crowds"][number];

const EPSILON = "ε of each answer";
const ERROR = "Standard error";
const NEEDED = "People needed";
const BARS = 25; // about this many stand beside each other

export function manyCrowds(place: HTMLElement): void {
  const { runs, share, crowds, honesties } = data.crowds;
  const shown = readings([EPSILON, ERROR, NEEDED]);
  const said = result();
  let stop = () => undefined as void;

  const setting = () => {
    const at = crowds.indexOf(people.value);
    return { honesty: honesty.value, row: honesty.value.crowds[at]! as Row, people: people.value };
  };

  const reset = () => {
    stop();
    const { honesty: chosen, row } = setting();
    shown.set(EPSILON, short(Math.ceil(1000 * chosen.epsilon) / 1000, 4));
    shown.set(ERROR, "standard_error" in row ? `${short(100 * row.standard_error)} points` : "no estimate");
    shown.set(NEEDED, chosen.needed === null ? "no crowd is enough" : short(chosen.needed, 6));
    said.replaceChildren();
    chart.show(spec([], chosen, row));
  };

  const run = () => {
    stop();
    const { honesty: chosen, row, people: count } = setting();
    const send = sender(chosen.device);
    const yes = Math.round(share * count);
    const sums: number[] = [];
    said.replaceChildren();
    stop = steps(runs, 4, (done) => {
      while (sums.length < done) sums.push(asked(send, count, yes));
      chart.show(spec(sums, chosen, row));
      if (done === runs) tell(sums.map((sum) => estimated(sum, count, chosen.gamma)), row);
    });
  };

  const tell = (estimates: readonly number[], row: Row) => {
    if (!("within" in row)) {
      said.replaceChildren(
        h(
          "p",
          {},
          "In every crowd, about half of the messages say yes. They would do so whatever the truth is. " +
            "The messages hide everything and tell nothing, so there is nothing to estimate.",
        ),
      );
      return;
    }
    const found = close(estimates);
    said.replaceChildren(
      h(
        "p",
        {},
        h("strong", {}, `${found} of ${runs} estimates`),
        ` are within ${POINTS} of the truth. You predicted ${predicted.value}. With ever more crowds, ` +
          `it is ${short(row.within * runs)} of ${runs} on average.`,
      ),
      h(
        "p",
        { class: "note" },
        `The mean of all estimates is ${percent(mean(estimates), 1)}. Chebyshev’s inequality promises at least ` +
          `${short(row.within_chebyshev * runs)} close estimates on average, and Hoeffding’s at least ` +
          `${short(row.within_hoeffding * runs)}.`,
      ),
    );
  };

  const people = slider("People in each crowd", crowds, 2, (value) => short(value, 5), reset);
  const honesty = slider("How often a message is the truth", honesties, 5, (one) => percent(one.honesty), reset);
  const guesses = Array.from({ length: runs / 5 + 1 }, (_, at) => 5 * at);
  const predicted = slider(
    `Predict: how many of ${runs} estimates will be within ${POINTS} of the truth?`,
    guesses,
    guesses.length >> 1,
    String,
    () => undefined,
  );
  const chart = new Chart(spec([], honesty.value, setting().row));
  place.append(
    people.element,
    honesty.element,
    shown.element,
    predicted.element,
    buttons(button(`Ask ${runs} crowds`, run, true)),
    chart.element,
    said,
  );
  reset();
}

/** How many messages of a crowd say yes. */
function asked(send: ReturnType<typeof sender>, people: number, yes: number): number {
  let sum = 0;
  for (let at = 0; at < people; at++) sum += Number(send(Number(at < yes))[0]![0]);
  return sum;
}

/** The estimate of the share of people who hold a yes. If there is none (γ = 0), the share of messages
 * that say yes. */
function estimated(sum: number, people: number, gamma: number): number {
  return gamma ? (sum / people - (0.5 - gamma)) / (2 * gamma) : sum / people;
}

function close(estimates: readonly number[]): number {
  const { share, margin } = data.crowds;
  return estimates.filter((one) => Math.abs(one - share) <= margin * (1 + 1e-9)).length;
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}

function spec(sums: readonly number[], { gamma }: Honesty, row: Row): Spec {
  const { share, runs } = data.crowds;
  const { people } = row;
  const error = "standard_error" in row ? row.standard_error : 0.5 / Math.sqrt(people);
  const middle = gamma ? share : 0.5;
  const half = Math.max(0.25, 3.5 * error);
  // Every bar stands for the same odd number of possible sums, so that no bar is taller by accident.
  const step = estimated(1, people, gamma) - estimated(0, people, gamma);
  const each = 2 * Math.floor(half / BARS / step) + 1;
  const center = Math.round(people * (gamma ? 0.5 - gamma + 2 * gamma * share : 0.5));
  const bars = new Map<number, number>();
  for (const sum of sums) {
    const bar = Math.round((sum - center) / each);
    bars.set(bar, (bars.get(bar) ?? 0) + 1);
  }
  const estimates = sums.map((sum) => estimated(sum, people, gamma));
  const tallest = (runs * each * step) / (error * Math.sqrt(2 * Math.PI));
  return {
    title: gamma ? "Estimates of the share of people with a yes" : "Share of messages that say yes",
    summary: summary(estimates, gamma),
    x: { title: "share of the crowd", low: middle - half, high: middle + half, format: (value) => percent(value, 1) },
    y: { title: "crowds", low: 0, high: Math.max(1.4 * tallest, ...[...bars.values()].map((count) => 1.1 * count)) },
    series: [
      {
        label: gamma ? "estimates" : "shares of yes messages",
        color: "local",
        kind: "bars",
        width: each * step,
        points: [...bars]
          .map(([bar, count]) => [estimated(center + bar * each, people, gamma), count] as const)
          .filter(([at]) => Math.abs(at - middle) < half - (each * step) / 2),
      },
    ],
    rules: [{ on: "x", at: share, label: `truth: ${percent(share)}` }],
  };
}

function summary(estimates: readonly number[], gamma: number): string {
  const { share, runs } = data.crowds;
  if (!estimates.length) return `No crowd has answered yet. The truth is ${percent(share)}.`;
  const answered = `${estimates.length} of ${runs} crowds have answered.`;
  return gamma
    ? `${answered} ${close(estimates)} of their estimates are within ${POINTS} of the truth, which is ${percent(share)}.`
    : `${answered} On average, ${percent(mean(estimates), 1)} of their messages say yes. The truth is ${percent(share)}.`;
}
