// Canonical JSON, as headcount.collect.document writes it: sorted keys, no spaces, UTF-8. A text that
// is not canonical is refused, so that no two programs can read one document in different ways.

import { refuse } from "./errors.js";

export type Json = null | boolean | number | bigint | string | Json[] | { readonly [key: string]: Json };

const DEEPEST = 32;

/** The value of a canonical JSON text. Integers above 2^53 become a bigint. */
export function parsed(bytes: Uint8Array): Json {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return refuse("must be UTF-8");
  }
  const reader = new Reader(text);
  const value = reader.value(0);
  if (!reader.atEnd) refuse("must end after its last bracket");
  return value;
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  get atEnd(): boolean {
    return this.at === this.text.length;
  }

  value(depth: number): Json {
    if (depth > DEEPEST) refuse(`must have at most ${DEEPEST} levels`);
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.list(depth);
      case '"':
        return this.string();
      default:
        return this.plain();
    }
  }

  private object(depth: number): Json {
    const out: Record<string, Json> = Object.create(null) as Record<string, Json>;
    let before: string | undefined;
    this.at++;
    while (!this.ends("}", before === undefined)) {
      const key = this.string();
      if (before !== undefined && !precedes(before, key)) refuse("must have sorted keys, each once");
      before = key;
      this.expect(":");
      out[key] = this.value(depth + 1);
    }
    return out;
  }

  private list(depth: number): Json {
    const out: Json[] = [];
    this.at++;
    while (!this.ends("]", !out.length)) out.push(this.value(depth + 1));
    return out;
  }

  /** Whether the list or object ends here. Otherwise its next entry begins here. */
  private ends(bracket: string, first: boolean): boolean {
    if (this.text[this.at] === bracket) {
      this.at++;
      return true;
    }
    if (!first) this.expect(",");
    return false;
  }

  private expect(character: string): void {
    if (this.text[this.at++] !== character) refuse("must be canonical JSON");
  }

  private string(): string {
    const found = /"(?:[^"\\\x00-\x1f]|\\["\\nrtbf]|\\u00[01][0-9a-f])*"/y;
    const raw = this.match(found);
    const value = JSON.parse(raw) as string;
    // Control characters with a short form must have it.
    if (JSON.stringify(value) !== raw) refuse("must have canonical texts");
    return value;
  }

  private plain(): Json {
    const raw = this.match(/true|false|null|-?[0-9][0-9.e+-]*/y);
    if (raw === "true" || raw === "false") return raw === "true";
    if (raw === "null") return null;
    if (/^(0|-?[1-9][0-9]{0,400})$/.test(raw)) {
      const number = Number(raw);
      return Number.isSafeInteger(number) ? number : BigInt(raw);
    }
    const number = Number(raw);
    if (!Number.isFinite(number) || pythonText(number) !== raw) refuse("must have canonical numbers");
    return number;
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) return refuse("must be canonical JSON");
    this.at = pattern.lastIndex;
    return found[0];
  }
}

/** Whether one text comes before another in the order of their code points. */
function precedes(one: string, other: string): boolean {
  const [first, second] = [Array.from(one), Array.from(other)];
  for (let at = 0; at < Math.min(first.length, second.length); at++) {
    const difference = first[at]!.codePointAt(0)! - second[at]!.codePointAt(0)!;
    if (difference) return difference < 0;
  }
  return first.length < second.length;
}

/** A floating-point number as Python writes it. */
function pythonText(number: number): string {
  if (Object.is(number, -0)) return "-0.0";
  const [mantissa = "", power = "0"] = number.toExponential().split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const places = String(Math.abs(exponent)).padStart(2, "0");
    return `${mantissa}e${exponent < 0 ? "-" : "+"}${places}`;
  }
  const sign = number < 0 ? "-" : "";
  const digits = mantissa.replace(/[-.]/g, "");
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const before = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${before}.${digits.slice(exponent + 1) || "0"}`;
}
