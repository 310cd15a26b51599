// Fewer people come than the noise was made for.

import { data } from "../../data.js";
import { percent, short } from "../../charts/numbers.js";
import { thinned } from "./thinned.js";

const { small, people } = data.breaking;

export function smallPanel(place: HTMLElement): void {
  thinned(place, {
    label: "People who came",
    words: (row) => `${short(row.people)} of ${short(people)}`,
    rows: small.rows,
    first: small.rows.findIndex((row) => row.people === people / 100),
    axis: "People who came",
    title: "What is left if the noise of the others is missing",
    said: (row) => {
      const refusals = [row.refusal, row.other].filter((one) => one !== null);
      return refusals.length
        ? [`The library refuses to count these people with the noise for ${short(people)}:`, ...refusals]
        : ["Everybody came, so the library has nothing to refuse:", `standard error  ${row.repaired.toFixed(2)}`];
    },
    after: (row) =>
      (row.refusal === null
        ? ""
        : `Built anew for ${short(row.people)} people, mixed randomized response keeps ε = 1. `) +
      `Its standard error is ${row.repaired.toFixed(1)} people, or ${percent(row.repaired / row.people, 2)} of the ` +
      `crowd. Without mixing, it would be ${percent(row.local / row.people, 2)} of the crowd.`,
  });
}
