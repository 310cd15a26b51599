// The questions as native form fields, which keyboards and screen readers know.

import type { Answer, Answers, Question } from "../src/questions.js";
import { h } from "./dom.js";
import type { Texts } from "./texts/index.js";

/** One question: its fields, and the answer in them. */
interface Field {
  readonly question: Question;
  readonly element: HTMLElement;
  /** The answer, or a sentence that says what is wrong. */
  read(): { readonly answer: Answer } | { readonly problem: string };
  show(problem: string): void;
}

export class Form {
  readonly element: HTMLFormElement;
  private readonly fields: Field[];
  private readonly summary: HTMLElement;

  constructor(
    questions: readonly Question[],
    private readonly texts: Texts,
    number: (value: number) => string,
    given: Answers,
    changed: (answers: Answers) => void,
    done: () => void,
  ) {
    this.fields = questions.map((one, at) => field(one, at + 1, texts, number, given[one.id]));
    this.summary = h("div", { class: "problems", role: "alert", tabindex: -1, hidden: true });
    this.element = h(
      "form",
      {
        novalidate: true,
        input: () => {
          changed(this.answers);
          if (!this.summary.hidden) this.summarize();
        },
        submit: (event) => {
          event.preventDefault();
          changed(this.answers);
          if (this.complete()) done();
        },
      },
      ...this.fields.map((one) => one.element),
      this.summary,
      h("p", { class: "note" }, texts.private),
      h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, texts.next)),
    );
  }

  /** The answers so far. */
  private get answers(): Answers {
    const found = this.fields.map((one) => [one.question.id, one.read()] as const);
    return Object.fromEntries(found.flatMap(([id, one]) => ("answer" in one ? [[id, one.answer]] : [])));
  }

  /** Whether all answers are complete. Otherwise, problems are shown. */
  private complete(): boolean {
    for (const one of this.fields) {
      const found = one.read();
      one.show("problem" in found ? found.problem : "");
    }
    if (this.summarize()) return true;
    this.summary.focus();
    this.summary.scrollIntoView({ block: "center" });
    return false;
  }

  /** List the questions whose answers are not complete, and return whether there are none. */
  private summarize(): boolean {
    const problems = this.fields.filter((one) => "problem" in one.read());
    this.summary.hidden = !problems.length;
    this.summary.replaceChildren(
      h("p", {}, this.texts.problems(problems.length)),
      h(
        "ul",
        {},
        ...problems.map((one) => {
          const link = h("a", { href: `#${one.element.id}` }, one.question.text);
          link.addEventListener("click", (event) => {
            event.preventDefault();
            one.element.querySelector("input")!.focus();
          });
          return h("li", {}, link);
        }),
      ),
    );
    return !problems.length;
  }
}

/** A radio button or a box with its label. */
function option(type: "radio" | "checkbox", name: string, label: string, checked: boolean) {
  const input = h("input", { type, name, checked });
  return { input, element: h("label", { class: "option" }, input, h("span", {}, label)) };
}

function field(
  question: Question,
  place: number,
  texts: Texts,
  number: (value: number) => string,
  given: Answer | undefined,
): Field {
  const id = `question-${place}`;
  const problem = h("p", { class: "problem", id: `${id}-problem`, hidden: true });
  const made = fieldsOf(question, id, texts, number, given);
  const legend = h(
    "legend",
    {},
    h("span", { class: "place", "aria-hidden": "true" }, String(place)),
    h("span", {}, question.text),
    question.optional && h("span", { class: "tag" }, texts.optional),
  );
  const element = h(
    "fieldset",
    { id, "aria-describedby": `${id}-help ${id}-problem` },
    legend,
    h("p", { class: "help", id: `${id}-help`, hidden: !made.help }, made.help),
    h("div", { class: made.look }, ...made.elements),
    problem,
  );
  const show = (text: string) => {
    problem.textContent = text;
    problem.hidden = !text;
    element.classList.toggle("wrong", Boolean(text));
    for (const input of element.querySelectorAll("input")) input.ariaInvalid = text ? "true" : null;
  };
  element.addEventListener("input", () => show(""));
  return { question, element, read: made.read, show };
}

function missing(question: Question, texts: Texts): string {
  return question.optional ? texts.missingOptional : texts.missing;
}

interface Fields {
  readonly look: string;
  readonly help: string;
  readonly elements: HTMLElement[];
  read(): { readonly answer: Answer } | { readonly problem: string };
}

