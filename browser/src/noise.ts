// The laws of noise, derived from their closed forms: Poisson numbers, shares of geometric noise, and
// two-sided geometric noise. headcount.randomness.shares makes the same tables.

import { decay, minusLog, type Fraction } from "./fractions.js";
import {
  bernoulli,
  bitLength,
  decided,
  FINE,
  realCoin,
  Table,
  uniformBelow,
  words,
  type Source,
} from "./random.js";

const DIGITS = 420; // binary digits of fixed-point numbers; tables need 128 of them
const LARGEST_CLUSTER = 1 << 12; // all larger clusters share one entry of the table
const NEGLIGIBLE = 10n ** 41n; // masses below 1/NEGLIGIBLE have no entry of their own
const LARGE = 14n; // a geometric number has J digits of its own if γ·2^J is at least this

/** What `make` returns, which is called when it is first needed. Pages show questions sooner if they
 * compute noise later. */
export function once<T>(make: () => T): () => T {
  let made: { readonly found: T } | undefined;
  return () => (made ??= { found: make() }).found;
}

/** The law Poisson(mean). The mean is a fraction of at most 20,000. */
export function poisson(mean: Fraction): Table {
  // P(k)/P(k−1) = mean/k. Masses begin with any number at the mode, and are divided by their sum.
  const one = 1n << BigInt(DIGITS);
  const mode = mean.over / mean.under;
  const above: bigint[] = [];
  for (let k = mode, mass = one; mass; ) {
    above.push(mass);
    k++;
    mass = (mass * mean.over) / (mean.under * k);
  }
  const under: bigint[] = [];
  for (let k = mode, mass = one; k > 0n; k--) {
    mass = (mass * mean.under * k) / mean.over;
    under.push(mass);
  }
  const masses = [...under.reverse(), ...above];
  return Table.fine(masses, sum(masses));
}

/** Draws shares of geometric noise: the negative binomial law NB(r, e^−γ). */
export class NegativeBinomial {
  private readonly any: bigint; // the probability of at least one cluster, times 2^128
  private readonly several: Table;
  private readonly clusters: Clusters;

  constructor(r: Fraction, gamma: Fraction) {
    this.clusters = new Clusters(gamma);
    const { rate } = this.clusters;
    const number = poisson({ over: r.over * rate.over, under: r.under * rate.under });
    const none = number.outcomes[0] === 0 ? number.weights[0]! : 0n;
    this.any = FINE - none;
    const positive = number.outcomes.map((k, at) => (k ? number.weights[at]! : 0n));
    const first = number.outcomes.findIndex((k) => k > 0);
    this.several =
      first < 0
        ? new Table([FINE], 1)
        : Table.fine(positive.slice(first), this.any, number.outcomes[first]!);
  }

  draw(source: Source): bigint {
    return this.draws(source, 1)[0]!;
  }

  /** `count` independent shares. */
  draws(source: Source, count: number): bigint[] {
    const out = new Array<bigint>(count).fill(0n);
    const having = [...bernoulli(source, count, this.any, 128).entries()].filter(([, bit]) => bit);
    const numbers = this.several.samples(source, having.length);
    const sizes = this.clusters.sample(source, numbers.reduce((total, one) => total + one, 0));
    having.forEach(([place], at) => (out[place] = sum(sizes.splice(0, numbers[at]!))));
    return out;
  }
}

/** Sizes k ≥ 1 with P(k) = a^k/(kL), a = e^−γ and L = −ln(1−a). Large sizes are drawn by rejection. */
class Clusters {
  readonly rate: Fraction; // L
  private readonly small: Table;
  private readonly beyond: number;
  private readonly starts: bigint[];
  private readonly pieces: Table;

