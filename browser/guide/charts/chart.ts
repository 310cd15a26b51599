// Charts with two axes: lines, points, bars and bands. Each chart says in a sentence what it shows, has
// a table of its numbers, and can be read with a pointer or with the arrow keys.

import { h } from "../../pages/dom.js";
import { figure, type Figure } from "./figure.js";
import { position, ticks, written, type Axis } from "./scale.js";
import { path, s } from "./svg.js";

/** Colors follow the trust. Other colors are for what belongs to no trust. */
export type Color = "central" | "shuffle" | "local" | "ink" | "soft" | "accent" | "none";

export interface Series {
  readonly label: string;
  readonly color: Color;
  /** Marks are short strokes, such as those for the truth beside an estimate. */
  readonly kind: "line" | "dashed" | "points" | "marks" | "bars" | "band";
  /** Pairs [x, y]. Those of a band are [x, low, high]. */
  readonly points: readonly (readonly number[])[];
  /** The width of bars, in units of the axis. */
  readonly width?: number;
}

/** A line across the chart that marks a number on one of the axes. */
export interface Rule {
  readonly on: "x" | "y";
  readonly at: number;
  readonly label: string;
  readonly color?: Color;
}

export interface Spec {
  readonly title: string;
  /** What the chart shows, with its main numbers, in a sentence or two. */
  readonly summary: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
  readonly rules?: readonly Rule[];
}

const GAP = 8;
const LETTER = 8; // about the width of a letter in a label, in pixels, in fonts with wide letters

/** A chart that can be shown again with other numbers. */
export class Chart {
  readonly element: HTMLElement;
  private readonly frame: Figure;
  private readonly svg = s("svg", { "aria-hidden": "true", focusable: "false" });
  private readonly reader = h(
    "div",
    { class: "reader", role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuenow": 0 },
    this.svg,
  );
  private readonly reading = h("p", { class: "reading", "aria-hidden": "true" });
  private width = 0;
  private chosen: number | null = null; // where the reader looks, in the list of `stops`

  constructor(private spec: Spec) {
    this.frame = figure(this.reader, this.reading);
    this.element = this.frame.element;
    this.reader.addEventListener("keydown", (event) => this.key(event));
    this.reader.addEventListener("pointermove", (event) => this.point(event));
    this.reader.addEventListener("pointerleave", () => this.read(null));
    this.reader.addEventListener("blur", () => this.read(null));
    new ResizeObserver(() => {
      if (this.reader.clientWidth !== this.width) this.draw();
    }).observe(this.reader);
    this.show(spec);
  }

  show(spec: Spec): void {
    this.spec = spec;
    const legend = spec.series.map(({ label, color, kind }) => ({ label, color, kind }));
    this.frame.describe(spec.title, spec.summary, legend, () => this.table());
    this.reader.setAttribute("aria-label", `Read the chart: ${spec.title}`);
    if (this.chosen !== null && this.chosen >= this.stops.length) this.chosen = null;
    this.draw();
  }

  /** All numbers on the x axis at which something is drawn. */
  private get stops(): number[] {
    return [...new Set(this.spec.series.flatMap(({ points }) => points.map(([x]) => x!)))].sort((a, b) => a - b);
  }

  private table(): { heads: string[]; rows: string[][] } {
    const { x, y, series } = this.spec;
    const rows = this.stops.map((stop) => [
      written(x, stop),
      ...series.map(({ points }) => {
        const found = points.find(([at]) => at === stop);
        return found ? found.slice(1).map((one) => written(y, one)).join(" to ") : "";
      }),
    ]);
    return { heads: [x.title, ...series.map(({ label }) => label)], rows };
  }

  private draw(): void {
    this.width = this.reader.clientWidth;
    if (!this.width) return; // the chart is not on the page yet
    const { x, y, series, rules = [] } = this.spec;
    const height = Math.round(Math.min(360, Math.max(230, this.width * 0.6)));
    const yTicks = ticks(y, 5);
    const left = 12 + LETTER * Math.max(...yTicks.map((tick) => written(y, tick).length));
    const area = { left, right: this.width - 14, top: 34, bottom: height - 46 };
    const toX = position(x, area.left, area.right);
    const toY = position(y, area.bottom, area.top);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.svg.setAttribute("width", String(this.width));
    this.svg.setAttribute("height", String(height));
    const base = y.log || y.low >= 0 ? area.bottom : toY(0); // where bars begin
    const marks = series.map((one) => drawn(one, toX, toY, base));
    this.svg.replaceChildren(
      ...this.axes(area, toX, toY, yTicks),
      s("g", { class: "marks" }, ...marks),
      ...rules.map((rule) => ruled(rule, toX, toY, area)),
      this.cursor(area, toX, toY),
    );
    this.say();
  }

  private axes(area: Area, toX: Place, toY: Place, yTicks: readonly number[]): SVGElement[] {
    const { x, y } = this.spec;
    const xTicks = spread(x, toX);
    const middle = (tick: number) => {
      const half = (LETTER * written(x, tick).length) / 2;
      return Math.max(half, Math.min(this.width - half, toX(tick)));
    };
    return [
      s("text", { class: "title", x: 0, y: 14 }, y.title),
      ...yTicks.flatMap((tick) => [
        s("line", { class: "grid", x1: area.left, x2: area.right, y1: toY(tick), y2: toY(tick) }),
        s("text", { class: "tick", x: area.left - GAP, y: toY(tick) + 4, "text-anchor": "end" }, written(y, tick)),
      ]),
      s("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }),
      ...xTicks.flatMap((tick) => [
        s("line", { class: "axis", x1: toX(tick), x2: toX(tick), y1: area.bottom, y2: area.bottom + 5 }),
        s("text", { class: "tick", x: middle(tick), y: area.bottom + 19, "text-anchor": "middle" }, written(x, tick)),
      ]),
      s("text", { class: "title", x: (area.left + area.right) / 2, y: area.bottom + 41, "text-anchor": "middle" }, x.title),
    ];
  }

  // Reading ----------------------------------------------------------------------------------------

  private cursor(area: Area, toX: Place, toY: Place): SVGElement {
    if (this.chosen === null) return s("g");
    const stop = this.stops[this.chosen]!;
    const dots = this.spec.series.flatMap(({ points, color }) => {
      const found = points.find(([at]) => at === stop);
      return (found ?? []).slice(1).map((one) => s("circle", { class: `c-${color}`, cx: toX(stop), cy: toY(one), r: 5 }));
    });
    const line = s("line", { x1: toX(stop), x2: toX(stop), y1: area.top, y2: area.bottom });
    return s("g", { class: "cursor" }, line, ...dots);
  }

  private say(): void {
    const { x, y, series } = this.spec;
    const { stops } = this;
    this.reader.setAttribute("aria-valuemax", String(Math.max(0, stops.length - 1)));
    this.reader.setAttribute("aria-valuenow", String(this.chosen ?? 0));
    const stop = stops[this.chosen ?? 0];
    if (stop === undefined) {
      this.reader.setAttribute("aria-valuetext", "nothing yet");
      this.reading.textContent = "";
      return;
    }
    const values = series.flatMap(({ label, points }) => {
      const found = points.find(([at]) => at === stop);
      return found ? [`${label} ${found.slice(1).map((one) => written(y, one)).join(" to ")}`] : [];
    });
    const words = `${x.title} ${written(x, stop)}: ${values.join(", ")}`;
    this.reader.setAttribute("aria-valuetext", words);
    this.reading.textContent = this.chosen === null ? "" : words;
  }

  private read(at: number | null): void {
    if (at === this.chosen) return;
    this.chosen = at;
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const last = this.stops.length - 1;
    const far = Math.max(1, Math.round(last / 10));
    const moves: Record<string, number> = {
      ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: far, PageDown: -far, Home: -last, End: last,
    };
    const move = moves[event.key];
    if (move === undefined || last < 0) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(last, this.chosen === null && Math.abs(move) === 1 ? 0 : (this.chosen ?? 0) + move)));
  }

