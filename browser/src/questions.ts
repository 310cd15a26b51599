// The questions of a survey, and how answers become the numbers that randomizers take. The numbers
// are those that headcount.survey.questions computes.

import type { Json } from "./canonical.js";
import { HeadcountError, refuse } from "./errors.js";
import type { Value } from "./randomizers/index.js";

interface Common {
  readonly id: string;
  readonly text: string;
  readonly optional: boolean;
}

export type Question = Common &
  (
    | { readonly kind: "yes-no" }
    | { readonly kind: "choice"; readonly choices: readonly string[] }
    | { readonly kind: "several"; readonly choices: readonly string[]; readonly atMost: number }
    | { readonly kind: "scale"; readonly low: number; readonly high: number }
    | {
        readonly kind: "number";
        readonly low: number;
        readonly high: number;
        readonly whole: boolean;
        readonly cells: Cells | null; // null if only the mean is wanted
      }
  );

/** A range that is divided into cells. */
interface Cells {
  readonly width: number;
  readonly count: number; // without the cell of "no answer"
}

/** An answer: yes or no, the label of a choice, a list of labels, a number, or null for none. */
export type Answer = boolean | string | readonly string[] | number | null;
export type Answers = Readonly<Record<string, Answer>>;

const MOST_TEXT = 20_000;
const FINE = 256; // by default, a range of numbers is divided into this many cells
const MOST_CELLS = 4096;

type Row = { readonly [key: string]: Json };

export function isObject(value: Json | undefined): value is Row {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function textOf(value: Json | undefined, what: string): string {
  if (typeof value !== "string" || value.length > MOST_TEXT) refuse(`must have a text as ${what}`);
  return value;
}

function numberOf(value: Json | undefined, what: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) refuse(`must have a number as ${what}`);
  return value;
}

function labelsOf(value: Json | undefined, most: number): string[] {
  if (!Array.isArray(value) || value.length < 2 || value.length > most) {
    refuse("must have a list of choices");
  }
  const labels = value.map((one) => textOf(one, "a choice"));
  if (new Set(labels).size !== labels.length) refuse("must have different choices");
  return labels;
}

/** One question of the document, checked. */
export function questionOf(row: Json): Question {
  if (!isObject(row)) refuse("must have questions");
  const id = textOf(row["id"], "the id of a question");
  if (!/^[A-Za-z][A-Za-z0-9_-]{0,39}$/.test(id)) refuse("must have ids of letters and digits");
  const common = { id, text: textOf(row["text"], "a question"), optional: row["optional"] === true };
  switch (row["kind"]) {
    case "yes-no":
      return { ...common, kind: "yes-no" };
    case "choice":
      return { ...common, kind: "choice", choices: labelsOf(row["choices"], 1000) };
    case "several": {
      const choices = labelsOf(row["choices"], 61);
      const atMost = row["at_most"] === undefined ? choices.length : numberOf(row["at_most"], "`at_most`");
      if (!Number.isInteger(atMost) || atMost < 1 || atMost > choices.length) {
        refuse("must have a fitting number `at_most`");
      }
      return { ...common, kind: "several", choices, atMost };
    }
    case "scale": {
      const low = row["low"] === undefined ? 1 : numberOf(row["low"], "`low`");
      const high = row["high"] === undefined ? 5 : numberOf(row["high"], "`high`");
      if (!Number.isInteger(low) || !Number.isInteger(high) || high <= low || high - low > 100) {
        refuse("must have scales of 2 to 101 whole numbers");
      }
      return { ...common, kind: "scale", low, high };
    }
    case "number":
      return { ...common, kind: "number", ...rangeOf(row, common.optional) };
    default:
      return refuse("must have questions of a known kind");
  }
}

function rangeOf(row: Row, optional: boolean) {
  const [low, high] = [numberOf(row["low"], "`low`"), numberOf(row["high"], "`high`")];
  if (!(low < high)) refuse("must have a `low` below its `high`");
  const whole = row["whole"] === true;
  const want = row["want"] ?? ["mean"];
  const onlyMean = Array.isArray(want) && want.length === 1 && want[0] === "mean";
  if (onlyMean && !optional && row["bins"] === undefined) return { low, high, whole, cells: null };
  const given = row["cells"];
  if (whole && given === undefined && high - low < MOST_CELLS) {
    return { low, high, whole, cells: { width: 1, count: Math.trunc(high - low) + 1 } };
  }
  const count = given === undefined ? FINE : numberOf(given, "`cells`");
  if (!Number.isInteger(count) || count < 2 || count > MOST_CELLS) refuse("must have 2 to 4096 cells");
  return { low, high, whole, cells: { width: (high - low) / count, count } };
}

/** The number of answers that can be encoded: 0, …, domain − 1. It is null for real numbers. */
export function domainOf(question: Question): bigint | null {
  const none = question.optional ? 1 : 0;
  switch (question.kind) {
    case "yes-no":
      return BigInt(2 + none);
    case "choice":
      return BigInt(question.choices.length + none);
    case "several":
      return 1n << BigInt(question.choices.length + none);
    case "scale":
      return BigInt(question.high - question.low + 1 + none);
    case "number":
      return question.cells && BigInt(question.cells.count + none);
  }
}

/** The number of an answer. A wrong answer is refused with the id of its question. */
export function encoded(question: Question, answer: Answer | undefined): Value {
  const wrong = () => new HeadcountError("answer", question.id);
  if (answer === null || answer === undefined) {
    if (!question.optional) throw wrong();
    if (question.kind === "several") return 1n << BigInt(question.choices.length);
    return Number(domainOf(question)!) - 1;
  }
  switch (question.kind) {
    case "yes-no":
      if (typeof answer !== "boolean") throw wrong();
      return Number(answer);
    case "choice": {
      const place = question.choices.indexOf(answer as string);
      if (place < 0) throw wrong();
      return place;
    }
    case "several": {
      if (!Array.isArray(answer) || answer.length > question.atMost) throw wrong();
      const places = (answer as string[]).map((label) => question.choices.indexOf(label));
      if (places.includes(-1) || new Set(places).size !== places.length) throw wrong();
      return places.reduce((code, place) => code | (1n << BigInt(place)), 0n);
    }
    case "scale":
    case "number": {
      const { low, high } = question;
      if (typeof answer !== "number" || !(answer >= low && answer <= high)) throw wrong();
      if ((question.kind === "scale" || question.whole) && !Number.isInteger(answer)) throw wrong();
      if (question.kind === "scale") return answer - low;
      return question.cells ? cellOf(question.cells, low, answer, question.optional) : answer;
    }
  }
}

/** The cell of a number. An edge belongs to the cell above it. */
function cellOf(cells: Cells, low: number, number: number, optional: boolean): number {
  const every = cells.count + Number(optional);
  // The highest number belongs to the last cell of numbers, and "no answer" to the next one.
  const held = optional ? Math.min(number, low + cells.width * (cells.count - 0.5)) : number;
  const span = low + cells.width * every - low;
  const edge = (step: number) => low + span * (step / every);
  let found = Math.min(Math.floor((held - low) * (every / span)), every - 1);
  // Rounding may have moved the number across an edge.
  if (held >= edge(found + 1) && found < every - 1) found++;
  if (held < edge(found)) found--;
  return found;
}
