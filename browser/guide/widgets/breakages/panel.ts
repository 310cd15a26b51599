// What all breakages have in common: what was claimed, what is left, an attack, and the library's words.

import { h } from "../../../pages/dom.js";
import { data } from "../../data.js";
import { short } from "../../charts/numbers.js";

/** A breakage fills its place. */
export type Breakage = (place: HTMLElement) => void;

const { epsilon, delta } = data.breaking;

/** The promise with which every breakage in a crowd begins. */
export const CLAIM = `ε = ${short(epsilon)}, δ = ${short(delta)}`;

/** A place for what the library says, in its own words. */
export function library(): { readonly element: HTMLElement; say(before: string, ...lines: string[]): void } {
  const intro = h("p", { class: "intro" });
  const text = h("samp");
  const element = h("div", { class: "library-says" }, intro, h("pre", { class: "output", tabindex: 0 }, text));
  return {
    element,
    say(before, ...lines) {
      intro.textContent = before;
      text.textContent = lines.join("\n");
    },
  };
}
