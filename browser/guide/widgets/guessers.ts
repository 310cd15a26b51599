// Part 3: of 100 people who guess about somebody, how many are right?

import { h } from "../../pages/dom.js";
import { Dots } from "../charts/dots.js";
import { short } from "../charts/numbers.js";
import { data } from "../data.js";
import { epsilonSlider } from "./attacker.js";
import { readings } from "./controls.js";

const RIGHT = { color: "local", full: true } as const;
const WRONG = { color: "soft", full: false } as const;
const FACTOR = "The odds rise at most by the factor";

export function guessers(place: HTMLElement): void {
  const without = new Dots();
  const within = new Dots();
  const sentence = h("p", { class: "strong", role: "status" });
  const shown = readings([FACTOR]);
  const draw = (dots: Dots, right: number, words: string) =>
    dots.show(Array.from({ length: 100 }, (_, at) => (at < right ? RIGHT : WRONG)), words, [
      { ...RIGHT, label: "right" },
      { ...WRONG, label: "wrong" },
    ]);
  const show = ({ right_of_100: right, factor }: (typeof data.guessing.settings)[number]) => {
    draw(without, 50, "Without your answer, 50 of 100 people are right.");
    draw(within, right, `With your answer, at most ${right} of 100 people are right.`);
    sentence.textContent =
      `Of 100 people who guess about you, on average 50 are right without your answer, and at most ${right} with it.`;
    shown.set(FACTOR, short(factor));
  };
  const epsilon = epsilonSlider(show);
  const half = (title: string, dots: Dots) => h("div", {}, h("p", { class: "note" }, title), dots.element);
  place.append(
    epsilon.element,
    h("div", { class: "halves" }, half("Without your answer", without), half("With your answer, at most", within)),
    sentence,
    shown.element,
  );
  show(data.guessing.settings[data.guessing.first]!);
}
