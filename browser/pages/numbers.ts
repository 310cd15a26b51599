// Numbers as people of a language write them.

function options(value: number): Intl.NumberFormatOptions {
  const size = Math.abs(value);
  if (size > 0 && size < 1e-4) return { notation: "scientific", maximumSignificantDigits: 3 };
  return Number.isInteger(value) ? {} : { maximumSignificantDigits: 6 };
}

export function numberIn(language: string, value: number): string {
  return new Intl.NumberFormat(language, options(value)).format(value);
}

/** An ε or δ, rounded up, so that the page never promises too much. */
export function boundIn(language: string, value: number): string {
  return new Intl.NumberFormat(language, { ...options(value), roundingMode: "ceil" }).format(value);
}
