// The views of the page: before the questions, review, what leaves the device, and the receipt.

import type { Survey } from "../src/document.js";
import type { Answers, Question } from "../src/questions.js";
import { asksSome, type Content } from "../src/response.js";
import type { Kept } from "../src/store.js";
import { facts, h, paragraphs } from "./dom.js";
import type { Texts } from "./texts/index.js";
import type { Words } from "./words.js";

const OVERHEAD = 48; // the bytes that sealing adds to every message

export interface Context {
  readonly survey: Survey;
  readonly texts: Texts;
  readonly words: Words;
  readonly number: (value: number) => string;
  readonly bound: (value: number) => string; // an ε or δ
}

/** How many of 100 people guess right about somebody, without and with the answers. */
export function odds(epsilon: number, delta: number): [number, number] {
  const inverse = Math.exp(-epsilon);
  const advantage = (-Math.expm1(-epsilon) + 2 * delta * inverse) / (1 + inverse);
  return [50, Math.min(100, Math.ceil(50 * (1 + advantage) - 1e-9))];
}

function oddsBox({ survey, texts }: Context): HTMLElement {
  const [without, within] = odds(survey.epsilon, survey.delta);
  return h(
    "div",
    { class: "odds" },
    h("p", { class: "strong" }, texts.promise.odds(without, within)),
    bar(without, "before", texts.promise.without),
    bar(within, "after", texts.promise.within),
    h("p", { class: "note" }, texts.promise.explained),
  );
}

/** A bar of this many percent. The sentence above says the same in words. */
function bar(percent: number, look: string, label: string): HTMLElement {
  return h(
    "div",
    { class: `bar ${look}`, "aria-hidden": "true" },
    h("span", {}, label),
    h("progress", { max: 100, value: percent }),
    h("span", {}, String(percent)),
  );
}

export function introduction(
  context: Context,
  before: readonly Kept[],
  code: string,
  begin: (code: string) => void,
): HTMLElement[] {
  const { survey, texts, bound } = context;
  const { promise, consent } = texts;
  const agree = h("input", { type: "checkbox", id: "agree" });
  const asked = survey.admission === "codes" ? codeField(texts, code) : null;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const submit = (event: Event) => {
    event.preventDefault();
    const missing = !agree.checked ? consent.needed : asked && !asked.input.value.trim() ? texts.code.needed : "";
    problem.textContent = missing;
    problem.hidden = !missing;
    if (!missing) begin(asked?.input.value.trim() ?? "");
    else (agree.checked && asked ? asked.input : agree).focus();
  };
  const spent = before.reduce((sum, one) => sum + one.epsilon, 0);
  return [
    heading(survey.title || texts.untitled),
    ...paragraphs(survey.introduction),
    h("p", { class: "note" }, texts.questions(survey.questions.length), survey.contact && ` · ${texts.contact}: ${survey.contact}`),
    asksSome(survey) && h("p", { class: "note" }, texts.some),
    h("section", { class: "card" },
      h("h2", {}, promise.title),
      h("p", {}, survey.trust === "local" ? promise.local : promise.shuffle),
      oddsBox(context),
    ),
    whoSees(context),
    h("section", { class: "card" },
      h("h2", {}, consent.title),
      h("p", {}, consent.text),
      before.length > 0 && h("p", { class: "note" }, texts.before(before.length, bound(spent))),
      h("form", { novalidate: true, submit },
        asked && asked.element,
        h("label", { class: "option" }, agree, h("span", {}, consent.agree)),
        problem,
        h("p", { class: "note" }, consent.stored),
        h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, consent.begin)),
      ),
    ),
    details(context),
  ].filter((one): one is HTMLElement => one !== false);
}

/** The questions that this device asks, in their form. */
export function questions({ survey, texts }: Context, asked: readonly Question[], form: HTMLElement): HTMLElement[] {
  const all = survey.questions.length;
  return [
    heading(survey.title || texts.untitled),
    asked.length < all && h("p", {}, texts.asked(asked.length, all)),
    form,
  ].filter((one): one is HTMLElement => one !== false);
}