  constructor(private readonly gamma: Fraction) {
    const digits = DIGITS + 3 * Number(gamma.over / gamma.under);
    const one = 1n << BigInt(digits);
    const a = decay(gamma, digits);
    const rate = minusLog(one - a, digits);
    this.rate = { over: rate, under: one };
    const masses = [(a * one) / rate];
    for (let k = 2n; masses.length < LARGEST_CLUSTER; k++) {
      const last = masses.at(-1)!;
      if (last * a * NEGLIGIBLE < (one - a) * one) break; // ratios rise to a
      masses.push((last * a * (k - 1n)) / (k * one));
    }
    const rest = one - sum(masses);
    this.small = Table.fine([...masses, rest > 0n ? rest : 0n], one, 1);
    this.beyond = masses.length + 1;
    this.starts = [BigInt(this.beyond)];
    while (gamma.over * this.starts.at(-1)! < gamma.under) this.starts.push(2n * this.starts.at(-1)!);
    const above = this.starts.map((start) =>
      decay({ over: gamma.over * start, under: gamma.under }, digits),
    );
    if (above.length === 1) above[0] = one;
    else above.push((above.pop()! * one) / (this.starts.at(-1)! * (one - a)));
    this.pieces = Table.fine(above, sum(above));
  }

  sample(source: Source, count: number): bigint[] {
    const sizes = this.small.samples(source, count).map(BigInt);
    return sizes.map((size) => (size === BigInt(this.beyond) ? this.large(source) : size));
  }

  private large(source: Source): bigint {
    for (;;) {
      const start = this.starts[this.pieces.sample(source)]!;
      let more: bigint;
      let decayed = true;
      if (start === this.starts.at(-1)) more = geometric(source, this.gamma);
      else {
        more = uniformBelow(source, start);
        decayed = !more || decayCoin(source, times(this.gamma, more));
      }
      if (decayed && uniformBelow(source, start + more) < start) return start + more;
    }
  }
}

/** Two-sided geometric noise with ratio e^−rate, cut off at ±most, as a table. */
export function twoSided(rate: Fraction, most: number): Table {
  const one = 1n << BigInt(DIGITS);
  const ratio = decay(rate, DIGITS);
  const weights: bigint[] = [];
  let mass = (FINE * one * one) / (one + ratio); // FINE/(1 + ratio), times 2^DIGITS
  for (let at = 0; at < most; at++) {
    weights.push((mass * (one - ratio)) >> BigInt(2 * DIGITS));
    mass = (mass * ratio) >> BigInt(DIGITS);
  }
  weights.push(mass >> BigInt(DIGITS));
  weights[0] = FINE - 2n * sum(weights.slice(1));
  return new Table([...weights.slice(1).reverse(), ...weights], -most);
}

/** A geometric number with ratio e^−γ. Its binary digits are independent coins. */
function geometric(source: Source, gamma: Fraction): bigint {
  const needed = (LARGE * gamma.under + gamma.over - 1n) / gamma.over; // ⌈14/γ⌉
  const places = bitLength(Number(needed - 1n));
  const drawn = words(source, places + 1);
  const coins = drawn.map((one, place) => {
    const binary = binaryOf(times(gamma, 1n << BigInt(place)), place < places ? 1n : 0n);
    const threshold = binary(64);
    return { binary, tie: one === threshold, bit: one < threshold };
  });
  const bits = coins.map((coin) => (coin.tie ? decided(source, coin.binary) : coin.bit));
  let out = 0n;
  for (let place = 0; place < places; place++) if (bits[place]) out += 1n << BigInt(place);
  const step = 1n << BigInt(places);
  for (let more = bits[places]!; more; more = decayCoin(source, times(gamma, step))) out += step;
  return out;
}

/** A bit that is 1 with probability e^−γ. */
function decayCoin(source: Source, gamma: Fraction): boolean {
  return realCoin(source, binaryOf(gamma, 0n));
}

/** ⌊2^digits/(e^γ + plus)⌋. */
function binaryOf(gamma: Fraction, plus: bigint): (digits: number) => bigint {
  return (digits) => {
    const places = digits + 192;
    const a = decay(gamma, places);
    return ((a << BigInt(places)) / ((1n << BigInt(places)) + plus * a)) >> 192n;
  };
}

function times(one: Fraction, factor: bigint): Fraction {
  return { over: one.over * factor, under: one.under };
}

function sum(numbers: readonly bigint[]): bigint {
  return numbers.reduce((total, one) => total + one, 0n);
}
