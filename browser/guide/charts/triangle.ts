// Shares of three answers as points in a triangle. Each corner stands for one answer.

import { h } from "../../pages/dom.js";
import { figure, type Figure } from "./figure.js";
import { percent } from "./numbers.js";
import { s } from "./svg.js";

export type Shares = readonly [number, number, number];

export interface TriangleSpec {
  readonly title: string;
  /** What the chart shows, with its main numbers, in a sentence or two. */
  readonly summary: string;
  readonly corners: readonly string[];
  readonly truth: Shares;
  /** Shares that add up to 1. They may be negative: such points are outside the triangle. */
  readonly points: readonly Shares[];
}

const SIDE = 300;
const TALL = (SIDE * Math.sqrt(3)) / 2;
const MARGIN = 66; // room for points outside

/** Where a point stands in the picture. */
function at([, right, top]: Shares): [number, number] {
  return [MARGIN + SIDE * (right + top / 2), MARGIN + TALL * (1 - top)];
}

const CORNERS: readonly Shares[] = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
];

/** Whether a point is in the picture. */
export function visible(point: Shares): boolean {
  const [x, y] = at(point);
  return x >= 0 && x <= SIDE + 2 * MARGIN && y >= 0 && y <= TALL + 2 * MARGIN;
}

export function inside(point: Shares): boolean {
  return point.every((share) => share >= 0);
}

/** A triangle that can be shown again with other points. */
export class Triangle {
  readonly element: HTMLElement;
  private readonly frame: Figure;
  private readonly svg = s("svg", {
    class: "triangle",
    "aria-hidden": "true",
    viewBox: `0 0 ${SIDE + 2 * MARGIN} ${TALL + 2 * MARGIN}`,
  });

  constructor() {
    this.frame = figure(h("div", {}, this.svg));
    this.element = this.frame.element;
  }

  show({ title, summary, corners, truth, points }: TriangleSpec): void {
    const legend = [
      { label: "the crowd", color: "ink", kind: "cross" },
      { label: "an estimate", color: "local", kind: "points" },
      { label: "an estimate outside", color: "local", kind: "hollow" },
    ];
    this.frame.describe(title, summary, legend, () => ({
      heads: ["crowd", ...corners],
      rows: points.map((point, number) => [String(number + 1), ...point.map((share) => percent(share, 1))]),
    }));
    const [x, y] = at(truth);
    this.svg.replaceChildren(
      s("polygon", { class: "sides", points: CORNERS.map((corner) => at(corner).join(",")).join(" ") }),
      ...corners.map((label, which) => {
        const [cx, cy] = at(CORNERS[which]!);
        const place = { x: cx, y: cy + (which === 2 ? -12 : 28), "text-anchor": "middle" };
        return s("text", place, `all ${label}`);
      }),
      ...points.filter(visible).map((point) => {
        const [cx, cy] = at(point);
        return s("circle", { class: `c-local ${inside(point) ? "full" : "hollow"}`, cx, cy, r: 4.5 });
      }),
      s("path", { class: "cross", d: `M${x - 9} ${y}h18M${x} ${y - 9}v18` }),
    );
  }
}
