// A crowd that has less noise than the protocol was built for, because people lie or stay away.

import { h } from "../../../pages/dom.js";
import { Chart, type Spec } from "../../charts/chart.js";
import { bound, short } from "../../charts/numbers.js";
import { axisOf } from "../../charts/scale.js";
import { data } from "../../data.js";
import { button, buttons, readings, result, slider } from "../controls.js";
import { attacked, CROWDS } from "./crowd-attack.js";
import { CLAIM, library } from "./panel.js";

const { delta, epsilon, honesty } = data.breaking;
const WEIGHT = BigInt(honesty.weight);
const LEFT = `Left at δ = ${short(delta)}`;
const LOOSE = `Left at ε = ${short(epsilon)}`;

/** What is left if only this many people add noise. */
interface Row {
  readonly people: number;
  readonly epsilon: number;
  readonly delta: number;
}

interface Thinned<R extends Row> {
  readonly label: string;
  readonly words: (row: R) => string;
  readonly rows: readonly R[];
  readonly first: number;
  readonly axis: string;
  readonly title: string;
  /** What the library says: an introduction, and then its own lines. */
  readonly said: (row: R) => readonly string[];
  readonly after: (row: R) => string;
}

export function thinned<R extends Row>(place: HTMLElement, spec: Thinned<R>): void {
  const numbers = readings(["Claimed", LEFT, LOOSE]);
  const shown = result();
  const words = library();
  const after = h("p");
  const { rows } = spec;
  const chart = new Chart(figure(rows[spec.first]!, spec));

  const show = (row: R) => {
    numbers.set("Claimed", CLAIM);
    numbers.set(LEFT, `ε = ${bound(row.epsilon)}`);
    numbers.set(LOOSE, `δ = ${bound(row.delta)}`);
    shown.replaceChildren();
    const [before, ...lines] = spec.said(row);
    words.say(before!, ...lines);
    after.textContent = spec.after(row);
    chart.show(figure(row, spec));
  };

  const control = slider(spec.label, rows, spec.first, spec.words, show);
  const attack = () => {
    const { right, beyond } = attacked(control.value.people, WEIGHT, epsilon);
    const moved = `the odds moved by more than the factor ${short(Math.exp(epsilon))}`;
    const guessed = `guessed ${short(right)} of ${short(CROWDS)} answers right`;
    shown.replaceChildren(
      h("p", {}, h("strong", {}, `In ${short(beyond)} of ${short(CROWDS)} crowds, ${moved}.`)),
      h("p", {}, `The attacker, who knows all other answers, ${guessed}.`),
    );
  };
  place.append(
    control.element,
    numbers.element,
    buttons(button(`Attack ${short(CROWDS)} crowds`, attack, true)),
    shown,
    chart.element,
    words.element,
    after,
  );
  show(control.value);
}

function figure<R extends Row>(row: R, { rows, axis, title }: Thinned<R>): Spec {
  const points = [...rows].sort((one, other) => one.people - other.people).map((one) => [one.people, one.epsilon]);
  return {
    title,
    summary:
      `With the noise of ${short(row.people)} people, ε is ${bound(row.epsilon)} at δ = ${short(delta)}. ` +
      `With the noise of ${short(points.at(-1)![0]!)} people, it is ${bound(points.at(-1)![1]!)}.`,
    x: axisOf(axis, points.map(([x]) => x!), true),
    y: { title: `ε at δ = ${short(delta)}`, low: 0, high: 6.5 },
    series: [{ label: "left", color: "shuffle", kind: "line", points }],
    rules: [{ on: "x", at: row.people, label: short(row.people) }],
  };
}
