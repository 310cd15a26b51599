// Rational numbers, and exponential functions in fixed-point arithmetic with any number of digits.

export interface Fraction {
  readonly over: bigint; // the numerator
  readonly under: bigint; // the denominator, which is positive
}

/** The fraction in a text such as "3/8" or "5". */
export function fraction(text: string): Fraction {
  const found = /^(-?[0-9]{1,400})(?:\/([1-9][0-9]{0,399}))?$/.exec(text);
  if (!found) throw new RangeError("expected a fraction");
  return { over: BigInt(found[1]!), under: BigInt(found[2] ?? "1") };
}

/** The exact value of a floating-point number. */
export function exactly(number: number): Fraction {
  if (!Number.isFinite(number)) throw new RangeError("expected a finite number");
  let under = 1n;
  let scaled = number;
  while (!Number.isInteger(scaled)) {
    scaled *= 2;
    under *= 2n;
  }
  return { over: BigInt(scaled), under };
}

export function toNumber(one: Fraction): number {
  // Numbers of up to 900 binary digits keep their first 60 digits.
  const shift = BigInt(Math.max(0, one.under.toString(2).length - one.over.toString(2).length + 60));
  return Number((one.over << shift) / one.under) / 2 ** Number(shift);
}

/** e^−x as a multiple of 2^−digits, for x = over/under ≥ 0. The error is a few units. */
export function decay(x: Fraction, digits: number): bigint {
  const halvings = Math.max(0, (x.over / x.under).toString(2).length) + 8;
  const places = BigInt(digits + halvings + 32);
  const one = 1n << places;
  const small = ((x.over << places) / x.under) >> BigInt(halvings);
  let sum = one;
  let term = one;
  for (let k = 1n; term; k++) {
    term = ((term * small) >> places) / k;
    sum += k % 2n ? -term : term;
  }
  for (let at = 0; at < halvings; at++) sum = (sum * sum) >> places;
  return sum >> (places - BigInt(digits));
}

/** −ln(y) as a multiple of 2^−digits, for a y between 0 and 1 that is a multiple of 2^−digits. */
export function minusLog(y: bigint, digits: number): bigint {
  const places = BigInt(digits + 32);
  const one = 1n << places;
  let m = y << 32n;
  let doublings = 0n;
  while (m < one) {
    m <<= 1n;
    doublings++;
  }
  // ln m = 2·artanh((m − 1)/(m + 1)) for 1 ≤ m < 2, and ln 2 = 2·artanh(1/3).
  const log = 2n * artanh(((m - one) << places) / (m + one), places);
  const log2 = 2n * artanh(one / 3n, places);
  return (doublings * log2 - log) >> 32n;
}

function artanh(z: bigint, places: bigint): bigint {
  const square = (z * z) >> places;
  let sum = 0n;
  let power = z;
  for (let k = 1n; power; k += 2n) {
    sum += power / k;
    power = (power * square) >> places;
  }
  return sum;
}