/** A field for the invitation code. */
function codeField(texts: Texts, code: string): { input: HTMLInputElement; element: HTMLElement } {
  const input = h("input", {
    type: "text", id: "code", autocomplete: "off", spellcheck: "false", value: code, "aria-describedby": "code-help",
  });
  const label = h("label", { for: "code" }, texts.code.label);
  return { input, element: h("p", { class: "code" }, label, input, h("span", { class: "help", id: "code-help" }, texts.code.help)) };
}

function whoSees({ survey, texts, number, bound }: Context): HTMLElement {
  const { sees, promise } = texts;
  const host = (url: string) => new URL(url).host;
  const row = (look: string, who: string, where: string, what: string) =>
    h("li", { class: look },
      h("p", { class: "who" }, who, where && h("span", { class: "host" }, where)),
      h("p", {}, what));
  const rows =
    survey.trust === "local"
      ? [row("some", sees.collector, host(survey.shuffler), sees.collectorSees)]
      : [
          row("little", sees.shuffler, host(survey.shuffler),
            survey.noise === "shuffler" ? `${sees.shufflerSees} ${sees.shufflerNoise}` : sees.shufflerSees),
          row("little", sees.analyzer, host(survey.analyzer), sees.analyzerSees),
          row(Number.isFinite(survey.localEpsilon) ? "some" : "all", sees.both, "",
            Number.isFinite(survey.localEpsilon) ? sees.bothSeeRandomized(bound(survey.localEpsilon)) : sees.bothSee),
        ];
  return h("section", { class: "card" },
    h("h2", {}, sees.title),
    h("ul", { class: "sees" }, ...rows, row("little", sees.readers, "", sees.readersSee)),
    h("p", {}, survey.trust === "local"
      ? promise.relyLocal
      : promise.relyShuffle(number(survey.leastPeople), survey.noise === "shuffler")),
  );
}

function details({ survey, texts, number, bound }: Context): HTMLElement {
  const { details: told } = texts;
  const bytes = survey.messages * (survey.messageBytes + OVERHEAD);
  return h("details", {},
    h("summary", {}, told.title),
    facts([
      [told.digest, h("code", {}, survey.digest)],
      [told.epsilon, bound(survey.epsilon)],
      [told.delta, bound(survey.delta)],
      ...(survey.waves > 1 ? [[told.waves, number(survey.waves)] as const] : []),
      [told.people, told.peopleCount(number(survey.leastPeople))],
      [told.size, told.sizeOf(number(survey.messages), number(bytes))],
      [survey.trust === "local" ? texts.sees.collector : told.shuffler, survey.shuffler],
      ...(survey.trust === "local" ? [] : [[told.analyzer, survey.analyzer] as const]),
    ]),
    h("p", {}, told.meaning),
    h("h3", {}, told.checked),
    h("p", {}, told.checks),
    survey.trust === "shuffle" && h("p", {}, told.notChecked),
    survey.trust === "local" && survey.waves > 1 && survey.delta > 0 && h("p", {}, told.wavesNotChecked(bound(survey.localEpsilon))),
  );
}

export function review(
  { texts, words }: Context,
  asked: readonly Question[],
  answers: Answers,
  change: () => void,
  seal: () => void,
): HTMLElement[] {
  return [
    heading(texts.review.title),
    h("p", {}, texts.review.text),
    h("section", { class: "card" },
      facts(asked.map((one) => [one.text, words.answer(one, answers[one.id] ?? null)]))),
    h("p", { class: "actions" },
      h("button", { type: "button", click: change }, texts.review.change),
      h("button", { type: "button", class: "primary", click: seal }, texts.review.seal)),
  ];
}

export function leaving(
  context: Context,
  contents: readonly Content[] | null,
  sealed: Uint8Array,
  code: string,
  send: (code: string, button: HTMLButtonElement, problem: HTMLElement) => void,
): HTMLElement[] {
  const { survey, texts, number } = context;
  const { leaves } = texts;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const asked = survey.admission === "codes" ? codeField(texts, code) : null;
  // After the first try nobody knows whether something has arrived.
  const notSent = h("p", { class: "note", hidden: contents === null }, leaves.notSent);
  const submit = () => {
    notSent.hidden = true;
    send(asked?.input.value.trim() ?? "", button, problem);
  };
  const button = h("button", { type: "button", class: "primary", click: submit }, leaves.send);
  return [
    heading(leaves.title),
    contents === null && h("p", {}, leaves.resume),
    h("p", {}, leaves.text(number(survey.messages), number(sealed.length))),
    contents !== null && inWords(context, contents),
    h("details", {},
      h("summary", {}, leaves.asBytes),
      h("pre", { tabindex: 0, "aria-label": leaves.asBytes }, dump(sealed))),
    h("section", { class: "card" }, oddsBox(context)),
    notSent,
    asked?.element ?? false,
    problem,
    h("p", { class: "actions" }, button),
  ].filter((one): one is HTMLElement => one !== false);
}

