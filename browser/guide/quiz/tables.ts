// Randomizers as tables: how many of 100 messages (or of another whole number) are sent for a yes and
// for a no. All comparisons are of whole numbers, so nothing is rounded.

export interface Randomizing {
  readonly messages: readonly string[];
  readonly yes: readonly number[];
  readonly no: readonly number[];
}

export type Row = "yes" | "no";

export function totalOf(made: Randomizing): number {
  const [yes, no] = [made.yes, made.no].map((row) => row.reduce((sum, one) => sum + one, 0));
  if (yes !== no) throw new Error("both rows must have the same sum");
  return yes!;
}

export interface Ratio {
  readonly message: number;
  /** The answer for which the message is more likely, and the other one. */
  readonly more: Row;
  readonly less: Row;
  readonly over: number;
  readonly under: number;
}

/** All ratios of the probabilities of a message, in both directions. */
function ratios(made: Randomizing): Ratio[] {
  return made.messages.flatMap((_, message) =>
    (["yes", "no"] as const).map((more) => {
      const less = more === "yes" ? "no" : "yes";
      return { message, more, less, over: made[more][message]!, under: made[less][message]! };
    }),
  );
}

function exceeds({ over, under }: Ratio, factor: number): boolean {
  return over > factor * under;
}

/** The largest ratio. It is infinite if `under` is 0. */
export function worst(made: Randomizing): Ratio {
  return ratios(made).reduce((best, one) => (one.over * best.under > best.over * one.under ? one : best));
}

/** Whether no message is more than `factor` times as likely for one answer as for the other. */
export function within(made: Randomizing, factor: number): boolean {
  return !exceeds(worst(made), factor);
}

/** The same, in one direction only. */
export function withinOneWay(made: Randomizing, factor: number): boolean {
  return ratios(made).every((one) => one.more !== "yes" || !exceeds(one, factor));
}

/** Whether it does not matter what a person holds. */
export function equal(made: Randomizing): boolean {
  return made.yes.every((weight, at) => weight === made.no[at]);
}

/** The largest probability, for a yes or a no, of a message whose ratio exceeds the factor. */
export function probabilityBeyond(made: Randomizing, factor: number): number {
  return largest(made, (one) => exceeds(one, factor));
}

/** The largest probability, for a yes or a no, of a message that proves the answer. */
export function probabilityOfProof(made: Randomizing): number {
  return largest(made, ({ over, under }) => over > 0 && under === 0);
}

function largest(made: Randomizing, counts: (one: Ratio) => boolean): number {
  const sums = { yes: 0, no: 0 };
  for (const one of ratios(made)) if (counts(one)) sums[one.more] += one.over;
  return Math.max(sums.yes, sums.no) / totalOf(made);
}

/** The least δ for this factor e^ε: the sum of what exceeds the factor, in the worse direction. */
export function leastDelta(made: Randomizing, factor: number): number {
  const sums = { yes: 0, no: 0 };
  for (const { more, over, under } of ratios(made)) sums[more] += Math.max(0, over - factor * under);
  return Math.max(sums.yes, sums.no) / totalOf(made);
}

/** The definition of privacy, word by word: all sets of messages, in both directions. `delta` is a
 * number of messages out of `totalOf(made)`. */
export function privateBySets(made: Randomizing, factor: number, delta = 0): boolean {
  for (let set = 0; set < 2 ** made.messages.length; set++) {
    const of = (row: readonly number[]) => row.reduce((sum, one, at) => sum + ((set >> at) & 1 ? one : 0), 0);
    const [yes, no] = [of(made.yes), of(made.no)];
    if (yes > factor * no + delta || no > factor * yes + delta) return false;
  }
  return true;
}

/** How often the best guess is right, if a yes and a no are equally likely. */
export function bestGuess(made: Randomizing): number {
  return made.yes.reduce((sum, one, at) => sum + Math.max(one, made.no[at]!), 0) / (2 * totalOf(made));
}
