// Part 6: how the error of a count grows with the crowd, for each kind of trust.

import { Chart, type Color, type Series, type Spec } from "../charts/chart.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { slider } from "./controls.js";

const LINES = [
  ["central", "central", "central", "line"],
  ["correlated", "shuffle, noise that cancels", "shuffle", "line"],
  ["response", "shuffle, one bit each", "shuffle", "dashed"],
  ["local", "local", "local", "line"],
] as const satisfies readonly (readonly [string, string, Color, Series["kind"]])[];

export function growth(place: HTMLElement): void {
  const level = slider("ε", data.mixing.epsilons, 1, (one) => places(one, 1), () => chart.show(spec(level.value)));
  const chart = new Chart(spec(level.value));
  place.append(level.element, chart.element);
}

function spec(epsilon: number): Spec {
  const rows = data.mixing.rows.filter((row) => row.epsilon === epsilon);
  const series = LINES.map(([key, label, color, kind]) => ({
    label,
    color,
    kind,
    points: rows.map((row) => [row.people, row[key].error] as const),
  }));
  const all = series.flatMap(({ points }) => points.map(([, error]) => error));
  const last = rows.at(-1)!;
  return {
    title: `Standard error of a count at ε = ${places(epsilon, 1)}`,
    summary:
      `With ${last.people.toLocaleString("en-US")} people, the error is ${short(last.central.error)} in central trust, ` +
      `${short(last.correlated.error)} or ${short(last.response.error)} in shuffle trust, and ${short(last.local.error)} in local trust.`,
    x: { title: "people", low: rows[0]!.people / 1.2, high: last.people * 1.2, log: true },
    y: { title: "standard error, in people", low: 0.7 * Math.min(...all), high: 1.4 * Math.max(...all), log: true },
    series,
  };
}
