// Fields for the weights of a mechanism's outputs.

import { h } from "../../pages/dom.js";
import { letter } from "./mechanisms.js";

const MOST = 1000;

export type Weights = readonly [readonly number[], readonly number[]];

/** A table of number fields, with a row for each output. `changed` gets null if a dataset has no
 * output. */
export function weightsTable(
  first: readonly (readonly number[])[],
  changed: (weights: Weights | null) => void,
): HTMLElement {
  const field = (value: number, output: number, dataset: string) =>
    h("input", {
      type: "number",
      min: 0,
      max: MOST,
      step: 1,
      value,
      "aria-label": `Weight of output ${letter(output)} for the ${dataset} dataset`,
      input: () => changed(read()),
    });
  const fields = ["first", "second"].map((dataset, side) =>
    first[side]!.map((weight, output) => field(weight, output, dataset)),
  );
  const read = (): Weights | null => {
    const [one, other] = fields.map((side) => side.map(weightIn));
    return one!.some(Boolean) && other!.some(Boolean) ? [one!, other!] : null;
  };
  const heads = ["Output", "First dataset", "Second dataset"];
  return h(
    "table",
    { class: "weights" },
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h(
      "tbody",
      {},
      ...first[0]!.map((_, output) =>
        h("tr", {}, h("th", { scope: "row" }, letter(output)), ...fields.map((side) => h("td", {}, side[output]!))),
      ),
    ),
  );
}

/** The weight in a field: a whole number. What is no number counts as 0. */
function weightIn({ value }: HTMLInputElement): number {
  return Math.min(MOST, Math.max(0, Math.round(Number(value) || 0)));
}
