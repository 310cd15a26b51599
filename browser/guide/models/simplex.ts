// Estimated shares, moved to shares that are possible.

/** The nearest numbers that add up to 1. They may be negative. */
export function onPlane<T extends readonly number[]>(shares: T): T {
  const excess = (sum(shares) - 1) / shares.length;
  return shares.map((share) => share - excess) as unknown as T;
}

/** The nearest numbers that add up to 1 and are not negative: a number is subtracted from all shares, and
 * what becomes negative is 0. */
export function onSimplex<T extends readonly number[]>(shares: T): T {
  const sorted = [...shares].sort((one, two) => two - one);
  let taken = 0;
  let before = 0;
  sorted.forEach((share, at) => {
    before += share;
    if (share > (before - 1) / (at + 1)) taken = (before - 1) / (at + 1);
  });
  return shares.map((share) => Math.max(0, share - taken)) as unknown as T;
}

export function squaredDistance(one: readonly number[], other: readonly number[]): number {
  return sum(one.map((share, at) => (share - other[at]!) ** 2));
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}
