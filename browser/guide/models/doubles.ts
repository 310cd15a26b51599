// Laplace noise in double precision, as a textbook draws it, and which outputs it can give.

import type { Source } from "../../src/random.js";

const UNITS = 2 ** 53;

/** Laplace noise with scale 1: ±ln(u), where u is a multiple of 2^−53 above 0 and at most 1. */
export function laplace(source: Source): number {
  const bytes = new Uint8Array(7);
  source.fill(bytes);
  const low = bytes.subarray(0, 6).reduce((sum, byte, at) => sum + byte * 256 ** at, 0);
  const drawn = low + (bytes[6]! & 31) * 2 ** 48 + 1; // uniform from 1 to 2^53
  return (bytes[6]! < 128 ? 1 : -1) * Math.log(drawn / UNITS);
}

/** Whether `count + laplace()` can be this output: whether some u gives it. */
export function reachable(output: number, count: number): boolean {
  return [1, -1].some((sign) => {
    const wanted = sign * (output - count); // this is about ln(u), so it is at most 0
    // The true ln(u) is within `far` of it, since each rounding moves a number by less than its ulp.
    const far = 2 * (ulp(output) + ulp(count) + ulp(wanted));
    if (wanted > far) return false;
    const middle = Math.round(UNITS * Math.exp(wanted));
    const steps = Math.ceil(middle * far) + 16;
    for (let step = 0; step <= steps; step++) {
      for (const drawn of [middle - step, middle + step]) {
        if (drawn >= 1 && drawn <= UNITS && count + sign * Math.log(drawn / UNITS) === output) return true;
      }
    }
    return false;
  });
}

/** The distance from a number to the next larger one in size. */
function ulp(value: number): number {
  return value === 0 ? 0 : 2 ** (Math.floor(Math.log2(Math.abs(value))) - 52);
}
