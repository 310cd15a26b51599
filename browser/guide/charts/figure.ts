// What all charts have around their drawing: a title, a legend, a summary in words, and a table.

import { h } from "../../pages/dom.js";

export interface Entry {
  readonly label: string;
  readonly color: string;
  readonly kind: string;
}

export interface Table {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Figure {
  readonly element: HTMLElement;
  describe(title: string, summary: string, legend: readonly Entry[], table: () => Table): void;
}

const MOST_ROWS = 50;

/** A figure around a drawing. The table is made when the reader opens it. */
export function figure(...drawing: HTMLElement[]): Figure {
  const caption = h("figcaption");
  const legend = h("ul", { class: "legend" });
  const summary = h("p", { class: "summary" });
  const place = h("div", { class: "scroll", tabindex: 0, role: "group" });
  const numbers = h("details", { class: "numbers" }, h("summary", {}, "Show the numbers"), place);
  const element = h("figure", { class: "chart" }, caption, legend, ...drawing, summary, numbers);
  let table: () => Table = () => ({ heads: [], rows: [] });
  const fill = () => {
    if (numbers.open) place.replaceChildren(tableOf(table()));
  };
  numbers.addEventListener("toggle", fill);
  return {
    element,
    describe(title, words, entries, made) {
      caption.textContent = title;
      summary.textContent = words;
      place.setAttribute("aria-label", `Numbers of: ${title}`);
      legend.hidden = entries.length < 2;
      legend.replaceChildren(
        ...entries.map(({ label, color, kind }) => h("li", { class: kind }, h("i", { class: `c-${color}` }), label)),
      );
      table = made;
      fill();
    },
  };
}

function tableOf({ heads, rows }: Table): HTMLElement {
  const every = Math.ceil(rows.length / MOST_ROWS);
  const shown = rows.filter((_, at) => at % every === 0 || at === rows.length - 1);
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h(
      "tbody",
      {},
      ...shown.map(([first, ...rest]) =>
        h("tr", {}, h("th", { scope: "row" }, first!), ...rest.map((one) => h("td", {}, one))),
      ),
    ),
  );
}
