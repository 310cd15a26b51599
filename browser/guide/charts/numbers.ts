// Numbers as the page writes them.

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A number with a few significant digits. Very large and very small numbers are powers of ten. */
export function short(value: number, digits = 3): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return power(value, digits);
  return english(value, { maximumSignificantDigits: Math.max(digits, String(Math.trunc(size)).length) });
}

/** An ε or δ, rounded up, so that the page never promises too much. */
export function bound(value: number, digits = 4): string {
  const raised = new Intl.NumberFormat("en-US", {
    maximumSignificantDigits: digits,
    roundingMode: "ceil",
    useGrouping: false,
  });
  return short(Number(raised.format(value)), digits);
}

/** A number with this many decimal places. */
export function places(value: number, count: number): string {
  return english(value, { minimumFractionDigits: count, maximumFractionDigits: count });
}

/** A share as a percentage. */
export function percent(value: number, count = 0): string {
  return `${english(100 * value, { maximumFractionDigits: count })} %`;
}

function english(value: number, options: Intl.NumberFormatOptions): string {
  return new Intl.NumberFormat("en-US", options).format(value).replace("-", "−");
}

function power(value: number, digits: number): string {
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e") as [string, string];
  const raised = [...exponent.replace("+", "")].map((one) => (one === "-" ? "⁻" : RAISED[Number(one)])).join("");
  const first = String(Number(mantissa)).replace("-", "−");
  return first === "1" ? `10${raised}` : `${first} · 10${raised}`;
}
