// Measures privacy as headcount.auditor does: an event is chosen from one half of the runs, and
// counted in the other half.

/** How often each output came. */
export type Counts = ReadonlyMap<number, number>;

/** The same for two neighboring datasets. */
export type Sides = readonly [Counts, Counts];

/** Outputs that are more frequent on the first side, or on the second one if `swapped`. */
export interface Event {
  readonly outputs: readonly number[];
  readonly swapped: boolean;
}

/** An event that was chosen from the first half of the runs and counted in the other half. */
export interface Measured {
  readonly event: Event;
  readonly counted: number; // the runs of the second half, on each dataset
  readonly hits: number; // how often the event came on the dataset where it is frequent
  readonly others: number; // how often it came on the other dataset
  readonly epsilon: number; // a lower bound, which is wrong with a probability of at most `wrong`
}

/** Measures ε from the outputs of as many runs on each of two neighboring datasets. */
export function measured(outputs: readonly [number[], number[]], delta: number, wrong: number): Measured {
  const runs = outputs[0].length;
  const half = Math.floor(runs / 2);
  const quarter = Math.floor(half / 2);
  const event = bestEvent(countsOf(outputs, 0, quarter), countsOf(outputs, quarter, half), delta);
  const [hits, others] = hitsOf(event, countsOf(outputs, half, runs));
  const counted = runs - half;
  return { event, counted, hits, others, epsilon: lowerEpsilon(hits, others, counted, delta, wrong) };
}

/** How often each output came from run `from` up to run `to`. */
export function countsOf(outputs: readonly [number[], number[]], from: number, to: number): Sides {
  const count = (side: readonly number[]) => {
    const counts = new Map<number, number>();
    for (const output of side.slice(from, to)) counts.set(output, (counts.get(output) ?? 0) + 1);
    return counts;
  };
  return [count(outputs[0]), count(outputs[1])];
}

/** The event that is expected to show the largest ε in as many runs. The counts of `learned` decide
 * which outputs belong together, and those of `tried` decide how many of them. */
export function bestEvent(learned: Sides, tried: Sides, delta: number): Event {
  const runs = total(tried[0]);
  let best: Event = { outputs: [], swapped: false };
  let most = -Infinity;
  for (const swapped of [false, true]) {
    const [one, other] = swapped ? [learned[1], learned[0]] : learned;
    const ratio = (output: number) => ((one.get(output) ?? 0) + 0.5) / ((other.get(output) ?? 0) + 0.5);
    const seen = [...new Set([...one.keys(), ...other.keys()])].sort((a, b) => a - b);
    seen.sort((a, b) => ratio(b) - ratio(a)); // the largest ratios first; equal ones stay in order
    seen.forEach((_, at) => {
      const outputs = seen.slice(0, at + 1);
      const [hits, others] = hitsOf({ outputs, swapped }, tried);
      const shown = expectedEpsilon(hits, others, runs, delta);
      if (shown > most) {
        most = shown;
        best = { outputs, swapped };
      }
    });
  }
  return best;
}

/** How often an event came: on the side where it is frequent, and on the other one. */
function hitsOf({ outputs, swapped }: Event, sides: Sides): readonly [number, number] {
  const [one, other] = sides.map((side) => outputs.reduce((sum, output) => sum + (side.get(output) ?? 0), 0));
  return swapped ? [other!, one!] : [one!, other!];
}

/** An estimate of what confidence bounds would show: counts are moved by three standard deviations. */
function expectedEpsilon(hits: number, others: number, runs: number, delta: number): number {
  const low = (hits - 3 * Math.sqrt(hits + 1)) / runs - delta;
  const high = (others + 3 * Math.sqrt(others + 1) + 3) / runs;
  return Math.log(Math.max(low, 1e-300) / high);
}

/** A lower bound on a chance. It is wrong with a probability of at most `wrong` (Clopper, Pearson). */
export function lowerChance(hits: number, runs: number, wrong: number): number {
  // P(at least `hits` of `runs`) = I_x(hits, runs − hits + 1) rises with x.
  return hits ? root((x) => incompleteBeta(x, hits, runs - hits + 1) >= wrong) : 0;
}

/** An upper bound on a chance. It is wrong with a probability of at most `wrong`. */
export function upperChance(hits: number, runs: number, wrong: number): number {
  return 1 - lowerChance(runs - hits, runs, wrong);
}

