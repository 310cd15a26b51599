// The same person is asked every day.

import { h } from "../../../pages/dom.js";
import { bernoulli, coin, WHOLE } from "../../../src/random.js";
import { Chart, type Spec } from "../../charts/chart.js";
import { bound, percent, places, short } from "../../charts/numbers.js";
import { axisOf } from "../../charts/scale.js";
import { data } from "../../data.js";
import { source } from "../../source.js";
import { button, buttons, choice, readings, result, slider } from "../controls.js";
import { library } from "./panel.js";

const { waves } = data.breaking;
const { kept } = waves;
const PEOPLE = 1000;
const ALL = "All days together";
const RIGHT = "A guess is right";
const MARGIN = "Margin of one day";

export function wavesPanel(place: HTMLElement): void {
  const numbers = readings(["Claimed", ALL, RIGHT, MARGIN]);
  const shown = result();
  const words = library();
  const first = waves.rows.findIndex((row) => row.waves === 52);
  const control = slider("Days", waves.rows, first, (row) => short(row.waves), () => show());
  const chart = new Chart(figure(control.value.waves));
  let keep = false;

  const show = () => {
    const row = control.value;
    const margin = keep ? kept.margin : row.margin;
    numbers.set("Claimed", keep ? `ε = ${short(kept.epsilon)} for all days` : `ε = ${short(waves.each)} a day`);
    numbers.set(
      ALL,
      keep
        ? `ε = ${short(kept.epsilon)}, if the answer stays`
        : `ε = ${bound(row.epsilon)} at δ = ${short(waves.delta)}`,
    );
    numbers.set(RIGHT, percent(keep ? kept.right : row.right, 1));
    numbers.set(MARGIN, margin >= 0.5 ? "nothing is learned" : `±${places(100 * margin, 1)} points`);
    shown.replaceChildren();
    words.say(...said(row.waves, keep));
    chart.show(figure(row.waves));
  };

  const attack = () => {
    const days = control.value.waves;
    const { right, changes } = listened(days, keep);
    const heard = days === 1 ? "one message" : `the majority of ${short(days)} messages`;
    shown.replaceChildren(
      h("p", {}, h("strong", {}, `Whoever believes ${heard} is right about ${short(right)} of ${short(PEOPLE)} people.`)),
    );
    if (keep) {
      const seen = `The next message gave away ${short(changes)} of ${short(PEOPLE)} changes.`;
      shown.append(h("p", {}, `Then everybody's answer changed. ${seen}`));
    }
  };

  place.append(
    choice(
      "What does the device do every day?",
      [
        ["new", "It randomizes anew"],
        ["kept", "It repeats its first message"],
      ],
      (value) => {
        keep = value === "kept";
        show();
      },
      "new",
    ),
    control.element,
    numbers.element,
    h(
      "p",
      { class: "note" },
      `The margin is for ${short(waves.panel)} people. The noise is so large that all days together lose ` +
        `ε = ${short(kept.epsilon)}.`,
    ),
    buttons(button(`Listen to ${short(PEOPLE)} people`, attack, true)),
    shown,
    chart.element,
    words.element,
  );
  show();
}

/** What the library says: an introduction, and then its own lines. */
function said(days: number, keep: boolean): [string, ...string[]] {
  const { ledger } = waves;
  if (keep) return ["What the plan of such a survey says, and what the library refuses:", ...kept.not_hidden, kept.shuffled];
  if (days <= ledger.days) return ["A ledger with a limit of ε = 1 still pays:", `${days} of ${ledger.days} days`];
  return [`A ledger with a limit of ε = 1 pays for ${ledger.days} days. Then it refuses:`, ledger.refusal];
}

/** How many people a listener guesses right after this many days, and how many changes show. */
function listened(days: number, keep: boolean): { right: number; changes: number } {
  const weight = BigInt((keep ? kept.device : waves.device).weight);
  const fair = () => Number(coin(source, WHOLE / 2n));
  let right = 0;
  let changes = 0;
  for (let person = 0; person < PEOPLE; person++) {
    const held = fair();
    const lies = bernoulli(source, keep ? 1 : days, weight); // a kept message is drawn only once
    const untrue = lies.reduce((sum, one) => sum + one, 0);
    const yes = held ? lies.length - untrue : untrue;
    const guess = 2 * yes === lies.length ? fair() : Number(2 * yes > lies.length);
    right += Number(guess === held);
    // After a change, a device randomizes the other answer. The change shows if the message differs.
    if (keep) changes += Number(lies[0] === bernoulli(source, 1, weight)[0]);
  }
  return { right, changes };
}

function figure(days: number): Spec {
  const { rows } = waves;
  const row = rows.find((one) => one.waves === days)!;
  const after = `${short(days)} ${days === 1 ? "day" : "days"}`;
  const line = (value: (one: (typeof rows)[number]) => number) => rows.map((one) => [one.waves, value(one)]);
  return {
    title: "What all days together lose",
    summary:
      `After ${after} with ε = ${short(waves.each)} each, the sum is ${short(row.sum)}. ` +
      `All days together have ε = ${bound(row.epsilon)} at δ = ${short(waves.delta)} for randomized response, and ` +
      `ε = ${bound(row.mixed)} for mixed answers with dummies. A kept message has ε = ${short(kept.epsilon)}.`,
    x: axisOf("Days", rows.map((one) => one.waves), true),
    y: axisOf("ε", [0.1, 36.5], true),
    series: [
      { label: "sum of all ε", color: "ink", kind: "dashed", points: line((one) => one.sum) },
      { label: "randomized response", color: "local", kind: "line", points: line((one) => one.epsilon) },
      { label: "mixed, with dummies", color: "shuffle", kind: "line", points: line((one) => one.mixed) },
      { label: "kept message", color: "accent", kind: "dashed", points: line(() => kept.epsilon) },
    ],
    rules: [{ on: "x", at: days, label: after }],
  };
}
