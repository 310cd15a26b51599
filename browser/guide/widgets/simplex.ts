// Part 4: estimated shares of three answers, as points in and around a triangle.

import { h } from "../../pages/dom.js";
import { bernoulli } from "../../src/random.js";
import { percent, places, short } from "../charts/numbers.js";
import { inside, Triangle, visible, type Shares } from "../charts/triangle.js";
import { data } from "../data.js";
import { onPlane, onSimplex, squaredDistance, sum } from "../models/simplex.js";
import { source } from "../source.js";
import { button, buttons, choice, readings, result, slider } from "./controls.js";

type Level = (typeof data.answers.levels)[number];

const RAW = "Squared error, measured";
const MOVED = "Squared error, moved inside";
const THEORY = "Squared error, in theory";

export function simplex(place: HTMLElement): void {
  const { corners, shares, crowds, runs, levels } = data.answers;
  const truth = shares as unknown as Shares;
  const shown = readings([RAW, THEORY, MOVED]);
  const said = result();
  const triangle = new Triangle();
  let found: Shares[] = [];
  let moved = false;

  const draw = () => {
    const points = found.map(moved ? onSimplex : onPlane);
    const outside = points.filter((point) => !inside(point)).length;
    const far = points.filter((point) => !visible(point)).length;
    const words = moved ? "moved to the nearest point of the triangle" : "as they were estimated";
    triangle.show({
      title: `Estimates of ${found.length || "no"} crowds`,
      summary: found.length
        ? `${found.length} estimates, ${words}. ${outside} ${outside === 1 ? "is" : "are"} outside the triangle` +
          `${far ? `, and ${far} of these ${far === 1 ? "is" : "are"} too far away to be shown` : ""}.`
        : "No crowd has answered yet. The cross shows what all crowds hold.",
      corners,
      truth,
      points,
    });
  };

  const reset = () => {
    found = [];
    shown.set(THEORY, short((3 * level.value.variance) / people.value));
    shown.set(RAW, "–");
    shown.set(MOVED, "–");
    said.replaceChildren();
    draw();
  };

  const ask = () => {
    found = Array.from({ length: runs }, () => crowd(truth, people.value, level.value));
    const errors = (points: readonly Shares[]) => sum(points.map((one) => squaredDistance(one, truth))) / runs;
    const [raw, near] = [errors(found), errors(found.map(onSimplex))];
    shown.set(RAW, short(raw));
    shown.set(MOVED, short(near));
    said.replaceChildren(h("p", {}, `Moving the estimates into the triangle removes ${percent(1 - near / raw)} of the squared error.`));
    draw();
  };

  const people = slider("People in each crowd", crowds, 1, (count) => count.toLocaleString("en-US"), reset);
  const level = slider("ε", levels, 1, (one) => places(one.epsilon, 1), reset);
  const how = choice(
    "Show the estimates",
    [
      ["raw", "as they are"],
      ["moved", "moved inside"],
    ],
    (value) => {
      moved = value === "moved";
      draw();
    },
    "raw",
  );
  place.append(
    people.element,
    level.element,
    buttons(button(`Ask ${runs} crowds`, ask, true)),
    how,
    triangle.element,
    shown.element,
    said,
  );
  reset();
}

/** The estimated shares of one crowd. Bits are independent, so the ones at each place are counted at once. */
function crowd(truth: Shares, people: number, { flip, device }: Level): Shares {
  return truth.map((share) => {
    const holders = Math.round(share * people);
    const ones =
      sum([...bernoulli(source, holders, BigInt(device.own))]) +
      sum([...bernoulli(source, people - holders, BigInt(device.other))]);
    return (ones / people - flip) / (1 - 2 * flip);
  }) as unknown as Shares;
}
