// The page on which a person answers a survey. It goes from one view to the next.

import { Respondent } from "../src/client.js";
import { fetched, surveyOf } from "../src/document.js";
import { HeadcountError } from "../src/errors.js";
import type { Answers, Question } from "../src/questions.js";
import type { Content } from "../src/response.js";
import { BrowserStore } from "../src/store.js";
import { h } from "./dom.js";
import { Form } from "./form.js";
import { boundIn, numberIn } from "./numbers.js";
import { LANGUAGES, preferred } from "./texts/index.js";
import { already, failure, introduction, leaving, questions, receipt, review, type Context } from "./views.js";
import { Words } from "./words.js";

const place = document.getElementById("page")!;
const status = document.getElementById("status")!;
// A shuffler serves the page beside the document. As a static file, it has the document beside it.
const served = /\/surveys\/([0-9a-f]{64})\/$/.exec(location.pathname)?.[1];
const fragment = new URLSearchParams(location.hash.slice(1));
const digest = served ?? fragment.get("survey") ?? "";

let language = preferred(navigator.languages);
let shown: () => void = () => undefined;

function texts() {
  return LANGUAGES[language]!;
}

function number(value: number): string {
  return numberIn(language, value);
}

function bound(value: number): string {
  return boundIn(language, value);
}

/** Show a view, and move the focus to its heading. `view` is called again for another language. */
function show(view: () => HTMLElement[], { focus = true } = {}): void {
  shown = () => {
    document.documentElement.lang = language;
    const main = h("main", {}, ...view());
    place.replaceChildren(main, footer());
    document.title = main.querySelector("h1")?.textContent ?? "";
  };
  shown();
  status.textContent = "";
  if (!focus) return;
  scrollTo(0, 0);
  place.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
}

function footer(): HTMLElement {
  const buttons = Object.entries(LANGUAGES).map(([name, found]) =>
    h("button", {
      type: "button",
      lang: name,
      "aria-pressed": String(name === language),
      click: () => {
        language = name;
        shown();
        place.querySelector<HTMLElement>(`footer [lang="${name}"]`)?.focus();
      },
    }, found.language),
  );
  return h("footer", {}, ...buttons);
}

function fail(error: unknown, loading: boolean): void {
  const code = error instanceof HeadcountError ? error.code : "refused";
  if (!(error instanceof HeadcountError)) console.error(error);
  const key = loading && code === "unavailable" ? "unreachable" : code;
  show(() => failure(texts(), texts().errors[key], key === "unreachable"));
}

async function start(): Promise<void> {
  show(() => [h("p", { class: "note" }, texts().loading)], { focus: false });
  try {
    const store = new BrowserStore();
    // The browser opens its database while the document arrives.
    const [bytes] = await Promise.all([fetched(served ? `../${digest}` : "survey.json"), store.all()]);
    const survey = await surveyOf(bytes, digest);
    const respondent = new Respondent(survey, served ? { store, shuffler: "responses" } : { store });
    const page = new Page(respondent, fragment.get("code") ?? "");
    await page.begin();
  } catch (error) {
    fail(error, true);
  }
}

class Page {
  private answers: Answers = {};
  private questions: readonly Question[] = [];

  constructor(
    private readonly respondent: Respondent,
    private code: string,
  ) {}

  private context(): Context {
    const { survey } = this.respondent;
    return { survey, texts: texts(), number, bound, words: new Words(survey, texts(), number) };
  }

  async begin(): Promise<void> {
    const [state, before] = await Promise.all([this.respondent.state(), this.respondent.before()]);
    if (state === "accepted") show(() => already(this.context()), { focus: false });
    else if (state === "sealed") await this.leave(null);
    else {
      const agreed = (code: string) => void this.agree(code);
      show(() => introduction(this.context(), before, this.code, agreed), { focus: false });
    }
  }

  /** After consent, the device draws which questions it asks, and keeps what it has drawn. */
  private async agree(code: string): Promise<void> {
    this.code = code;
    try {
      this.questions = await this.respondent.questions();
      this.ask();
    } catch (error) {
      fail(error, false);
    }
  }

  private ask(): void {
    show(() => {
      const changed = (answers: Answers) => (this.answers = answers);
      const form = new Form(this.questions, texts(), number, this.answers, changed, () => this.check());
      return questions(this.context(), this.questions, form.element);
    });
  }

  private check(): void {
    show(() => review(this.context(), this.questions, this.answers, () => this.ask(), () => void this.seal()));
  }

  private async seal(): Promise<void> {
    try {
      const contents = await this.respondent.answer(this.answers);
      this.answers = {};
      await this.leave(contents);
    } catch (error) {
      fail(error, false);
    }
  }

  private async leave(contents: Content[] | null): Promise<void> {
    const sealed = await this.respondent.sealed();
    const send = (code: string, button: HTMLButtonElement, problem: HTMLElement) => {
      this.code = code;
      void this.send(button, problem);
    };
    show(() => leaving(this.context(), contents, sealed, this.code, send), { focus: contents !== null });
  }

  private async send(button: HTMLButtonElement, problem: HTMLElement): Promise<void> {
    if (button.ariaDisabled === "true") return;
    button.ariaDisabled = "true"; // a disabled button would lose the focus
    button.textContent = status.textContent = texts().leaves.sending;
    problem.hidden = true;
    try {
      await this.respondent.send(this.code, 2);
      show(() => receipt(this.context()));
    } catch (error) {
      const code = error instanceof HeadcountError ? error.code : "refused";
      button.ariaDisabled = null;
      button.textContent = texts().leaves.again;
      status.textContent = "";
      problem.textContent = texts().errors[code];
      problem.hidden = false;
    }
  }
}

void start();
