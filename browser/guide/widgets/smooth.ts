// Part 6: a binomial law, its steps, and three ways to say how private such noise is.

import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { readings, result, slider } from "./controls.js";

type Level = (typeof data.smooth.levels)[number];

const LEMMA = "δ by the lemma";
const DEFINITION = "δ by the definition";
const EXACT = "δ, exactly";
const LEAST = 1e-9; // probabilities below are not drawn
const TINY = 1e-15; // δ below are not told apart

export function smooth(place: HTMLElement): void {
  const { means, levels, delta } = data.smooth;
  const shown = readings([LEMMA, DEFINITION, EXACT]);
  const said = result();

  const show = () => {
    const at = means.indexOf(mean.value);
    const { lemma, definition, exact, needed } = level.value;
    shown.set(LEMMA, deltaIn(lemma[at] ?? null));
    shown.set(DEFINITION, deltaIn(definition[at]!));
    shown.set(EXACT, deltaIn(exact[at]!));
    const enough = mean.value >= needed.exact;
    said.replaceChildren(
      h(
        "p",
        {},
        h("strong", {}, enough ? "This is enough noise" : "This is not enough noise"),
        ` for ε = ${places(level.value.epsilon, 1)} and δ = ${short(delta)}. ${short(needed.exact)} messages are enough. ` +
          `The definition of smoothness asks for ${short(needed.definition)}, and the lemma for ${short(needed.lemma)}.`,
      ),
    );
    chart.show(spec(mean.value, level.value));
  };

  const mean = slider("Noise messages on average, γn", means, 8, (one) => one.toLocaleString("en-US"), show);
  const level = slider("ε", levels, 1, ({ epsilon }) => places(epsilon, 1), show);
  const chart = new Chart(spec(mean.value, level.value));
  place.append(mean.element, level.element, shown.element, chart.element, said);
  show();
}

/** A δ, rounded up. */
function deltaIn(delta: number | null): string {
  if (delta === null) return "does not apply";
  if (delta >= 1) return "1, no promise";
  if (delta < TINY) return `below ${short(TINY)}`;
  const unit = 10 ** (Math.floor(Math.log10(delta)) - 2);
  return short(Math.ceil(delta / unit) * unit);
}

/** The law Bin(n, γ) near its mean, from ratios of neighboring probabilities. */
export function binomial(trials: number, mean: number): (readonly [number, number])[] {
  const gamma = mean / trials;
  const reach = Math.ceil(12 * Math.sqrt(mean) + 30);
  const middle = Math.floor(mean);
  const weights = new Map([[middle, 1]]);
  const ratio = (k: number) => (((trials - k) / (k + 1)) * gamma) / (1 - gamma); // P(k + 1)/P(k)
  for (let k = middle; k < middle + reach; k++) weights.set(k + 1, weights.get(k)! * ratio(k));
  for (let k = middle; k > Math.max(0, middle - reach); k--) weights.set(k - 1, weights.get(k)! / ratio(k - 1));
  const sum = [...weights.values()].reduce((all, one) => all + one, 0);
  return [...weights].map(([k, weight]) => [k, weight / sum] as const).sort(([one], [other]) => one - other);
}

function spec(mean: number, { epsilon }: Level): Spec {
  const law = binomial(data.smooth.trials, mean).filter(([, chance]) => chance >= LEAST);
  const chances = new Map(binomial(data.smooth.trials, mean));
  // P(Y)/P(Y + k) < e^ε for k = 1 and k = −1
  const calm = ([k, chance]: readonly [number, number]) =>
    [k - 1, k + 1].every((next) => chance < Math.exp(epsilon) * (chances.get(next) ?? 0));
  const steep = law.filter((one) => !calm(one)).reduce((sum, [, chance]) => sum + chance, 0);
  return {
    title: "The law of the noise, and its steps",
    summary:
      `On this scale, the step from one number to the next is the privacy loss. Steps above ε = ${places(epsilon, 1)} ` +
      `begin at numbers that have a probability of ${short(steep)} together.`,
    x: { title: "noise messages", low: law[0]![0] - 1, high: law.at(-1)![0] + 1 },
    y: { title: "probability", low: LEAST, high: 2 * Math.max(...law.map(([, chance]) => chance)), log: true },
    series: [
      { label: "both steps at most ε", color: "shuffle", kind: "points", points: law.filter(calm) },
      { label: "a larger step", color: "ink", kind: "points", points: law.filter((one) => !calm(one)) },
    ],
  };
}
