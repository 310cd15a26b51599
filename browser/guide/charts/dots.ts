// A crowd as dots, one for each person.

import { h } from "../../pages/dom.js";
import type { Color } from "./chart.js";
import { s } from "./svg.js";

/** How a dot looks: full or hollow, and with a ring around it or without. */
export interface Dot {
  readonly color: Color;
  readonly full: boolean;
  readonly ring?: boolean;
}

export interface Meaning extends Dot {
  readonly label: string;
}

const COLUMNS = 20;
const STEP = 16;

export class Dots {
  private readonly svg = s("svg", { role: "img", class: "dots" });
  private readonly legend = h("ul", { class: "legend" });
  readonly element = h("div", { class: "chart" }, this.svg, this.legend);

  /** `words` says what the dots show, for those who do not see them. */
  show(dots: readonly Dot[], words: string, meanings: readonly Meaning[]): void {
    const rows = Math.ceil(dots.length / COLUMNS);
    this.svg.setAttribute("viewBox", `0 0 ${COLUMNS * STEP} ${rows * STEP}`);
    this.svg.setAttribute("aria-label", words);
    this.svg.replaceChildren(
      ...dots.map((dot, at) => drawn(dot, (at % COLUMNS) * STEP, Math.floor(at / COLUMNS) * STEP)),
    );
    this.legend.replaceChildren(
      ...meanings.map((one) =>
        h("li", {}, s("svg", { class: "dot", viewBox: `0 0 ${STEP} ${STEP}`, "aria-hidden": "true" }, drawn(one, 0, 0)), one.label),
      ),
    );
  }
}

function drawn({ color, full, ring }: Dot, x: number, y: number): SVGElement {
  const place = { cx: x + STEP / 2, cy: y + STEP / 2 };
  const group = s("g", { class: `c-${color}` }, s("circle", { ...place, r: 4.25, class: full ? "full" : "hollow" }));
  if (ring) group.append(s("circle", { ...place, r: 6.75, class: "ring" }));
  return group;
}
