// Runs an audit, and says what it found.

import { facts, h } from "../../pages/dom.js";
import {
  countsOf,
  lowerChance,
  measured,
  smallestResponse,
  upperChance,
  type Event,
  type Measured,
  type Sides,
} from "../models/auditing.js";
import type { Spec } from "../charts/chart.js";
import { bound, percent, places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import type { Mechanism, Side } from "./mechanisms.js";

const { confidence, power } = data.measuring;
const WRONG = 1 - confidence;
const FEW = 4; // with at most this many outputs, all of them are labeled

/** A measurement, and the claim that it is compared with. */
export interface Audit extends Measured {
  readonly claim: number;
  readonly delta: number;
  readonly runs: number; // on each dataset
  readonly refuted: boolean;
  readonly all: Sides;
}

export function audited(mechanism: Mechanism, runs: number, claim: number, delta: number): Audit {
  const outputs: [number[], number[]] = [mechanism.draw(0, runs), mechanism.draw(1, runs)];
  const found = measured(outputs, delta, WRONG);
  return { ...found, claim, delta, runs, refuted: found.epsilon > claim, all: countsOf(outputs, 0, runs) };
}

/** The verdict, and how the audit came to it. */
export function report(mechanism: Mechanism, found: Audit): HTMLElement[] {
  const { claim, delta, runs, counted, event, hits, others, epsilon, refuted } = found;
  const [one, other] = event.swapped ? [...mechanism.datasets].reverse() : mechanism.datasets;
  const above = places(Math.floor(lowerChance(hits, counted, WRONG / 2) * 1e4) / 1e4, 4);
  const below = places(Math.ceil(upperChance(others, counted, WRONG / 2) * 1e4) / 1e4, 4);
  const least = smallestResponse(claim, delta, runs - counted, counted, WRONG, power);
  const such = `at least ${percent(power)} of such audits`;
  return [
    h(
      "p",
      { class: refuted ? "verdict wrong" : "verdict" },
      refuted
        ? "Refuted: the mechanism is less private than claimed."
        : "Not refuted: these runs are consistent with the claim.",
    ),
    facts([
      [
        "Data: how often an event came",
        `The event is ${named(mechanism, event)}. In ${short(counted)} runs each, it came ${times(hits)} for ${one}, ` +
          `and ${times(others)} for ${other}.`,
      ],
      [
        "Metric: a lower bound on ε",
        `The first probability is at least ${above}, and the second is at most ${below}. So ε is at least ` +
          `${atLeast(epsilon)}, with ${percent(confidence)} confidence.`,
      ],
      ["Threshold: the claim", `ε = ${short(claim)} and δ = ${short(delta)}`],
      [
        "Power: what would have been found",
        Number.isFinite(least)
          ? `A coin whose ε is ${bound(least)} or more is refuted by ${such}.`
          : `No coin is refuted by ${such}. Buy more runs.`,
      ],
    ]),
  ];
}

function times(count: number): string {
  return count === 1 ? "once" : count ? `${short(count)} times` : "never";
}

/** An event in words. */
function named(mechanism: Mechanism, { outputs }: Event): string {
  const sorted = [...outputs].sort((a, b) => a - b);
  const labels = sorted.map((output) => mechanism.label(output));
  if (labels.length === 1) return `the output ${labels[0]}`;
  const gapless = sorted.at(-1)! - sorted[0]! === sorted.length - 1;
  return gapless && labels.length > 2
    ? `an output from ${labels[0]} to ${labels.at(-1)}`
    : `one of the outputs ${labels.join(", ")}`;
}

/** A measured ε, rounded down. */
export function atLeast(epsilon: number): string {
  return places(Math.floor(epsilon * 1000) / 1000, 3);
}

/** A true ε, rounded up. */
export function truth(epsilon: number): string {
  return Number.isFinite(epsilon) ? bound(epsilon) : "∞";
}

/** How often each output came, on both datasets. */
export function frequencies(mechanism: Mechanism, { all, event, runs }: Audit): Spec {
  const outputs = [...new Set([...all[0].keys(), ...all[1].keys()])].sort((a, b) => a - b);
  const share = (side: Side, output: number) => (all[side].get(output) ?? 0) / runs;
  const bars = (side: Side) => outputs.map((output) => [output + (side ? 0.2 : -0.2), share(side, output)]);
  const most = Math.max(...outputs.flatMap((output) => [share(0, output), share(1, output)]));
  const came = (side: Side) => {
    const sum = event.outputs.reduce((total, output) => total + share(side, output), 0);
    return `in ${percent(sum, 1)} of the runs for ${mechanism.datasets[side]}`;
  };
  return {
    title: "How often each output came",
    summary: `The event is ${named(mechanism, event)}. It came ${came(0)}, and ${came(1)}.`,
    x: {
      title: "Output",
      low: outputs[0]! - 0.6,
      high: outputs.at(-1)! + 0.6,
      format: (value) => mechanism.label(Math.round(value)),
      ...(outputs.length <= FEW ? { ticks: outputs } : {}),
    },
    y: { title: "Share of the runs", low: 0, high: 1.1 * most },
    series: [
      { label: mechanism.datasets[0], color: "accent", kind: "bars", points: bars(0), width: 0.38 },
      { label: mechanism.datasets[1], color: "soft", kind: "bars", points: bars(1), width: 0.38 },
    ],
  };
}
