// The shuffler tells the analyzer who sent which message.

import { h } from "../../../pages/dom.js";
import { coin, WHOLE } from "../../../src/random.js";
import { Chart } from "../../charts/chart.js";
import { bound, percent, short } from "../../charts/numbers.js";
import { axisOf } from "../../charts/scale.js";
import { data } from "../../data.js";
import { source } from "../../source.js";
import { button, buttons, choice, readings, result } from "../controls.js";
import { sender } from "../randomizers.js";
import { CLAIM, library } from "./panel.js";

const { collusion, epsilon, people } = data.breaking;
const WATCHED = 1000;
const LEFT = "Left if the shuffler colludes";

export function collusionPanel(place: HTMLElement): void {
  const numbers = readings(["Claimed", LEFT]);
  const shown = result();
  const words = library();
  let chosen = collusion.protocols[0]!;

  const show = () => {
    numbers.set("Claimed", CLAIM);
    numbers.set(LEFT, chosen.left === null ? "no protection (ε = ∞)" : `ε = ${bound(chosen.left)}`);
    shown.replaceChildren();
    words.say(
      "What the library says about this protocol:",
      `guarantee      ${chosen.promised}`,
      `relies on      ${chosen.relies_on}`,
      `local_epsilon  ${chosen.left === null ? "inf" : bound(chosen.left)}`,
    );
  };

  const attack = () => {
    const send = sender(chosen.device, chosen.slots);
    let right = 0;
    for (let person = 0; person < WATCHED; person++) {
      const held = Number(coin(source, WHOLE / 2n));
      right += Number(guess(send(held).map(([first]) => Number(first)), chosen.device.kind) === held);
    }
    shown.replaceChildren(
      h("p", {}, h("strong", {}, `The analyzer guessed ${short(right)} of ${short(WATCHED)} answers right.`)),
      h("p", {}, `The best guess is right with a probability of ${percent(chosen.right, 2)}. Without messages it is 50 %.`),
    );
  };

  place.append(
    choice(
      "What do people run?",
      collusion.protocols.map(({ name, label }) => [name, label] as const),
      (name) => {
        chosen = collusion.protocols.find((one) => one.name === name)!;
        show();
      },
      chosen.name,
    ),
    numbers.element,
    buttons(button(`Watch ${short(WATCHED)} people`, attack, true)),
    shown,
    curve(),
    words.element,
  );
  show();
}

/** The more likely answer of somebody who sent these messages. */
function guess(messages: readonly number[], kind: string): number {
  if (kind !== "one-more") return messages[0]!;
  // One message is sent for a yes, and most people send one more. Others in a bundle are dummies.
  return Number(messages.filter((one) => one === 1).length > 1);
}

function curve(): HTMLElement {
  const points = collusion.by_people;
  const last = points.at(-1)!;
  const flat = points.map(([x]) => [x!, epsilon]);
  return new Chart({
    title: "What protects a person if the shuffler colludes",
    summary:
      `Mixed randomized response promises ε = ${short(epsilon)}. In a crowd of ${short(points[0]![0]!)} people it ` +
      `leaves ε = ${bound(points[0]![1]!)}, and in a crowd of ${short(last[0]!)} people it leaves ` +
      `ε = ${bound(last[1]!)}.`,
    x: axisOf("People in the crowd", points.map(([x]) => x!), true),
    y: { title: "ε that is left", low: 0, high: 11 },
    series: [
      { label: "randomized response, mixed", color: "shuffle", kind: "line", points },
      { label: "randomized response, not mixed", color: "local", kind: "dashed", points: flat },
    ],
    rules: [{ on: "x", at: people, label: "this crowd" }],
  }).element;
}
