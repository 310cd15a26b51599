// Intervals one below the other on one scale, such as the estimates of several protocols.

import { s } from "./svg.js";
import type { Color } from "./chart.js";
import { figure, type Figure } from "./figure.js";
import { h } from "../../pages/dom.js";
import { position, ticks, written, type Axis } from "./scale.js";

export interface Interval {
  readonly label: string;
  readonly color: Color;
  readonly low: number;
  readonly value: number;
  readonly high: number;
}

export interface Intervals {
  readonly title: string;
  /** What the chart shows, with its main numbers, in a sentence or two. */
  readonly summary: string;
  readonly x: Axis;
  readonly rows: readonly Interval[];
  /** The true number, if the reader may see it. */
  readonly truth?: { readonly at: number; readonly label: string };
  /** Names of the lower ends, the middles and the upper ends in the table. Without a name, they are left out. */
  readonly heads?: readonly [low: string, value: string, high: string];
}

const ROW = 46;

/** A chart of intervals that can be shown again with other numbers. */
export class IntervalChart {
  readonly element: HTMLElement;
  private readonly frame: Figure;
  private readonly svg = s("svg", { "aria-hidden": "true", focusable: "false" });
  private readonly place = h("div", {}, this.svg);
  private width = 0;

  constructor(private spec: Intervals) {
    this.frame = figure(this.place);
    this.element = this.frame.element;
    new ResizeObserver(() => {
      if (this.place.clientWidth !== this.width) this.draw();
    }).observe(this.place);
    this.show(spec);
  }

  show(spec: Intervals): void {
    this.spec = spec;
    const { x, rows, heads = ["from", x.title, "to"] } = spec;
    const named = (texts: readonly string[]) => texts.filter((_, at) => heads[at]);
    this.frame.describe(spec.title, spec.summary, [], () => ({
      heads: ["", ...named(heads)],
      rows: rows.map((row) => [row.label, ...named([row.low, row.value, row.high].map((one) => written(x, one)))]),
    }));
    this.draw();
  }

  private draw(): void {
    this.width = this.place.clientWidth;
    if (!this.width) return;
    const { x, rows, truth } = this.spec;
    const top = truth ? 22 : 4;
    const bottom = top + ROW * rows.length + 6;
    const height = bottom + 46;
    const toX = position(x, 10, this.width - 10);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.svg.setAttribute("width", String(this.width));
    this.svg.setAttribute("height", String(height));
    this.svg.replaceChildren(
      ...ticks(x, Math.max(2, Math.min(7, Math.floor(this.width / 90)))).flatMap((tick) => [
        s("line", { class: "grid", x1: toX(tick), x2: toX(tick), y1: top, y2: bottom }),
        s("text", { class: "tick", x: toX(tick), y: bottom + 17, "text-anchor": "middle" }, written(x, tick)),
      ]),
      s("text", { class: "title", x: this.width / 2, y: bottom + 39, "text-anchor": "middle" }, x.title),
      ...(truth ? [this.truth(truth.label, toX(truth.at), top, bottom)] : []),
      ...rows.map((row, at) => drawn(row, toX, top + ROW * at + 14)),
    );
  }

  private truth(label: string, x: number, top: number, bottom: number): SVGElement {
    const end = x > this.width / 2;
    return s(
      "g",
      { class: "rule c-ink" },
      s("line", { x1: x, x2: x, y1: top - 8, y2: bottom }),
      s("text", { x: end ? x - 6 : x + 6, y: top - 8, "text-anchor": end ? "end" : "start" }, label),
    );
  }
}

function drawn({ label, color, low, value, high }: Interval, toX: (value: number) => number, y: number): SVGElement {
  return s(
    "g",
    { class: `interval c-${color}` },
    s("text", { x: 10, y }, label),
    s("line", { x1: toX(low), x2: toX(high), y1: y + 14, y2: y + 14 }),
    s("circle", { cx: toX(value), cy: y + 14, r: 5 }),
  );
}
