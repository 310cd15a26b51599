// Axes: where a number stands, and which numbers are labeled.

import { short } from "./numbers.js";

export interface Axis {
  readonly title: string;
  readonly low: number;
  readonly high: number;
  readonly log?: boolean;
  /** How numbers on the axis are written. */
  readonly format?: (value: number) => string;
  /** Numbers to label, if others than usual. */
  readonly ticks?: readonly number[];
}

/** An axis for these numbers, with a little room at both ends. */
export function axisOf(title: string, numbers: readonly number[], log = false): Axis {
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  if (log) {
    const factor = high > low ? (high / low) ** 0.03 : 2;
    return { title, low: low / factor, high: high * factor, log };
  }
  const margin = high > low ? 0.03 * (high - low) : Math.abs(high) / 2 || 1;
  return { title, low: low > 0 && low < 0.4 * high ? 0 : low - margin, high: high + margin };
}

/** Where a number stands between `from` and `to`. */
export function position(axis: Axis, from: number, to: number): (value: number) => number {
  const of = axis.log ? Math.log : (value: number) => value;
  const slope = (to - from) / (of(axis.high) - of(axis.low));
  return (value) => from + slope * (of(value) - of(axis.low));
}

export function written(axis: Axis, value: number): string {
  return (axis.format ?? short)(value);
}

/** The numbers that are labeled, about `count` of them. */
export function ticks(axis: Axis, count: number): number[] {
  if (axis.ticks) return [...axis.ticks];
  return axis.log ? logTicks(axis, count) : linearTicks(axis, count);
}

function linearTicks({ low, high }: Axis, count: number): number[] {
  const rough = (high - low) / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((one) => one * unit >= rough * 0.999)!;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

function logTicks({ low, high }: Axis, count: number): number[] {
  const decades = Math.log10(high / low);
  const digits = decades < count / 3 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / count));
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    if (power % every) continue;
    for (const digit of digits) {
      const value = Number(`${digit}e${power}`);
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found;
}