  private point(event: PointerEvent): void {
    const { stops } = this;
    if (!stops.length) return;
    const { x, y } = this.spec;
    const left = 12 + LETTER * Math.max(...ticks(y, 5).map((tick) => written(y, tick).length));
    const toX = position(x, left, this.width - 14);
    const at = event.clientX - this.reader.getBoundingClientRect().left;
    const near = stops.reduce((best, stop, index) =>
      Math.abs(toX(stop) - at) < Math.abs(toX(stops[best]!) - at) ? index : best, 0);
    this.read(near);
  }
}

type Place = (value: number) => number;

/** As many labeled numbers as stand side by side without touching. */
function spread(axis: Axis, to: Place): number[] {
  const length = (tick: number) => LETTER * (written(axis, tick).length + 1);
  const apart = (found: readonly number[]) =>
    found.every((tick, at) => !at || to(tick) - to(found[at - 1]!) >= (length(tick) + length(found[at - 1]!)) / 2);
  for (let count = 7; count > 2; count--) {
    const found = ticks(axis, count);
    if (apart(found)) return found;
  }
  return ticks(axis, 2);
}

interface Area {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

function drawn({ kind, color, points, width = 1 }: Series, toX: Place, toY: Place, base: number): SVGElement {
  const group = s("g", { class: `c-${color} ${kind}` });
  const places = points.map(([x, y]) => [toX(x!), toY(y!)] as const);
  if (kind === "line" || kind === "dashed") group.append(s("path", { d: path(places) }));
  if (kind === "points") group.append(...places.map(([cx, cy]) => s("circle", { cx, cy, r: 3.5 })));
  if (kind === "marks") group.append(...places.map(([x, y]) => s("path", { d: path([[x - 9, y], [x + 9, y]]) })));
  if (kind === "band") {
    const upper = points.map(([x, , high]) => [toX(x!), toY(high!)] as const);
    group.append(s("path", { d: `${path([...upper, ...[...places].reverse()])}Z` }));
  }
  if (kind === "bars") {
    for (const [x, y] of points) {
      const left = toX(x! - width / 2) + 0.5;
      const wide = Math.max(1, toX(x! + width / 2) - left - 0.5);
      const end = toY(y!);
      group.append(s("rect", { x: left, width: wide, y: Math.min(end, base), height: Math.abs(base - end) }));
    }
  }
  return group;
}

function ruled({ on, at, label, color = "ink" }: Rule, toX: Place, toY: Place, area: Area): SVGElement {
  const group = s("g", { class: `rule c-${color}` });
  if (on === "x") {
    const x = toX(at);
    const end = x + LETTER * label.length > area.right;
    group.append(
      s("line", { x1: x, x2: x, y1: area.top - 6, y2: area.bottom }),
      s("text", { x: end ? x - 6 : x + 6, y: area.top + 4, "text-anchor": end ? "end" : "start" }, label),
    );
  } else {
    group.append(
      s("line", { x1: area.left, x2: area.right, y1: toY(at), y2: toY(at) }),
      s("text", { x: area.right, y: toY(at) - 6, "text-anchor": "end" }, label),
    );
  }
  return group;
}
