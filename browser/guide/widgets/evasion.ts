// Part 1: how wrong a direct question is if some people deny, and how wrong randomized answers are.

import { Chart, type Spec } from "../charts/chart.js";
import { percent, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { readings, slider } from "./controls.js";

type Row = (typeof data.doorbell.evasion)[number];

const COUNTED = "The official counts";
const ERROR = "Error that stays";
const ENOUGH = "Randomized answers are better";

export function evasion(place: HTMLElement): void {
  const { evasion: rows, share } = data.doorbell;
  const shown = readings([COUNTED, ERROR, ENOUGH]);
  const show = (row: Row) => {
    shown.set(COUNTED, percent(row.counted, 1));
    shown.set(ERROR, row.denial ? `${short(100 * (share - row.counted))} points` : "none");
    shown.set(ENOUGH, row.enough_people === null ? "never" : `from ${short(row.enough_people, 5)} people`);
    chart.show(spec(row));
  };
  const first = rows.findIndex((row) => row.denial >= 0.3);
  const chart = new Chart(spec(rows[first]!));
  const denial = slider("How many of those who did it deny it?", rows, first, (row) => percent(row.denial), show);
  place.append(denial.element, shown.element, chart.element);
  show(rows[first]!);
}

function spec(row: Row): Spec {
  const { crowds, randomized_errors } = data.doorbell;
  const last = crowds.length - 1;
  return {
    title: "Typical error of the share, in percentage points",
    summary:
      `If ${percent(row.denial)} of them deny it, the error of a direct question is ` +
      `${short(100 * row.errors[0]!)} points with ${short(crowds[0]!)} people and still ` +
      `${short(100 * row.errors[last]!)} points with ${short(crowds[last]!)} people. The error of randomized ` +
      `answers falls from ${short(100 * randomized_errors[0]!)} to ${short(100 * randomized_errors[last]!, 1)} points.`,
    x: { title: "people asked", low: crowds[0]!, high: crowds[last]!, log: true },
    y: { title: "percentage points", low: 0.05, high: 30, log: true },
    series: [
      {
        label: "direct question",
        color: "ink",
        kind: "line",
        points: row.denial ? crowds.map((people, at) => [people, 100 * row.errors[at]!]) : [],
      },
      {
        label: "randomized answers",
        color: "local",
        kind: "line",
        points: crowds.map((people, at) => [people, 100 * randomized_errors[at]!]),
      },
    ],
  };
}