/** A lower bound on ε. It is wrong with a probability of at most `wrong`. */
export function lowerEpsilon(hits: number, others: number, runs: number, delta: number, wrong: number): number {
  const above = lowerChance(hits, runs, wrong / 2) - delta;
  return above > 0 ? Math.max(0, Math.log(above / upperChance(others, runs, wrong / 2))) : 0;
}

/** The smallest ε of a randomized response that such an audit refutes with a probability of at least
 * `power`, or ∞. headcount.auditor.power has the proof. */
export function smallestResponse(
  claim: number,
  delta: number,
  learned: number,
  runs: number,
  wrong: number,
  power: number,
): number {
  const missed = 1 - power;
  const half = Math.floor(learned / 2);
  const found = (epsilon: number) => {
    const truth = 1 - (1 - delta) / (1 + Math.exp(epsilon));
    const least = (tries: number, share: number) => atLeast(tries, truth, (missed * share) / 2);
    const ours = least(half, 1 / 100);
    const rest = learned - half;
    const once = least(rest, 1 / 100);
    const hits = least(runs, 98 / 100);
    return (
      ours > half - ours &&
      expectedEpsilon(once, rest - once, rest, delta) > expectedEpsilon(rest, rest, rest, delta) &&
      lowerEpsilon(hits, runs - hits, runs, delta, wrong) > claim
    );
  };
  let low = claim;
  let high = 50;
  if (!found(high)) return Infinity;
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2;
    if (found(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** The least ε with which two laws are (ε, δ)-private in both directions. */
export function leastEpsilon(one: readonly number[], other: readonly number[], delta: number): number {
  const excess = (p: readonly number[], q: readonly number[], factor: number) =>
    p.reduce((sum, chance, at) => sum + Math.max(0, chance - factor * q[at]!), 0);
  const beyond = (factor: number) => Math.max(excess(one, other, factor), excess(other, one, factor));
  const ratios = one.flatMap((p, at) => [p / other[at]!, other[at]! / p]);
  const most = Math.max(1, ...ratios.filter((ratio) => ratio < Infinity));
  if (beyond(1) <= delta) return 0;
  // Beyond all finite ratios, only outputs are left that one of the two laws never gives.
  if (beyond(most * (1 + 1e-12)) > delta + 1e-12) return Infinity;
  if (delta === 0) return Math.log(most);
  return Math.log(1 / root((inverse) => inverse > 0 && beyond(1 / inverse) > delta));
}

function total(counts: Counts): number {
  return [...counts.values()].reduce((sum, one) => sum + one, 0);
}

/** The least x from 0 to 1 from which on a condition holds, found by bisection. */
function root(holds: (x: number) => boolean): number {
  let low = 0;
  let high = 1;
  for (let step = 0; step < 200 && high - low > 1e-15 * high; step++) {
    const middle = (low + high) / 2;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return (low + high) / 2;
}

/** A number of hits that is reached with a probability of at least 1 − `missed`. */
function atLeast(tries: number, chance: number, missed: number): number {
  let low = 0;
  let high = tries + 1;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    // P(fewer than `middle` hits)
    if (incompleteBeta(1 - chance, tries - middle + 1, middle) <= missed) low = middle;
    else high = middle;
  }
  return low;
}

/** The regularized incomplete beta function I_x(a, b), by its continued fraction. */
export function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0 || x >= 1) return Number(x >= 1);
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(a * Math.log(x) + b * Math.log1p(-x) - logBeta(a, b)) / a;
  const least = 1e-300;
  let c = 1;
  let d = 1 / (1 - ((a + b) * x) / (a + 1)); // x is small enough for a positive denominator
  let value = d;
  for (let m = 1; m < 20_000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const term of [even, odd]) {
      d = 1 / (1 + term * d || least);
      c = 1 + term / c || least;
      value *= c * d;
    }
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return Math.min(1, front * value);
}

function logBeta(a: number, b: number): number {
  return logGamma(a) + logGamma(b) - logGamma(a + b);
}

/** ln Γ(x) for x > 0, by Stirling's series. */
function logGamma(x: number): number {
  if (x < 12) return logGamma(x + 1) - Math.log(x);
  const y = 1 / (x * x);
  const rest = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + rest;
}
