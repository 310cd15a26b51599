// Boxes that people tick, filled up to a fixed number of values. The fillers come after the boxes.

import { refuse } from "../errors.js";
import { Table, uniform, WHOLE, type Source } from "../random.js";
import { membersOf, put, rowBytes } from "./oracles.js";
import { larges, loss, whole, type Instructions, type Randomizer, type Value } from "./randomizer.js";

const MOST_BOXES = 62;

/** The ticked boxes of a person who may tick `most` of them. */
export function ticked(value: Value, boxes: number, most: number): number[] {
  const places = Array.from({ length: boxes }, (_, box) => box);
  const found = places.filter((box) => (BigInt(value) >> BigInt(box)) & 1n);
  if (found.length > most) refuse("must have a randomizer that takes every answer");
  return found;
}

/** Sends the ticked boxes and then fillers. The shuffler adds the noise. */
export function filledTicks(from: Instructions): Randomizer {
  const boxes = whole(from, "boxes", 1, MOST_BOXES);
  const ticks = whole(from, "ticks", 1, boxes);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: 1n << BigInt(boxes),
    send(value) {
      const own = ticked(value, boxes, ticks);
      return Array.from({ length: ticks }, (_, at) => [own[at] ?? boxes]);
    },
    meaning: ([box]) => (Number(box) < boxes ? { kind: "box", box: Number(box) } : { kind: "filler" }),
  };
}

/** Sends a random set of boxes and fillers. With probability weights[i]/2^64, the set has i of the
 * person's own values. */
export function filledSet(from: Instructions): Randomizer {
  const boxes = whole(from, "boxes", 1, MOST_BOXES);
  const ticks = whole(from, "ticks", 1, boxes);
  const size = whole(from, "size", 1, boxes);
  const weights = larges(from, "weights", boxes + 1, WHOLE);
  if (weights.length !== Math.min(ticks, size) + 1) refuse("must have a weight for each number of own values");
  const table = new Table(weights);
  const values = boxes + ticks;
  return {
    columns: rowBytes(values),
    localEpsilon: setLoss(weights, boxes, ticks, size),
    domain: 1n << BigInt(boxes),
    send(value, source) {
      const own = new Set(ticked(value, boxes, ticks));
      for (let filler = boxes; own.size < ticks; filler++) own.add(filler);
      const common = table.sample(source);
      const inside = chosen(common, ticks, source);
      const outside = chosen(size - common, boxes, source);
      const row = new Uint8Array(rowBytes(values));
      for (let at = 0, mine = 0, other = 0; at < values; at++) {
        put(row, at, own.has(at) ? inside[mine++]! : outside[other++]!);
      }
      return [[...row]];
    },
    meaning(message) {
      const members = membersOf(message, values).values;
      const named = members.filter((one) => one < boxes);
      return { kind: "boxes", boxes: named, fillers: members.length - named.length };
    },
  };
}

/** A uniform set of `count` of `among` elements, as bits. */
function chosen(count: number, among: number, source: Source): boolean[] {
  let left = count;
  return Array.from({ length: among }, (_, place) => {
    const taken = uniform(source, among - place, 1) < left;
    left -= Number(taken);
    return taken;
  });
}

/** The privacy loss: ln of the ratio between the likeliest and the least likely set. */
function setLoss(weights: readonly bigint[], boxes: number, ticks: number, size: number): number {
  // All sets with the same number of own values are equally likely.
  const sets = weights.map((_, common) => choose(ticks, common) * choose(boxes, size - common));
  let [most, least] = [0, 0];
  for (const at of weights.keys()) {
    if (weights[at]! * sets[most]! > weights[most]! * sets[at]!) most = at;
    if (weights[at]! * sets[least]! < weights[least]! * sets[at]!) least = at;
  }
  const under = weights[least]! * sets[most]!;
  return loss(weights[most]! * sets[least]! - under, under);
}

/** The number of sets of `count` of `among` elements. */
function choose(among: number, count: number): bigint {
  let found = 1n;
  for (let at = 1; at <= count; at++) found = (found * BigInt(among - count + at)) / BigInt(at);
  return found;
}
