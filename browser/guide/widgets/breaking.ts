// Part 8: five ways to break a guarantee, and what is left of it.

import { h } from "../../pages/dom.js";
import { collusionPanel } from "./breakages/collusion.js";
import { floatsPanel } from "./breakages/floats.js";
import { honestyPanel } from "./breakages/honesty.js";
import type { Breakage } from "./breakages/panel.js";
import { smallPanel } from "./breakages/small.js";
import { wavesPanel } from "./breakages/waves.js";
import { choice } from "./controls.js";

const BREAKAGES: readonly (readonly [name: string, label: string, fill: Breakage])[] = [
  ["collusion", "The shuffler colludes", collusionPanel],
  ["honesty", "Nine of ten people cheat", honestyPanel],
  ["waves", "The same person is asked every day", wavesPanel],
  ["small", "The crowd is too small", smallPanel],
  ["floats", "A float leaks its last bits", floatsPanel],
];

export function breaking(place: HTMLElement): void {
  const panel = h("div", { class: "breakage" });
  const open = (name: string) => {
    const [, label, fill] = BREAKAGES.find(([one]) => one === name)!;
    panel.replaceChildren(h("h3", {}, label));
    fill(panel);
  };
  place.append(
    choice(
      "What do you break?",
      BREAKAGES.map(([name, label]) => [name, label] as const),
      open,
      BREAKAGES[0]![0],
    ),
    panel,
  );
  open(BREAKAGES[0]![0]);
}