/** The messages of each release in words, sorted, with their numbers. */
function inWords(context: Context, contents: readonly Content[]): HTMLElement {
  const { survey, texts, words } = context;
  const { leaves } = texts;
  const rows = survey.releases.map((release, number) => {
    const own = contents.filter((one) => one.release === number);
    const sent = own.flatMap((one) => (one.meaning ? [one.meaning] : []));
    if (survey.trust === "local" && !sent.length) return null;
    const counts = new Map<string, number>();
    for (const meaning of sent) {
      const text = words.message(release, meaning);
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
    const kinds = new Set(sent.map((one) => one.kind));
    const help = kinds.has("share") ? leaves.shareHelp : ["report", "set", "boxes", "ranges"].some((kind) => kinds.has(kind as never))
        ? leaves.reportHelp
        : "";
    const empty = own.length - sent.length;
    const listed = [...counts].sort(([one], [other]) => one.localeCompare(other, undefined, { numeric: true }));
    return h("li", {},
      h("p", { class: "who" }, words.title(release, sent)),
      h("ul", { class: "messages" },
        ...listed.map(([text, count]) =>
          h("li", {}, `${text} `, count > 1 && h("span", { class: "times" }, leaves.copies(count)))),
        empty > 0 && survey.trust === "shuffle" && h("li", { class: "empty" }, leaves.empty(empty))),
      help && h("p", { class: "note" }, help));
  });
  const hidden = survey.noise === "shuffler" ? leaves.hiddenByShuffler : leaves.hiddenByPeople;
  return h("section", { class: "card" },
    h("h2", {}, leaves.inWords),
    h("p", {}, survey.trust === "local" ? leaves.randomized : `${leaves.shuffled} ${hidden}`),
    h("ul", { class: "said" }, ...rows),
    survey.trust === "shuffle" && h("p", { class: "note" }, leaves.emptyHelp));
}

/** Bytes as hexadecimal digits, 16 to a line. */
function dump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = Array.from(bytes.subarray(at, at + 16), (byte) => byte.toString(16).padStart(2, "0"));
    lines.push(row.join(" "));
  }
  return lines.join("\n");
}

export function receipt({ survey, texts, number }: Context): HTMLElement[] {
  const { receipt: told } = texts;
  return [
    h("p", { class: "mark", "aria-hidden": "true" }, "✓"),
    heading(told.title),
    h("p", {}, survey.trust === "local" ? told.storedLocal : told.stored),
    h("p", {}, told.next(number(survey.leastPeople))),
    h("p", {}, told.keeps),
    whichSurvey(survey, texts),
  ];
}

export function already({ survey, texts }: Context): HTMLElement[] {
  return [
    h("p", { class: "mark", "aria-hidden": "true" }, "✓"),
    heading(texts.already.title),
    h("p", {}, texts.already.text),
    h("p", {}, texts.already.why),
    whichSurvey(survey, texts),
  ];
}

/** The title of the survey, and its fingerprint. */
function whichSurvey(survey: Survey, texts: Texts): HTMLElement {
  return h("section", { class: "card" },
    facts([
      [texts.receipt.survey, survey.title || texts.untitled],
      [texts.details.digest, h("code", {}, survey.digest)],
    ]));
}

/** What went wrong, and a button to load the page again if this may help. */
export function failure(texts: Texts, sentence: string, again: boolean): HTMLElement[] {
  const button = h("button", { type: "button", class: "primary", click: () => location.reload() }, texts.reload);
  const said = [heading(texts.errors.title), h("p", {}, sentence)];
  return again ? [...said, h("p", { class: "actions" }, button)] : said;
}

export function heading(text: string): HTMLElement {
  return h("h1", { tabindex: -1 }, text);
}
