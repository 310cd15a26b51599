// Part 5: the reader chooses the number of bins or waves, and sees bias against noise.

import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { drawnPeople, errorOf, estimated, squaredError, type Level, type Way } from "../models/density.js";
import { button, buttons, choice, readings, result, slider } from "./controls.js";

const BIAS = "Bias: smoothed away";
const NOISE = "Noise";
const SAMPLING = "Chance of the sample";
const TOTAL = "Mean squared error";

interface Chosen {
  readonly way: Way;
  readonly number: number;
  readonly people: number;
  readonly level: Level;
}

export function density(place: HTMLElement): void {
  const { crowds, levels, most_bins: most, coefficients } = data.shapes;
  const shown = readings([BIAS, NOISE, SAMPLING, TOTAL]);
  const said = result();
  let way: Way = "bins";
  let estimate: number[] | null = null;
  let revealed = false;

  const chosen = (): Chosen => ({
    way,
    number: way === "bins" ? bins.value : waves.value,
    people: people.value,
    level: level.value,
  });

  const draw = () => {
    const now = chosen();
    const parts = errorOf(now.way, now.number, now.people, now.level);
    bins.element.hidden = way !== "bins";
    waves.element.hidden = way !== "waves";
    shown.set(BIAS, short(parts.bias));
    shown.set(NOISE, short(parts.noise));
    shown.set(SAMPLING, now.way === "bins" ? short(parts.sampling) : "in the noise");
    shown.set(TOTAL, short(parts.total));
    chart.show(shape(now, estimate));
    errors.element.hidden = !revealed;
    if (revealed) errors.show(errorChart(now));
  };

  const changed = () => {
    estimate = null;
    said.replaceChildren();
    draw();
  };

  const ask = () => {
    const now = chosen();
    estimate = estimated(now.way, now.number, drawnPeople(now.people), now.level);
    const measured = squaredError(estimate);
    said.replaceChildren(
      h("p", {}, "The squared error of this estimate is ", h("strong", {}, short(measured)), ", averaged over the range."),
    );
    draw();
  };

  const ways = choice<Way>(
    "How is the shape estimated?",
    [
      ["bins", "Bins with Laplace noise"],
      ["waves", "Waves"],
    ],
    (value) => {
      way = value;
      changed();
    },
    way,
  );
  const count = (value: number) => value.toLocaleString("en-US");
  const people = slider("People, n", crowds, 3, count, changed);
  const level = slider("ε", levels, 1, (one) => places(one.epsilon, 1), changed);
  const bins = slider("Bins, K", upTo(most, 1), 24, String, changed);
  const waves = slider("Waves, K", upTo(coefficients.length, 2), 7, String, changed);
  const chart = new Chart(shape({ way, number: bins.value, people: people.value, level: level.value }, null));
  const errors = new Chart(errorChart({ way, number: bins.value, people: people.value, level: level.value }));
  place.append(
    ways,
    people.element,
    level.element,
    bins.element,
    waves.element,
    buttons(
      button("Ask the crowd", ask, true),
      button("Show the error of every K", () => {
        revealed = true;
        draw();
      }),
    ),
    said,
    chart.element,
    shown.element,
    errors.element,
  );
  draw();
}

function upTo(last: number, step: number): number[] {
  return Array.from({ length: Math.ceil(last / step) }, (_, at) => 1 + step * at);
}

/** The number of bins or waves with the least error. */
function best({ way, people, level }: Chosen): number {
  const all = numbersOf(way);
  return all.reduce((least, one) => (errorOf(way, one, people, level).total < errorOf(way, least, people, level).total ? one : least));
}

function numbersOf(way: Way): number[] {
  return way === "bins" ? upTo(data.shapes.most_bins, 1) : upTo(data.shapes.coefficients.length, 2);
}

function shape({ way, number, people, level }: Chosen, estimate: readonly number[] | null): Spec {
  const { density: curve, low, high } = data.shapes;
  const span = high - low;
  const at = (place: number) => low + (span * (place + 0.5)) / curve.length;
  const points = (heights: readonly number[]) => heights.map((height, place) => [at(place), height / span] as const);
  const heights = [...curve, ...(estimate ?? [])].map((height) => height / span);
  const words = `${number} ${way === "bins" ? (number === 1 ? "bin" : "bins") : number === 1 ? "wave" : "waves"}`;
  return {
    title: "How incomes are distributed",
    summary: estimate
      ? `${people.toLocaleString("en-US")} people answered at ε = ${places(level.epsilon, 1)}. The estimate has ${words}.`
      : "Nobody has answered yet. The line is the density of the population.",
    x: { title: "income in thousands", low, high },
    y: {
      title: "density",
      low: Math.max(-2.5 * Math.max(...curve) / span, Math.min(0, 1.05 * Math.min(...heights))),
      high: Math.min(4 * Math.max(...curve) / span, 1.1 * Math.max(...heights)),
    },
    series: [
      { label: "the population", color: "ink", kind: "dashed", points: points(curve) },
      { label: "the estimate", color: "local", kind: "line", points: estimate ? points(estimate) : [] },
    ],
  };
}

/** The points that have a place on a logarithmic axis. */
function above(low: number, points: readonly (readonly [number, number])[]): (readonly [number, number])[] {
  return points.filter(([, y]) => y >= low);
}

function errorChart({ way, number, people, level }: Chosen): Spec {
  const numbers = numbersOf(way);
  const parts = numbers.map((one) => [one, errorOf(way, one, people, level)] as const);
  const least = best({ way, number, people, level });
  const all = parts.flatMap(([, { bias, total }]) => [bias, total]);
  const low = Math.max(1e-5, 0.7 * Math.min(...all));
  const [own, optimum] = [number, least].map((one) => errorOf(way, one, people, level).total) as [number, number];
  return {
    title: `The error of every number of ${way}`,
    summary:
      `K = ${least} is best, with a mean squared error of ${short(optimum)}. ` +
      `Your K = ${number} has ${short(own)}, which is ${short(own / optimum)} times as much.`,
    x: { title: `${way}, K`, low: 0, high: numbers.at(-1)! + 1 },
    y: { title: "mean squared error", low, high: 1.4 * Math.max(...all), log: true },
    series: [
      { label: "in all", color: "local", kind: "line", points: parts.map(([one, { total }]) => [one, total]) },
      { label: "smoothed away", color: "ink", kind: "dashed", points: above(low, parts.map(([one, { bias }]) => [one, bias])) },
      {
        label: "noise and sample",
        color: "accent",
        kind: "dashed",
        points: above(low, parts.map(([one, { noise, sampling }]) => [one, noise + sampling])),
      },
    ],
    rules: [{ on: "x", at: number, label: "yours" }],
  };
}
