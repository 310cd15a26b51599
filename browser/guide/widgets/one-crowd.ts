// Part 2: one crowd answers. The reader guesses how many people hold a yes, and then sees the truth.

import { h } from "../../pages/dom.js";
import { uniform } from "../../src/random.js";
import { Dots } from "../charts/dots.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { steps } from "../motion.js";
import { source } from "../source.js";
import { button, buttons, result, slider } from "./controls.js";
import { sender } from "./randomizers.js";

const YES = { color: "local", full: true } as const;
const NO = { color: "soft", full: false } as const;

export function oneCrowd(place: HTMLElement): void {
  const { people, device, lies, slope } = data.crowds.first;
  const send = sender(device);
  const dots = new Dots();
  const said = result();
  let bits: number[] = [];
  let told: number[] = [];
  let stop = () => undefined as void;

  const draw = (count: number, revealed: boolean) => {
    const shown = told.slice(0, count).map((one, at) => ({
      ...(one ? YES : NO),
      ring: revealed && one !== bits[at],
    }));
    const yes = shown.filter((dot) => dot.full).length;
    const wrong = shown.filter((dot) => dot.ring).length;
    dots.show(
      [...shown, ...Array.from({ length: people - count }, () => ({ ...NO, color: "none" as const }))],
      `${people} dots, one for each person. ${yes} messages say yes${revealed ? `, and ${wrong} messages are lies` : ""}.`,
      [
        { ...YES, label: "the message says yes" },
        { ...NO, label: "the message says no" },
        ...(revealed ? [{ ...NO, ring: true, label: "a ring: the message is a lie" }] : []),
      ],
    );
  };

  const ask = () => {
    stop();
    // Between a tenth and nine tenths of the people hold a yes, and nobody knows how many.
    const holders = people / 10 + uniform(source, (8 * people) / 10 + 1);
    bits = Array.from({ length: people }, (_, at) => Number(at < holders));
    for (let at = people - 1; at > 0; at--) {
      const other = uniform(source, at + 1);
      [bits[at], bits[other]] = [bits[other]!, bits[at]!];
    }
    told = bits.map((bit) => Number(send(bit)[0]![0]));
    stop = steps(people, 1.2, (done) => draw(done, false));
    const yes = total(told);
    said.replaceChildren(
      h("p", {}, `${yes} of ${people} messages say yes. About ${short(lies)} of the ${people} messages are lies, but nobody knows ` +
          "which. How many people hold a yes?"),
    );
    guess.set(yes);
    further.hidden = false;
  };

  const reveal = () => {
    stop();
    draw(people, true);
    const yes = total(told);
    const estimate = (yes - lies) / slope;
    said.replaceChildren(
      h("p", {}, "The estimate is ", h("strong", {}, `(${yes} − ${short(lies)}) / ${short(slope)} = ${places(estimate, 0)}`), "."),
      h(
        "p",
        {},
        `In truth, ${total(bits)} people hold a yes. The estimate is off by ${places(Math.abs(estimate - total(bits)), 0)}, ` +
          `and your guess is off by ${Math.abs(guess.value - total(bits))}.`,
      ),
    );
    further.hidden = true;
  };

  const guess = slider(
    "Your guess",
    Array.from({ length: people + 1 }, (_, at) => at),
    people / 2,
    (value) => `${value} people`,
    () => undefined,
  );
  const further = h("div", { hidden: true }, guess.element, buttons(button("Show the truth", reveal, true)));
  place.append(buttons(button(`Ask ${people} people`, ask, true)), dots.element, said, further);
  draw(0, false);
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}
