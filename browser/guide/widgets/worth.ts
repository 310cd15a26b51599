// Part 4: how many answers without privacy are worth as much as the reader's private answers.

import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { percent, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { readings, result, slider } from "./controls.js";

const METHODS = [
  ["Flipped bits", "local"],
  ["Laplace noise", "accent"],
  ["Random subsets", "ink"],
] as const;
const RATE = "The rate nε²/d";

const count = (value: number) => Math.round(value).toLocaleString("en-US");

export function worth(place: HTMLElement): void {
  const { buckets, people, epsilons, rate } = data.answers.worth;
  const shown = readings([...METHODS.map(([name]) => name), RATE]);
  const said = result();

  const show = () => {
    const [d, n, epsilon] = [answers.value, crowd.value, level.value];
    const at = epsilons.indexOf(epsilon);
    const kept = METHODS.map((_, method) => left(method, d, at));
    METHODS.forEach(([name], method) => shown.set(name, count(n * kept[method]!)));
    const known = rate[at] ?? null;
    shown.set(RATE, known === null ? "only for ε ≤ 1" : count((n * known) / d));
    said.replaceChildren(
      h(
        "p",
        {},
        `Your ${count(n)} answers are worth `,
        h("strong", {}, `${count(n * kept[0]!)} unprotected ones`),
        `. That is ${percent(kept[0]!, 2)} of them.`,
      ),
    );
    chart.show(spec(d, epsilon));
  };

  const answers = slider("Possible answers, d", buckets, 2, String, show);
  const crowd = slider("People, n", people, 2, count, show);
  const level = slider("ε", epsilons, 5, String, show);
  const chart = new Chart(spec(answers.value, level.value));
  place.append(answers.element, crowd.element, level.element, said, shown.element, chart.element);
  show();
}

/** The share of the answers that is left: m/n, where m answers without privacy have the same mean squared
 * error if all d answers are equally frequent. */
function left(method: number, d: number, at: number): number {
  const { buckets, flipped, laplace, subset } = data.answers.worth;
  const variance = [flipped, laplace, subset[buckets.indexOf(d)]!][method]![at]!;
  const sampling = 1 - 1 / d;
  return sampling / (sampling + d * variance);
}

function spec(d: number, epsilon: number): Spec {
  const { epsilons, rate } = data.answers.worth;
  const lines = METHODS.map(([label, color], method) => ({
    label,
    color,
    kind: "line" as const,
    points: epsilons.map((one, at) => [one, left(method, d, at)] as const),
  }));
  const rates = epsilons.flatMap((one, at) => {
    const known = rate[at] ?? null;
    return known === null ? [] : [[one, known / d] as const];
  });
  const chosen = left(0, d, epsilons.indexOf(epsilon));
  return {
    title: `What is left of each answer, for d = ${d}`,
    summary:
      `At ε = ${short(epsilon)}, an answer with flipped bits is worth ${percent(chosen, 2)} of an answer without privacy. ` +
      "The dashed line is the rate ε²/d.",
    x: { title: "ε", low: 0.09, high: 4.4, log: true, ticks: [0.1, 0.2, 0.5, 1, 2, 4] },
    y: { title: "worth of an answer", low: 1e-5, high: 1.3, log: true, format: (value) => percent(value, 3) },
    series: [...lines, { label: "ε²/d", color: "soft" as const, kind: "dashed" as const, points: rates }],
    rules: [{ on: "x", at: epsilon, label: `ε = ${short(epsilon)}` }],
  };
}
