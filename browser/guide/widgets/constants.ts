// Part 6: how much noise papers ask for, and how much is enough.

import { IntervalChart, type Intervals } from "../charts/intervals.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { slider } from "./controls.js";

export function constants(place: HTMLElement): void {
  const level = slider("ε", data.mixing.noise, 1, ({ epsilon }) => places(epsilon, 1), () => chart.show(spec(level.value)));
  const chart = new IntervalChart(spec(level.value));
  place.append(level.element, chart.element);
}

function spec({ epsilon, rows }: (typeof data.mixing.noise)[number]): Intervals {
  const { large, delta } = data.mixing;
  const factors = rows.map(({ exact, paper }) => paper / exact);
  const numbers = rows.flatMap(({ exact, paper }) => [exact, paper]);
  return {
    title: `Noise of the whole crowd at ε = ${places(epsilon, 1)} and δ = ${short(delta)}`,
    summary:
      `The dot is what is enough, and the line ends at what the paper asks for, in a crowd of ${large.toLocaleString("en-US")}. ` +
      `Papers ask for ${short(Math.min(...factors), 2)} to ${short(Math.max(...factors), 2)} times as much.`,
    x: { title: "noise messages", low: 0.7 * Math.min(...numbers), high: 1.4 * Math.max(...numbers), log: true },
    rows: rows.map(({ label, exact, paper }) => ({ label, color: "shuffle", low: exact, value: exact, high: paper })),
    heads: ["enough", "", "by the paper"],
  };
}
