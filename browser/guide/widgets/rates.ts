// Part 5: how fast the error of a density falls with the crowd, in theory and for exact bins.

import { h } from "../../pages/dom.js";
import { Chart, type Series, type Spec } from "../charts/chart.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { binError, type Level } from "../models/density.js";
import { readings, result, slider } from "./controls.js";

const OPEN = "Exponent without privacy";
const LOCAL = "Exponent in local trust";
const SLOPE = "Slope of our bins, local";

export function rates(place: HTMLElement): void {
  const { sizes, levels, smoothnesses } = data.shapes;
  const usual = levels.filter(({ epsilon }) => epsilon <= 1); // the rates are for these
  const shown = readings([OPEN, LOCAL, SLOPE]);
  const said = result();

  const show = () => {
    const { beta, open, local } = exponents(smoothness.value);
    const { epsilon } = level.value;
    shown.set(OPEN, `−${places(open, 3)}`);
    shown.set(LOCAL, `−${places(local, 3)}`);
    const line = bestBins((people) => people * level.value.variance);
    const [near, far] = [line.at(-3)!, line.at(-1)!];
    shown.set(SLOPE, `−${places(Math.log(near[1] / far[1]) / Math.log(far[0] / near[0]), 3)}`);
    const needed = people.value ** ((2 * beta + 2) / (2 * beta + 1)) / epsilon ** 2;
    said.replaceChildren(
      h(
        "p",
        {},
        `By the rates alone, without constant factors, it takes about `,
        h("strong", {}, `${Number(needed.toPrecision(2)).toLocaleString("en-US")} private answers`),
        ` to learn the shape as well as from ${people.value.toLocaleString("en-US")} answers without privacy. ` +
          "The solid lines of the figure include these factors.",
      ),
    );
    chart.show(spec(smoothness.value, level.value));
  };

  const smoothness = slider("Smoothness, β", smoothnesses, 1, String, show);
  const level = slider("ε", usual, usual.length - 1, ({ epsilon }) => places(epsilon, 1), show);
  const people = slider("Answers without privacy", sizes, 4, (one) => one.toLocaleString("en-US"), show);
  const chart = new Chart(spec(smoothness.value, level.value));
  place.append(smoothness.element, level.element, people.element, said, chart.element, shown.element);
  show();
}

function exponents(beta: number): { beta: number; open: number; local: number } {
  return { beta, open: (2 * beta) / (2 * beta + 1), local: (2 * beta) / (2 * beta + 2) };
}

/** The error of the best number of bins for every crowd. `variance` is that of a count. */
function bestBins(variance: (people: number) => number): (readonly [number, number])[] {
  return data.shapes.sizes.map((people) => {
    const errors = data.shapes.bias.map((_, at) => binError(at + 1, people, variance(people)).total);
    return [people, Math.min(...errors)];
  });
}

function spec(smoothness: number, level: Level): Spec {
  const { sizes, delta } = data.shapes;
  const { open, local } = exponents(smoothness);
  const own = bestBins((people) => people * level.variance);
  const shuffled = bestBins(() => level.shuffle);
  const none = bestBins(() => 0);
  const rate = (power: number, factor: number) => sizes.map((people) => [people, (people * factor) ** -power] as const);
  const series: Series[] = [
    { label: "rate in local trust", color: "local", kind: "dashed", points: rate(local, level.epsilon ** 2) },
    { label: "rate without privacy", color: "ink", kind: "dashed", points: rate(open, 1) },
    { label: "our bins, local", color: "local", kind: "line", points: own },
    { label: "our bins, shuffle", color: "shuffle", kind: "line", points: shuffled },
    { label: "our bins, no privacy", color: "ink", kind: "line", points: none },
  ];
  const all = series.flatMap(({ points }) => points.map(([, error]) => error!));
  return {
    title: `Error of a density at ε = ${places(level.epsilon, 1)}, for β = ${smoothness}`,
    summary:
      `With ${sizes.at(-1)!.toLocaleString("en-US")} people, our bins have the mean squared error ${short(own.at(-1)![1])} ` +
      `in local trust, ${short(shuffled.at(-1)![1])} in shuffle trust (δ = ${short(delta)}) and ${short(none.at(-1)![1])} without privacy.`,
    x: { title: "people, n", low: sizes[0]! / 1.2, high: sizes.at(-1)! * 1.2, log: true },
    y: { title: "mean squared error", low: 0.7 * Math.min(...all), high: 1.4 * Math.max(...all), log: true },
    series,
  };
}
