// Most people say that they follow the protocol, and do not.

import { data } from "../../data.js";
import { short } from "../../charts/numbers.js";
import { thinned } from "./thinned.js";

const { honesty, people } = data.breaking;

export function honestyPanel(place: HTMLElement): void {
  thinned(place, {
    label: "People who follow the protocol",
    words: (row) => `${short(row.people)} of ${short(people)}`,
    rows: honesty.rows,
    first: honesty.rows.findIndex((row) => row.people === people / 10),
    axis: "Honest people",
    title: "What is left if the noise of the others is missing",
    said: (row) =>
      row.refusal === null
        ? ["Everybody is honest, so the library has nothing to refuse:", `standard error  ${row.repaired.toFixed(2)}`]
        : ["Asked to count with fewer honest people than it was built for, the library refuses:", row.refusal],
    after: (row) =>
      row.refusal === null
        ? ""
        : `Tell it the truth with hc.Crowd(${people}, honest=${row.people}), and it adds more noise. Then ε is 1 ` +
          `again, and the standard error grows from ${honesty.standard_error.toFixed(1)} to ` +
          `${row.repaired.toFixed(1)} people.`,
  });
}
