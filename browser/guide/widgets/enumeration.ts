// Part 7: everything that a small crowd can show is listed, for all neighbors, while the reader watches.

import { toNumber, type Fraction } from "../../src/fractions.js";
import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { short } from "../charts/numbers.js";
import { data } from "../data.js";
import { both, enumerated, gap, response, type Found, type Law, type Randomizer } from "../models/enumeration.js";
import { choice, readings, result, slider } from "./controls.js";

const RATIO = "e^ε, exactly";
const EPSILON = "ε, rounded up";
const ALONE = "ε without a shuffler";
const PAIRS = "Pairs compared";
const LONGEST = 9; // the most digits of a fraction that is shown as it is
const COMPANY = ["none", "one", "two", "three", "four"];

type Kind = "response" | "both" | "gap";

export function enumeration(place: HTMLElement): void {
  const shown = readings([RATIO, EPSILON, ALONE, PAIRS]);
  const said = result();
  let kind: Kind = "response";
  let never = data.separation.gap;

  const randomizer = (): Randomizer =>
    kind === "response" ? response(BigInt(data.separation.factor)) : kind === "both" ? both : gap(never);

  const show = () => {
    gaps.hidden = kind !== "gap";
    const found = enumerated(randomizer(), people.value, delta.value.exact);
    const alone = randomizer().orderTells ? null : enumerated(randomizer(), 1, delta.value.exact).ratio;
    shown.set(RATIO, ratioIn(found.ratio));
    shown.set(EPSILON, epsilonIn(found.ratio));
    shown.set(ALONE, epsilonIn(alone));
    shown.set(PAIRS, String(found.pairs));
    chart.show(spec(found, people.value));
    said.replaceChildren(h("p", {}, h("strong", {}, verdict(found.ratio)), ` ${worst(found)}`));
  };

  const kinds = choice<Kind>(
    "What does everybody send?",
    [
      ["response", "One bit, may be a lie"],
      ["both", "The two bits x and 1 − x"],
      ["gap", "Four bits with a gap"],
    ],
    (value) => {
      kind = value;
      show();
    },
    kind,
  );
  const gaps = choice(
    "A person who holds 1 never sends",
    [0, 1, 2, 3, 4].map((one) => [String(one), `${one} ${one === 1 ? "one" : "ones"}`] as const),
    (value) => {
      never = Number(value);
      show();
    },
    String(never),
  );
  const people = slider("People", [1, 2, 3, 4, 5], 1, String, show);
  const deltas = data.separation.deltas.map((text) => ({ text, exact: decimal(text) }));
  const delta = slider("δ", deltas, 0, ({ text }) => text, show);
  const first = enumerated(randomizer(), people.value, delta.value.exact);
  const chart = new Chart(spec(first, people.value));
  place.append(kinds, gaps, people.element, delta.element, shown.element, chart.element, said);
  show();
}

/** The fraction in a text such as "0.05". */
function decimal(text: string): Fraction {
  const [whole, digits = ""] = text.split(".") as [string, string?];
  return { over: BigInt(whole + digits), under: 10n ** BigInt(digits.length) };
}

function ratioIn(ratio: Fraction | null): string {
  if (!ratio) return "infinite";
  const text = ratio.under === 1n ? String(ratio.over) : `${ratio.over}/${ratio.under}`;
  return text.length <= LONGEST ? text : `about ${short(toNumber(ratio), 4)}`;
}

function epsilonIn(ratio: Fraction | null): string {
  if (!ratio) return "infinite";
  return short(Math.ceil(1e4 * Math.log(toNumber(ratio)) - 1e-9) / 1e4, 5);
}

function verdict(ratio: Fraction | null): string {
  if (!ratio) return "No ε is large enough.";
  return ratio.over === ratio.under ? "The view tells nothing." : "This crowd is private.";
}

function worst({ ratio, event, others, value, law, neighbor, pairs }: Found): string {
  if (ratio && ratio.over === ratio.under) return "The view has the same law for all neighbors, or δ covers the difference.";
  const company = pairs === 2 ? "" : `The worst case: ${COMPANY[others]} of the other people ${others === 1 ? "holds" : "hold"} 1. `;
  return (
    `${company}If the last person holds ${value}, the view shows ${listed(event)} ` +
    `with probability ${short(chance(law, event))}. If that person holds ${1 - value}, ` +
    `the probability is ${short(chance(neighbor, event))}.`
  );
}

function listed(event: readonly number[]): string {
  const [last, ...before] = [...event].reverse();
  const words = before.length ? `${before.reverse().join(", ")} or ${last}` : String(last);
  return `${words} ${words === "1" ? "one" : "ones"}`;
}

function chance({ weights, total }: Law, event: readonly number[]): number {
  return toNumber({ over: event.reduce((sum, one) => sum + weights[one]!, 0n), under: total });
}

function spec({ law, neighbor, value, others, ratio }: Found, people: number): Spec {
  const points = (one: Law) => one.weights.map((_, ones) => [ones, chance(one, [ones])] as const);
  const heights = [...points(law), ...points(neighbor)].map(([, height]) => height);
  const last = law.weights.length - 1;
  return {
    title: `What ${people} ${people === 1 ? "person shows" : "people show"} after mixing`,
    summary:
      `The worst pair of neighbors has ${others} ${others === 1 ? "one" : "ones"} among the other people. ` +
      `Its ratio e^ε is ${ratioIn(ratio)}.`,
    x: {
      title: `ones among all ${last} bits`,
      low: -0.6,
      high: last + 0.6,
      ticks: Array.from({ length: last + 1 }, (_, at) => at).filter((at) => last <= 10 || at % 2 === 0),
    },
    y: { title: "probability", low: 0, high: 1.1 * Math.max(...heights) },
    series: [
      { label: `the last person holds ${value}`, color: "shuffle", kind: "bars", width: 0.8, points: points(law) },
      { label: `the last person holds ${1 - value}`, color: "ink", kind: "points", points: points(neighbor) },
    ],
  };
}
