// Numbers as people of a language write them.

const RAISED: Readonly<Record<string, string>> = {
  "-": "⁻", "0": "⁰", "1": "¹", "2": "²", "3": "³", "4": "⁴", "5": "⁵", "6": "⁶", "7": "⁷", "8": "⁸", "9": "⁹",
};

export function numberIn(language: string, value: number): string {
  return written(language, value, {});
}

/** An ε or δ, rounded up, so that the page never promises too much. */
export function boundIn(language: string, value: number): string {
  return written(language, value, { roundingMode: "ceil" });
}

/** The number as text. Tiny numbers have a power of ten. */
function written(language: string, value: number, rounding: Intl.NumberFormatOptions): string {
  const size = Math.abs(value);
  if (size > 0 && size < 1e-4) {
    const tiny = { ...rounding, notation: "scientific", maximumSignificantDigits: 3 } as const;
    const parts = new Intl.NumberFormat(language, tiny).formatToParts(value);
    const cut = parts.findIndex((one) => one.type === "exponentSeparator");
    const text = (some: Intl.NumberFormatPart[]) => some.map((one) => one.value).join("");
    const power = [...text(parts.slice(cut + 1))].map((sign) => RAISED[sign] ?? sign).join("");
    return `${text(parts.slice(0, cut))} × 10${power}`;
  }
  const digits = Number.isInteger(value) ? {} : { maximumSignificantDigits: 6 };
  return new Intl.NumberFormat(language, { ...digits, ...rounding }).format(value);
}
