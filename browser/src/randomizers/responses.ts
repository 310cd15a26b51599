// Randomized responses: a bit, one of several values, or a block of ticked boxes.

import { coin, uniform, WHOLE, type Source } from "../random.js";
import { large, loss, sizeOf, valueOf, whole, type Instructions, type Randomizer, type Value } from "./randomizer.js";

/** The value itself, or each other value below `among` with probability weight/2^64. */
export function respond(value: number, among: number, weight: bigint, source: Source): number {
  const blind = coin(source, BigInt(among) * weight);
  const size = sizeOf(among - 1);
  if (4n * BigInt(among) * weight > WHOLE) {
    const report = uniform(source, among, size);
    return blind ? report : value;
  }
  return blind ? uniform(source, among, size) : value;
}

/** The probability of each lie. All lies together must not exceed 1. */
export function lieWeight(from: Instructions, among: number): bigint {
  return large(from, "weight", WHOLE / BigInt(among));
}

/** Sends the value itself, sealed for the analyzer. */
export function disclosure(domain: bigint): Randomizer {
  return { columns: 1, localEpsilon: Infinity, domain, send: (value: Value) => [[value]], meaning: valueOf };
}

/** Sends a bit, or its opposite with probability weight/2^64. */
export function flip(from: Instructions): Randomizer {
  const weight = large(from, "weight", WHOLE / 2n);
  return {
    columns: 1,
    localEpsilon: loss(WHOLE - 2n * weight, weight),
    domain: 2n,
    send: (value, source) => [[Number(coin(source, weight)) ^ Number(value)]],
    meaning: valueOf,
  };
}

/** Sends one of several values. */
export function response(from: Instructions): Randomizer {
  const among = whole(from, "among", 2, 2 ** 24);
  const weight = lieWeight(from, among);
  return {
    columns: 1,
    localEpsilon: loss(WHOLE - BigInt(among) * weight, weight),
    domain: BigInt(among),
    send: (value, source) => [[respond(Number(value), among, weight, source)]],
    meaning: valueOf,
  };
}

/** Sends a random box, and a response about the boxes from this one on. */
export function blocks(from: Instructions): Randomizer {
  const boxes = whole(from, "boxes", 1, 62);
  const each = whole(from, "each", 1, 8);
  const among = 1 << each;
  const weight = lieWeight(from, among);
  return {
    columns: 2,
    localEpsilon: loss(WHOLE - BigInt(among) * weight, weight),
    domain: 1n << BigInt(boxes),
    blocks: { boxes, each },
    send(value, source, _slots, drawn) {
      const first = drawn ?? uniform(source, boxes, 1);
      let ticks = 0;
      for (let place = 0; place < each; place++) {
        ticks |= Number((BigInt(value) >> BigInt((first + place) % boxes)) & 1n) << place;
      }
      return [[first, respond(ticks, among, weight, source)]];
    },
    meaning([first, ticks]) {
      const box = (place: number) => (Number(first) + place) % boxes;
      const places = Array.from({ length: Math.min(each, boxes) }, (_, place) => place);
      return {
        kind: "ticks",
        boxes: places.map((place) => [box(place), ((Number(ticks) >> place) & 1) === 1] as const),
      };
    },
  };
}