function fieldsOf(
  question: Question,
  id: string,
  texts: Texts,
  number: (value: number) => string,
  given: Answer | undefined,
): Fields {
  switch (question.kind) {
    case "yes-no":
      return oneOf(question, id, [[true, texts.yes], [false, texts.no]], texts, given, "options");
    case "choice":
      return oneOf(question, id, question.choices.map((one) => [one, one]), texts, given, "options");
    case "scale": {
      const levels = Array.from({ length: question.high - question.low + 1 }, (_, at) => question.low + at);
      const few = levels.length <= 11 ? "scale" : "scale many";
      return oneOf(question, id, levels.map((one) => [one, number(one)]), texts, given, few);
    }
    case "several":
      return someOf(question, id, texts, given);
    case "number":
      return numberIn(question, id, texts, number, given);
  }
}

function oneOf(
  question: Question,
  id: string,
  choices: [Answer, string][],
  texts: Texts,
  given: Answer | undefined,
  look: string,
): Fields {
  const every: [Answer, string][] = question.optional ? [...choices, [null, texts.none]] : choices;
  const options = every.map(([value, label]) => ({ value, ...option("radio", id, label, value === given) }));
  if (question.optional) options.at(-1)!.element.classList.add("none");
  return {
    look,
    help: question.optional ? texts.noneHelp : "",
    elements: options.map((one) => one.element),
    read() {
      const chosen = options.find((one) => one.input.checked);
      return chosen ? { answer: chosen.value } : { problem: missing(question, texts) };
    },
  };
}

function someOf(
  question: Question & { kind: "several" },
  id: string,
  texts: Texts,
  given: Answer | undefined,
): Fields {
  const before = Array.isArray(given) ? (given as string[]) : [];
  const options = question.choices.map((label) => ({
    label,
    ...option("checkbox", id, label, before.includes(label)),
  }));
  const none = question.optional ? option("checkbox", id, texts.none, given === null) : null;
  none?.element.classList.add("none");
  // "No answer" and ticks exclude each other.
  none?.input.addEventListener("change", () => {
    if (none.input.checked) for (const one of options) one.input.checked = false;
  });
  for (const one of options) {
    one.input.addEventListener("change", () => {
      if (none && one.input.checked) none.input.checked = false;
    });
  }
  const limit = question.atMost < question.choices.length ? texts.atMost(question.atMost) : texts.any;
  return {
    look: "options",
    help: question.optional ? `${limit} ${texts.noneHelp}` : limit,
    elements: [...options.map((one) => one.element), ...(none ? [none.element] : [])],
    read() {
      if (none?.input.checked) return { answer: null };
      const answer = options.filter((one) => one.input.checked).map((one) => one.label);
      return answer.length <= question.atMost ? { answer } : { problem: texts.tooMany(question.atMost) };
    },
  };
}

function numberIn(
  question: Question & { kind: "number" },
  id: string,
  texts: Texts,
  number: (value: number) => string,
  given: Answer | undefined,
): Fields {
  const { low, high, whole } = question;
  const input = h("input", {
    type: "number",
    inputmode: low >= 0 ? (whole ? "numeric" : "decimal") : "text",
    min: low,
    max: high,
    step: whole ? 1 : "any",
    autocomplete: "off",
    "aria-label": question.text,
    "aria-describedby": `${id}-help`,
    value: typeof given === "number" ? String(given) : "",
  });
  const none = question.optional ? option("checkbox", id, texts.none, given === null) : null;
  none?.element.classList.add("none");
  none?.input.addEventListener("change", () => {
    if (none.input.checked) input.value = "";
  });
  input.addEventListener("input", () => {
    if (none && input.value) none.input.checked = false;
  });
  const range = texts.range(number(low), number(high), whole);
  return {
    look: "number",
    help: question.optional ? `${range} ${texts.noneHelp}` : range,
    elements: [input, ...(none ? [none.element] : [])],
    read() {
      if (none?.input.checked) return { answer: null };
      const answer = input.valueAsNumber;
      if (input.value === "" && input.validity.valid) return { problem: missing(question, texts) };
      const fits = answer >= low && answer <= high && (!whole || Number.isInteger(answer));
      return fits ? { answer } : { problem: texts.wrongNumber(number(low), number(high), whole) };
    },
  };
}
