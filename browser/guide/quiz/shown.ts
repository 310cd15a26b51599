// How questions and simulations are shown: formulas, tables and histograms.

import { h } from "../../pages/dom.js";
import type { Rule, Spec } from "../charts/chart.js";
import { percent, short } from "../charts/numbers.js";
import { mean } from "./draws.js";

/** A text in which exponents such as those of e^ε and n^(−2/3) are raised. */
export function typeset(text: string): (Node | string)[] {
  const powers = /([^\s^]*)\^(\((?:[^()]|\([^()]*\))*\)|[\p{L}\d]+)/u;
  const pieces = text.split(powers);
  return pieces.flatMap((piece, at): (Node | string)[] => {
    if (at % 3 === 0) return [piece];
    if (at % 3 === 1) return []; // the base stands together with its exponent
    const exponent = h("sup", {}, piece.replace(/^\((.*)\)$/, "$1"));
    return [h("span", { class: "formula-text" }, pieces[at - 1]!, exponent)];
  });
}

export function table(heads: readonly string[], rows: readonly (readonly string[])[]): HTMLElement {
  return h(
    "table",
    { class: "quiz-table" },
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h(
      "tbody",
      {},
      ...rows.map(([first, ...rest]) =>
        h("tr", {}, h("th", { scope: "row" }, first!), ...rest.map((one) => h("td", {}, one))),
      ),
    ),
  );
}

const BARS = 24;

/** How often numbers fall into each of about 24 bars. Rules mark numbers on the axis. */
export function histogram(title: string, what: string, numbers: readonly number[], rules: readonly Rule[]): Spec {
  const all = [...numbers, ...rules.map(({ at }) => at)];
  const low = Math.min(...all);
  const high = Math.max(...all);
  const width = (high - low || 1) / BARS;
  const counts = new Array<number>(BARS + 1).fill(0);
  for (const one of numbers) counts[Math.round((one - low) / width)]! += 1;
  return {
    title,
    summary: `The mean of ${short(numbers.length)} numbers is ${short(mean(numbers), 4)}. ${rules.map(marked).join(" ")}`,
    x: { title: what, low: low - 2 * width, high: high + 2 * width },
    y: { title: "simulated surveys", low: 0, high: 1.2 * Math.max(...counts) },
    series: [
      {
        label: what,
        color: "local",
        kind: "bars",
        width,
        points: counts.flatMap((count, at) => (count ? [[low + at * width, count]] : [])),
      },
    ],
    rules,
  };
}

function marked({ label, at }: Rule): string {
  return `A line marks ${short(at, 4)} (${label}).`;
}

/** The share of correct guesses that (ε, δ) permits, if both answers are equally likely. */
export function permitted(epsilon: number, delta = 0): number {
  return (Math.exp(epsilon) + delta) / (1 + Math.exp(epsilon));
}

/** An ε, rounded up so that it never promises too much. */
export function epsilonText(epsilon: number): string {
  return short(Math.ceil(1000 * epsilon - 1e-9) / 1000, 4);
}

/** A δ with two digits, rounded up. */
export function deltaText(delta: number): string {
  const unit = 10 ** (Math.floor(Math.log10(delta)) - 1);
  return short(Math.ceil(delta / unit - 1e-9) * unit, 2);
}

/** A percentage of guesses or people with one decimal place. */
export function share(value: number): string {
  return percent(value, 1);
}

export function times(factor: number, digits = 3): string {
  return `${short(factor, digits)} times`;
}
