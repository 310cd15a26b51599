// Part 6: one crowd is asked under three kinds of trust, side by side.

import { h } from "../../pages/dom.js";
import { IntervalChart, type Intervals } from "../charts/intervals.js";
import type { Color } from "../charts/chart.js";
import { percent, places, short } from "../charts/numbers.js";
import { axisOf } from "../charts/scale.js";
import { data } from "../data.js";
import { central, local, shuffled, type Answer, type Row, type Sharing } from "../models/trusts.js";
import { button, buttons, choice, readings, result, slider } from "./controls.js";

interface Lane {
  readonly label: string;
  readonly color: Color;
  readonly who: string;
  ask(): Answer | null;
  readonly error: number | null;
  readonly margin: number | null;
}

const SHARINGS: readonly (readonly [Sharing, string])[] = [
  ["response", "One bit each"],
  ["zero", "A message for yes"],
  ["correlated", "Noise that cancels"],
  ["noisy", "The shuffler adds noise"],
];

export function lanes(place: HTMLElement): void {
  const { epsilons, crowds, shares, rows, runs, delta } = data.mixing;
  const count = (value: number) => value.toLocaleString("en-US");
  let sharing: Sharing = "response";

  const rowNow = (): Row => rows.find((row) => row.people === people.value && row.epsilon === epsilon.value)!;
  const yesNow = () => Math.round(share.value * people.value);
  const all = (): Lane[] => {
    const [row, yes] = [rowNow(), yesNow()];
    const how = row[sharing];
    return [
      { label: "Central", color: "central", who: "The curator sees", ask: () => central(row, yes), ...row.central },
      {
        label: "Shuffle",
        color: "shuffle",
        who: "The analyzer sees",
        ask: () => shuffled(row, yes, sharing),
        error: how?.error ?? null,
        margin: how?.margin ?? null,
      },
      { label: "Local", color: "local", who: "The analyzer sees", ask: () => local(row, yes), ...row.local },
    ];
  };

  const shown = readings(["Central", "Shuffle", "Local"].map(error));
  const seen = result();
  const said = result();

  const reset = () => {
    for (const lane of all()) shown.set(error(lane.label), lane.error === null ? "crowd too small" : short(lane.error));
    seen.replaceChildren(h("p", { class: "note" }, `${count(yesNow())} of ${count(people.value)} people hold a yes. Nobody has asked them yet.`));
    said.replaceChildren();
    chart.show(spec(all(), all().map(() => null), yesNow(), people.value));
  };

  const ask = () => {
    const now = all();
    const answers = now.map((lane) => lane.ask());
    seen.replaceChildren(
      ...now.map((lane, at) => {
        const answer = answers[at];
        return h(
          "div",
          { class: `lane c-${lane.color}` },
          h("h3", {}, `${lane.label} trust`),
          answer
            ? h("p", {}, `${lane.who}: ${answer.sees}`)
            : h("p", {}, "This crowd is too small for this protocol at this ε."),
          answer ? h("p", {}, "Estimate: ", h("strong", {}, places(answer.estimate, 1))) : null,
        );
      }),
    );
    said.replaceChildren();
    chart.show(spec(now, answers, yesNow(), people.value));
  };

  const repeat = () => {
    const yes = yesNow();
    const measured = all().map((lane) => {
      const errors = Array.from({ length: runs }, () => lane.ask()).flatMap((one) => (one ? [(one.estimate - yes) ** 2] : []));
      return errors.length ? Math.sqrt(errors.reduce((sum, one) => sum + one, 0) / runs) : null;
    });
    ask();
    said.replaceChildren(
      h(
        "p",
        {},
        `In ${runs} runs, the root mean squared error was `,
        all()
          .flatMap(({ label }, at) => (measured[at] === null ? [] : [`${short(measured[at]!)} in ${label.toLowerCase()} trust`]))
          .join(", "),
        ".",
      ),
    );
  };

  const people = slider("People", crowds, 1, count, reset);
  const share = slider("People who hold a yes", shares, 2, (one) => percent(one), reset);
  const epsilon = slider("ε", epsilons, 1, (one) => places(one, 1), reset);
  const ways = choice(
    "In shuffle trust, how do people share the noise?",
    SHARINGS,
    (value) => {
      sharing = value;
      reset();
    },
    sharing,
  );
  const chart = new IntervalChart(spec(all(), all().map(() => null), yesNow(), people.value));
  place.append(
    people.element,
    share.element,
    epsilon.element,
    ways,
    shown.element,
    buttons(button("Ask the crowd", ask, true), button(`Ask ${runs} times`, repeat)),
    seen,
    chart.element,
    said,
    h("p", { class: "note" }, `Here, shuffle trust has δ = ${short(delta)}. Central and local trust have δ = 0.`),
  );
  reset();
}

function error(label: string): string {
  return `Error, ${label.toLowerCase()}`;
}

/** Before anybody has answered, the intervals are around the truth. */
function spec(lanes: readonly Lane[], answers: readonly (Answer | null)[], yes: number, people: number): Intervals {
  const asked = answers.some((one) => one !== null);
  const rows = lanes.flatMap(({ label, color, margin }, at) => {
    if (margin === null) return [];
    const middle = answers[at]?.middle ?? yes;
    const value = answers[at]?.estimate ?? yes;
    return [{ label: `${label}: ± ${short(margin)}`, color, low: middle - margin, value, high: middle + margin }];
  });
  const { margin: widest } = lanes.at(-1)!;
  const numbers = [yes - widest!, yes + widest!, ...rows.flatMap(({ low, high }) => [low, high])];
  const confidence = percent(data.mixing.confidence);
  return {
    title: asked ? `Estimates of the number of yes, with ${confidence} intervals` : `How wide ${confidence} intervals will be`,
    summary: `${rows.map(({ label }) => label).join(", ")}. The truth is ${yes.toLocaleString("en-US")} of ${people.toLocaleString("en-US")}.`,
    x: axisOf("people who hold a yes", numbers),
    rows,
    truth: { at: yes, label: `truth: ${yes.toLocaleString("en-US")}` },
  };
}
