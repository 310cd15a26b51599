// Randomizers that send the value and noise messages beside it. They need a shuffler.

import { refuse } from "../errors.js";
import { fraction, toNumber } from "../fractions.js";
import { once, poisson } from "../noise.js";
import { bernoulli, coin, FINE, Table, uniform, uniforms, WHOLE } from "../random.js";
import { ticked } from "./boxes.js";
import { cellsOf, path, treeOf } from "./tree.js";
import {
  fitting,
  inner,
  large,
  larges,
  valueOf,
  whole,
  wholes,
  type Instructions,
  type Meaning,
  type Message,
  type Randomizer,
} from "./randomizer.js";

const MOST_CELLS = 2 ** 24;

/** The messages that tell a person's value, and the answers that have them. */
interface Own {
  readonly domain: bigint;
  readonly most: number; // the largest number of these messages
  of(value: number | bigint): Message[];
  meaning(message: Message): Meaning;
}

function ownOf(from: Instructions, cells: number): Own {
  switch (from["kind"]) {
    case "value":
      return { domain: BigInt(cells), most: 1, of: (value) => [[value]], meaning: valueOf };
    case "ticks": {
      const most = whole(from, "most", 1, cells);
      return {
        domain: 1n << BigInt(cells),
        most,
        of: (value) => ticked(value, cells, most).map((box) => [box]),
        meaning: ([box]) => ({ kind: "box", box: Number(box) }),
      };
    }
    case "path": {
      const tree = treeOf(from);
      if (tree.nodes !== cells) refuse("must have noise for every node of a tree");
      const most = tree.sizes.length;
      return {
        domain: BigInt(tree.cells),
        most,
        of: (value) => path(tree, Number(value)),
        meaning: (message) => cellsOf(tree, message),
      };
    }
    case "margins": {
      const [rows = 0, columns = 0] = wholes(from, "shape", 2, MOST_CELLS);
      if (rows + columns !== cells) refuse("must have noise for every row and column");
      return {
        domain: BigInt(rows) * BigInt(columns),
        most: 2,
        of: (value) => [[Math.floor(Number(value) / columns)], [rows + (Number(value) % columns)]],
        meaning: ([side]) => {
          const row = Number(side) < rows;
          return { kind: "side", row, value: Number(side) - (row ? 0 : rows) };
        },
      };
    }
    default:
      return refuse("must have known messages");
  }
}

/** Sends the value, and a Poisson number of uniform messages. */
export function fakeUsers(from: Instructions): Randomizer {
  const cells = whole(from, "cells", 1, MOST_CELLS);
  const own = ownOf(inner(from, "own"), cells);
  const mean = fraction(String(from["mean"]));
  if (mean.over < 0n || toNumber(mean) > 20_000) refuse("must have fewer noise messages");
  const number = once(() => poisson(mean));
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: own.domain,
    send(value, source, slots) {
      const sent = own.of(value);
      return fitting(slots, own.most - sent.length, () => [
        ...sent,
        ...uniforms(source, number().sample(source), cells).map((cell) => [cell]),
      ]);
    },
    meaning: own.meaning,
  };
}

/** The node of each level of a tree. The shuffler adds the noise. */
export function paths(from: Instructions): Randomizer {
  const tree = treeOf(from);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: BigInt(tree.cells),
    send: (value) => path(tree, Number(value)),
    meaning: (message) => cellsOf(tree, message),
  };
}

/** A table of noise: how many messages +1 and −1 each entry has. */
function cappedNoise(from: Instructions): { table: Table; copies: [number, number][] } {
  const weights = larges(from, "weights", 100_000, FINE);
  const copies = from["copies"];
  if (!Array.isArray(copies) || weights.length !== copies.length) {
    refuse("must have a weight for each entry of a table");
  }
  if (weights.reduce((sum, one) => sum + one, 0n) !== FINE) refuse("must have weights with sum 2^128");
  for (const [at] of copies.entries()) {
    if (wholes(copies as unknown as Instructions, String(at), 2, 255).length !== 2) {
      refuse("must have two numbers for each entry of a table");
    }
  }
  return { table: new Table(weights), copies: copies as [number, number][] };
}

/** Sends +1 for yes, and noise messages +1 and −1. */
export function signs(from: Instructions): Randomizer {
  const { table, copies } = cappedNoise(from);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: 2n,
    send(value, source, slots) {
      const held = Number(value);
      return fitting(slots, 1 - held, () => {
        const [plus, minus] = copies[table.sample(source)]!;
        return [...repeated(1, plus + held), ...repeated(-1, minus)];
      });
    },
    meaning: ([sign]) => ({ kind: "sign", plus: Number(sign) > 0, value: 1 }),
  };
}

/** Sends +1 of a bucket, and noise messages +1 and −1 of a random bucket. */
export function signedBuckets(from: Instructions): Randomizer {
  const buckets = whole(from, "buckets", 2, MOST_CELLS);
  const { table, copies } = cappedNoise(from);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: BigInt(buckets),
    send(value, source, slots) {
      return fitting(slots, 0, () => {
        const [plus, minus] = copies[table.sample(source)]!;
        const bucket = 2 * uniform(source, buckets);
        return [[2 * Number(value)], ...repeated(bucket, plus), ...repeated(bucket + 1, minus)];
      });
    },
    meaning: ([code]) => ({ kind: "sign", plus: Number(code) % 2 === 0, value: Number(code) >> 1 }),
  };
}

/** Sends one message for yes and, with probability weight/2^64, one more. */
export function oneMore(from: Instructions): Randomizer {
  const weight = large(from, "weight", WHOLE);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: 2n,
    send: (value, source, slots) =>
      fitting(slots, 1 - Number(value), () =>
        repeated(1, Number(value) + Number(coin(source, weight))),
      ),
    meaning: valueOf,
  };
}

/** Sends the bucket, and with probability weight/2^64 a message for each bucket. */
export function oneOfEach(from: Instructions): Randomizer {
  const buckets = whole(from, "buckets", 2, 10_000);
  const weight = large(from, "weight", WHOLE);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: BigInt(buckets),
    send: (value, source, slots) =>
      fitting(slots, 0, () => {
        const noise = [...bernoulli(source, buckets, weight).entries()].filter(([, bit]) => bit);
        return [[value], ...noise.map(([bucket]) => [bucket])];
      }),
    meaning: valueOf,
  };
}

function repeated(message: number, copies: number): Message[] {
  return Array.from({ length: copies }, () => [message]);
}
