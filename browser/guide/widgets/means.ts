// Part 6: the errors of means under three kinds of trust, for the reader's crowd and ε.

import { IntervalChart, type Intervals } from "../charts/intervals.js";
import type { Color } from "../charts/chart.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { slider } from "./controls.js";

export function means(place: HTMLElement): void {
  const { crowds, epsilons } = data.means;
  const show = () => chart.show(spec(people.value, epsilon.value));
  const people = slider("People", crowds, 1, (one) => one.toLocaleString("en-US"), show);
  const epsilon = slider("ε", epsilons, 1, (one) => places(one, 1), show);
  const chart = new IntervalChart(spec(people.value, epsilon.value));
  place.append(people.element, epsilon.element, chart.element);
}

function spec(people: number, epsilon: number): Intervals {
  const { crowds, epsilons, protocols, delta } = data.means;
  const rows = protocols.map(({ label, trust, cells }) => {
    const { error, messages } = cells[crowds.indexOf(people)]![epsilons.indexOf(epsilon)]!;
    const sent = trust === "shuffle" && messages > 1 ? `, ${short(messages)} messages` : "";
    return { label: `${trust}: ${label}${sent}`, color: trust as Color, low: error, value: error, high: error };
  });
  const sampling = Math.sqrt(1 / 12 / people);
  const errors = [...rows.map(({ value }) => value), sampling];
  const best = (trust: string) => Math.min(...rows.filter(({ color }) => color === trust).map(({ value }) => value));
  return {
    title: "Error of the mean of numbers from 0 to 1",
    summary:
      `With ${people.toLocaleString("en-US")} people at ε = ${places(epsilon, 1)}, the least standard error is ${short(best("local"))} ` +
      `in local trust, ${short(best("shuffle"))} in shuffle trust (δ = ${short(delta)}) and ${short(best("central"))} in central trust. ` +
      `If the numbers are spread evenly, the sample itself is off by ${short(sampling)}.`,
    x: { title: "standard error", low: 0.6 * Math.min(...errors), high: 1.6 * Math.max(...errors), log: true },
    rows,
    truth: { at: sampling, label: "error of the sample" },
    heads: ["", "standard error", ""],
  };
}
