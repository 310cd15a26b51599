// Puts answers and messages into words.

import type { Release, Survey } from "../src/document.js";
import { domainOf, type Answer, type Question } from "../src/questions.js";
import type { Meaning } from "../src/randomizers/index.js";
import type { Texts } from "./texts/index.js";

export class Words {
  constructor(
    private readonly survey: Survey,
    private readonly texts: Texts,
    readonly number: (value: number) => string,
  ) {}

  /** An answer as the person gave it. */
  answer(question: Question, answer: Answer): string {
    if (answer === null) return this.texts.none;
    if (typeof answer === "boolean") return answer ? this.texts.yes : this.texts.no;
    if (typeof answer === "number") return this.number(answer);
    if (typeof answer === "string") return answer;
    return answer.length ? question.kind === "several" ? answer.join(", ") : "" : this.texts.review.nothing;
  }

  /** The questions of a release about which these messages say something. */
  title(release: Release, sent: readonly Meaning[]): string {
    const ticks = release.ids.length > 1 ? sent.flatMap((one) => (one.kind === "ticks" ? one.boxes : [])) : [];
    const ids = ticks.length ? ticks.map(([box]) => release.of[box]!) : release.of;
    return ids.map((id) => this.question(id).text).join(release.ids.length > 1 ? " · " : " × ");
  }

  /** What a message of a release says. */
  message(release: Release, meaning: Meaning): string {
    const { leaves } = this.texts;
    switch (meaning.kind) {
      case "value":
        return this.value(release, meaning.value);
      case "box":
        return this.box(release, meaning.box);
      case "filler":
        return leaves.filler;
      case "boxes": {
        const boxes = meaning.boxes.map((box) => this.box(release, box));
        return [...boxes, ...(meaning.fillers ? [`${leaves.times(meaning.fillers)} ${leaves.filler}`] : [])].join(", ");
      }
      case "ticks": {
        const said = (ticked: boolean) => (ticked ? this.texts.yes : this.texts.no);
        // If the boxes are questions, the title names them in this order.
        if (release.ids.length > 1) return meaning.boxes.map(([, ticked]) => said(ticked)).join(" · ");
        return meaning.boxes.map(([box, ticked]) => `${this.box(release, box)}: ${said(ticked)}`).join(" · ");
      }
      case "set":
        return meaning.values.map((value) => this.value(release, value)).join(", ") || "–";
      case "cells":
        return this.cells(release, meaning.first, meaning.last);
      case "ranges":
        return meaning.ranges.map(([first, last]) => this.cells(release, first, last)).join("; ") || "–";
      case "side":
        return this.label(this.question(release.of[meaning.row ? 0 : 1]!), meaning.value);
      case "sign":
        return `${meaning.plus ? leaves.plus : leaves.minus} ${this.value(release, meaning.value)}`;
      case "share":
        return leaves.share(meaning.numbers.map((one) => this.number(Number(one))).join(" "));
      case "report":
        return leaves.report(meaning.numbers.map(String).join(" "));
    }
  }

  private question(id: string): Question {
    return this.survey.questions.find((one) => one.id === id)!;
  }

  /** An encoded answer, or an encoded pair of answers. */
  private value(release: Release, value: number): string {
    const asked = release.of.map((id) => this.question(id));
    if (asked.length === 1) return this.label(asked[0]!, value);
    const columns = Number(domainOf(asked[1]!));
    return `${this.label(asked[0]!, Math.floor(value / columns))} × ${this.label(asked[1]!, value % columns)}`;
  }

  private label(question: Question, value: number): string {
    const { yes, no, leaves } = this.texts;
    switch (question.kind) {
      case "yes-no":
        return [no, yes, leaves.noAnswer][value] ?? String(value);
      case "choice":
        return question.choices[value] ?? leaves.noAnswer;
      case "scale":
        return question.low + value <= question.high ? this.number(question.low + value) : leaves.noAnswer;
      case "several":
        return question.choices[value] ?? leaves.noAnswer;
      case "number":
        return this.cells({ of: [question.id] } as unknown as Release, value, value);
    }
  }

  private box(release: Release, box: number): string {
    if (release.ids.length > 1) return this.question(release.of[box]!).text;
    return this.label(this.question(release.of[0]!), box);
  }

  /** A range of cells of a number. The last cell may be that of "no answer". */
  private cells(release: Pick<Release, "of">, first: number, last: number): string {
    const question = this.question(release.of[0]!);
    if (question.kind !== "number" || !question.cells) return `${first}–${last}`;
    const { width, count } = question.cells;
    const none = question.optional && last >= count;
    if (first >= count) return this.texts.leaves.noAnswer;
    const start = question.low + width * first;
    const end = question.low + width * (Math.min(last, count - 1) + 1);
    const wholes = question.whole && width === 1;
    const { between, under, or, noAnswer } = this.texts.leaves;
    const range = wholes
      ? end - 1 > start ? between(this.number(start), this.number(end - 1)) : this.number(start)
      : under(this.number(start), this.number(end));
    return none ? or(range, noAnswer) : range;
  }
}
