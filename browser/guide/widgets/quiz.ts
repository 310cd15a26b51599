// Part 11: the quiz. A wrong answer is explained by a simulation of the mistake.

import { h } from "../../pages/dom.js";
import { Chart } from "../charts/chart.js";
import { questions, type Question, type Simulation } from "../quiz/index.js";
import { typeset } from "../quiz/shown.js";
import { button, buttons, fresh, readings, result } from "./controls.js";

const BELIEVED = "If your answer were right";
const FOUND = "In the simulation";
const EXACT = "In the long run";

export function quiz(place: HTMLElement): void {
  let asked: Question[] = [];
  let right: boolean[] = [];

  const start = () => {
    asked = questions();
    right = [];
    next();
  };

  const next = () => {
    const current = asked[right.length];
    if (current) show(current);
    else finish();
  };

  const show = (current: Question) => {
    const name = fresh("quiz");
    const heading = h("h3", { tabindex: -1 }, current.title);
    const said = result();
    const seen = h("div", { class: "simulation" });
    const options = current.answers.map(({ label }, at) =>
      h(
        "label",
        { class: "option" },
        h("input", { type: "radio", name, value: at, change: () => said.replaceChildren() }),
        h("span", {}, ...(typeof label === "string" ? typeset(label) : [label])),
      ),
    );
    const inputs = options.map((option) => option.querySelector("input")!);

    const check = () => {
      const chosen = inputs.findIndex((input) => input.checked);
      const answer = current.answers[chosen];
      if (!answer) {
        said.replaceChildren(h("p", { class: "problem" }, "Choose an answer first."));
        return;
      }
      right.push(answer.right);
      inputs.forEach((input) => (input.disabled = true));
      options.forEach((option, at) => {
        const is = current.answers[at]!.right;
        option.classList.toggle("right", is);
        option.classList.toggle("mistaken", at === chosen && !is);
        if (is || at === chosen) option.querySelector("span")!.append(h("strong", { class: "verdict" }, is ? "right" : "not so"));
      });
      said.replaceChildren(
        h("p", {}, h("strong", {}, answer.right ? "Right. " : "Not so. "), ...typeset(answer.why)),
      );
      if (answer.simulate) simulate(answer.simulate);
      tally.textContent = scored(right);
      checks.hidden = true;
      onward.hidden = false;
      onward.querySelector("button")!.focus({ preventScroll: true });
    };

    const simulate = (run: () => Simulation) => {
      const results = h("div", {}, ...shown(run()));
      const again = button("Simulate again", () => results.replaceChildren(...shown(run())));
      seen.replaceChildren(results, buttons(again));
    };

    const last = right.length + 1 === asked.length;
    const tally = h("span", {}, scored(right));
    const checks = buttons(button("Check my answer", check, true));
    const onward = buttons(button(last ? "Show my score" : "Next question", next, true));
    onward.hidden = true;
    place.replaceChildren(
      h("p", { class: "note quiz-progress" }, `Question ${right.length + 1} of ${asked.length}. `, tally),
      heading,
      ...current.story.map((text) => h("p", {}, ...typeset(text))),
      h(
        "fieldset",
        { "data-question": current.name },
        h("legend", {}, h("span", {}, ...typeset(current.asks))),
        h("div", { class: `options${current.answers.some(({ label }) => typeof label !== "string") ? " tables" : ""}` }, ...options),
      ),
      checks,
      said,
      seen,
      onward,
    );
    if (right.length) heading.focus();
  };

  const finish = () => {
    const missed = asked.filter((_, at) => !right[at]);
    const heading = h("h3", { tabindex: -1 }, `${right.filter(Boolean).length} of ${asked.length} right`);
    place.replaceChildren(
      heading,
      missed.length
        ? h(
            "div",
            {},
            h("p", {}, "You may want to read these parts again:"),
            h(
              "ul",
              {},
              ...missed.map(({ title, part }) => h("li", {}, h("a", { href: `#part-${part}` }, `Part ${part}`), `: ${title}`)),
            ),
          )
        : h("p", {}, "Every answer was right."),
      h("p", { class: "note" }, "Your answers stay on this page. With fresh numbers, the questions are not the same."),
      buttons(button("Start again with fresh numbers", start, true)),
    );
    heading.focus();
  };

  place.replaceChildren(
    h("p", {}, "The quiz draws fresh numbers every time. It sends your answers to nobody."),
    buttons(button("Start the quiz", start, true)),
  );
}

function scored(right: readonly boolean[]): string {
  return right.length ? `${right.filter(Boolean).length} of ${right.length} right so far.` : "";
}

/** A simulation, as elements. */
function shown({ text, measured, believed, found, exact, table, chart }: Simulation): HTMLElement[] {
  const numbers = readings([BELIEVED, FOUND, EXACT]);
  numbers.set(BELIEVED, believed);
  numbers.set(FOUND, found);
  numbers.set(EXACT, exact);
  return [
    h("h4", {}, "A simulation of this answer"),
    h("p", {}, ...typeset(text)),
    h("p", { class: "strong" }, ...typeset(measured), ":"),
    numbers.element,
    ...(table ? [table] : []),
    ...(chart ? [new Chart(chart).element] : []),
  ];
}
