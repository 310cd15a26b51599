// Part 2: many crowds answer, and their estimates build up a distribution. The reader predicts first.

import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { percent, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { steps } from "../motion.js";
import { button, buttons, readings, result, slider } from "./controls.js";
import { sender } from "./randomizers.js";

type Honesty = (typeof data.crowds.honesties)[number];

const EPSILON = "ε of each answer";
const ERROR = "Standard error";
const NEEDED = "Enough people";
const BARS = 41;

export function manyCrowds(place: HTMLElement): void {
  const { runs, share, margin, crowds, honesties } = data.crowds;
  const shown = readings([EPSILON, ERROR, NEEDED]);
  const said = result();
  let stop = () => undefined as void;

  const setting = () => {
    const at = crowds.indexOf(people.value);
    return { honesty: honesty.value, row: honesty.value.crowds[at]!, people: people.value };
  };

  const reset = () => {
    stop();
    const { honesty: chosen, row } = setting();
    shown.set(EPSILON, short(Math.ceil(1000 * chosen.epsilon) / 1000, 4));
    shown.set(ERROR, "standard_error" in row ? `${short(100 * row.standard_error)} points` : "no estimate");
    shown.set(NEEDED, chosen.needed === null ? "no crowd is" : short(chosen.needed, 6));
    said.replaceChildren();
    chart.show(spec([], chosen, row));
  };

  const run = () => {
    stop();
    const { honesty: chosen, row, people: count } = setting();
    const send = sender(chosen.device);
    const yes = Math.round(share * count);
    const found: number[] = [];
    said.replaceChildren();
    stop = steps(runs, 4, (done) => {
      while (found.length < done) found.push(answered(send, count, yes, chosen));
      chart.show(spec(found, chosen, row));
      if (done === runs) tell(found, row);
    });
  };

  const tell = (found: readonly number[], row: Honesty["crowds"][number]) => {
    if (!("within" in row)) {
      said.replaceChildren(
        h(
          "p",
          {},
          "In every crowd, about half of the messages say yes. They would do so for any crowd. " +
            "The messages hide everything and tell nothing, so there is nothing to estimate.",
        ),
      );
      return;
    }
    const close = found.filter((one) => Math.abs(one - share) <= margin * (1 + 1e-9)).length;
    const off = Math.abs(close - predicted.value);
    said.replaceChildren(
      h(
        "p",
        {},
        h("strong", {}, `${close} of ${runs} estimates`),
        ` are within ${percent(margin)} of the truth. You predicted ${predicted.value}` +
          `${off ? `, which is off by ${off}` : ""}. On average it is ${short(row.within * runs)}.`,
      ),
      h(
        "p",
        { class: "note" },
        `Chebyshev's inequality promises at least ${short(row.within_chebyshev * runs)} on average, and ` +
          `Hoeffding's at least ${short(row.within_hoeffding * runs)}. The mean of all estimates is ${meanOf(found)}.`,
      ),
    );
  };

  const people = slider("People in each crowd", crowds, 1, (value) => short(value, 5), reset);
  const honesty = slider("How often a message is the truth", honesties, 5, (one) => percent(one.honesty), reset);
  const guesses = Array.from({ length: runs / 5 + 1 }, (_, at) => 5 * at);
  const predicted = slider(
    `Predict: how many of ${runs} estimates will be within ${percent(margin)} of the truth?`,
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

/** The estimate of one crowd, as a share. If there is none, the share of messages that say yes. */
function answered(send: (bit: number) => readonly (readonly (number | bigint)[])[], people: number, yes: number, chosen: Honesty): number {
  let sum = 0;
  for (let at = 0; at < people; at++) sum += Number(send(Number(at < yes))[0]![0]);
  return chosen.gamma ? (sum / people - (0.5 - chosen.gamma)) / (2 * chosen.gamma) : sum / people;
}

function meanOf(found: readonly number[]): string {
  return percent(found.reduce((sum, one) => sum + one, 0) / found.length, 1);
}

function spec(found: readonly number[], chosen: Honesty, row: Honesty["crowds"][number]): Spec {
  const { share, runs, margin } = data.crowds;
  const error = "standard_error" in row ? row.standard_error : 0.5 / Math.sqrt(row.people);
  const middle = chosen.gamma ? share : 0.5;
  const half = Math.max(0.25, 3.5 * error);
  const width = (2 * half) / BARS;
  const counts = new Array<number>(BARS).fill(0);
  for (const one of found) {
    const at = Math.floor((one - (middle - half)) / width);
    counts[Math.max(0, Math.min(BARS - 1, at))]! += 1;
  }
  const what = chosen.gamma ? "estimates" : "shares of yes messages";
  const near = found.filter((one) => Math.abs(one - share) <= margin * (1 + 1e-9)).length;
  return {
    title: chosen.gamma ? "Estimates of the share of people with a yes" : "Share of messages that say yes",
    summary: found.length
      ? `${found.length} of ${runs} crowds have answered. ${near} of their ${what} are within ${percent(margin)} of the truth, ` +
        `which is ${percent(share)}.`
      : `No crowd has answered yet. The truth is ${percent(share)}.`,
    x: { title: "share of the crowd", low: middle - half, high: middle + half, format: (value) => percent(value, 1) },
    y: { title: "crowds", low: 0, high: Math.max(10, ...counts) * 1.1 },
    series: [
      {
        label: what,
        color: "local",
        kind: "bars",
        width,
        points: found.length ? counts.map((count, at) => [middle - half + (at + 0.5) * width, count]) : [],
      },
    ],
    rules: [{ on: "x", at: share, label: `truth: ${percent(share)}` }],
  };
}
