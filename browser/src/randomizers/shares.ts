// Secret shares: numbers that look random, and whose sum is the answer plus this person's noise.

import { refuse } from "../errors.js";
import { fraction, toNumber } from "../fractions.js";
import { NegativeBinomial, once } from "../noise.js";
import { words, type Source } from "../random.js";
import { inner, large, sizeOfBits, whole, type Instructions, type Randomizer } from "./randomizer.js";

/** Splits each of several secrets into shares, modulo a power of two. */
interface Splitting {
  /** `shares` rows, with a share of each secret in every row. */
  split(secrets: readonly bigint[], source: Source): bigint[][];
}

function splittingOf(from: Instructions): Splitting {
  const modulus = large(from, "modulus", 1n << 63n);
  const count = whole(from, "shares", 1, 10_000);
  const bits = modulus.toString(2).length - 1;
  if (modulus !== 1n << BigInt(bits) || bits < 1) refuse("must have a modulus that is a power of two");
  const noise = from["noise"] === undefined ? undefined : noiseOf(inner(from, "noise"));
  return {
    split(secrets, source) {
      const width = secrets.length;
      const [plus, minus] = [noise?.().draws(source, width), noise?.().draws(source, width)];
      const drawn = words(source, count * width, sizeOfBits(bits));
      const rows = Array.from({ length: count }, (_, at) => drawn.slice(at * width, (at + 1) * width));
      rows[count - 1] = secrets.map((secret, place) => {
        const noisy = secret + (plus?.[place] ?? 0n) - (minus?.[place] ?? 0n);
        return rows.slice(0, -1).reduce((left, row) => left - row[place]!, noisy);
      });
      return rows.map((row) => row.map((one) => BigInt.asUintN(bits, one)));
    },
  };
}

function noiseOf(from: Instructions): () => NegativeBinomial {
  const positive = (name: string) => {
    const found = fraction(String(from[name]));
    const near = toNumber(found);
    if (!(near > 0 && near <= 1024)) refuse("must have noise with positive parameters");
    return found;
  };
  const [r, gamma] = [positive("r"), positive("gamma")];
  return once(() => new NegativeBinomial(r, gamma));
}

/** Sends shares of the level. */
export function shares(from: Instructions): Randomizer {
  const splitting = splittingOf(from);
  return {
    columns: 1,
    localEpsilon: Infinity,
    domain: 1n << 62n,
    send: (value, source) => splitting.split([BigInt(value)], source),
    meaning: (numbers) => ({ kind: "share", numbers }),
  };
}

/** Sends shares of a count for every bucket: 1 for the own bucket, and 0 for the others. A message has
 * a share of every bucket, or a bucket and one share. */
export function bucketShares(from: Instructions): Randomizer {
  const splitting = splittingOf(from);
  const buckets = whole(from, "buckets", 2, 2 ** 16);
  const vectors = from["vectors"] === true;
  return {
    columns: vectors ? buckets : 2,
    localEpsilon: Infinity,
    domain: BigInt(buckets),
    send(value, source) {
      const counts = Array.from({ length: buckets }, (_, bucket) => BigInt(bucket === Number(value)));
      const rows = splitting.split(counts, source);
      return vectors ? rows : rows.flatMap((row) => row.map((share, bucket) => [bucket, share]));
    },
    meaning: (numbers) => ({ kind: "share", numbers: vectors ? numbers : numbers.slice(1) }),
  };
}
