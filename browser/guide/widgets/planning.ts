// Part 10: from a margin to ε, a crowd and a trust, and a survey file to download.

import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { places, short } from "../charts/numbers.js";
import { axisOf } from "../charts/scale.js";
import { data } from "../data.js";
import { surveyFile } from "../models/survey-file.js";
import { button, buttons, choice, fresh, result, slider } from "./controls.js";

const { planning: given } = data;
const TRUSTS = ["central", "shuffle", "local"] as const;
type Trust = (typeof TRUSTS)[number];
const WHOM: Readonly<Record<Trust, string>> = {
  central: "the people who run the survey (central)",
  shuffle: "somebody who mixes the answers (shuffle)",
  local: "nobody (local)",
};

/** What the reader wishes. */
interface Wish {
  margin: number;
  sampling: boolean;
  people: number;
  questions: number;
  trust: Trust;
}

/** A point of the table: how exact a survey is with this ε. */
interface Point {
  readonly epsilon: number;
  readonly margin: number;
  readonly within: number; // of 100 people who guess, at most this many are right
}

export function planning(place: HTMLElement): void {
  const wish: Wish = { margin: 0.05, sampling: false, people: 1000, questions: given.sizes[0]!, trust: "shuffle" };
  const offers = result();
  const chart = new Chart(figure(wish));
  const fields = h("div", { class: "questions" });
  const file = h("div", { class: "survey-file" });
  const texts = [...given.questions];
  let title = given.title;

  const wished = (now: Partial<Wish>) => {
    Object.assign(wish, now);
    offers.replaceChildren(
      h("p", { class: "strong" }, `To be within ${written(wish.margin)} with ${short(wish.people)} people:`),
      h("ul", { class: "offers" }, ...TRUSTS.map((trust) => h("li", { class: `c-${trust}` }, offer({ ...wish, trust })))),
    );
    chart.show(figure(wish));
    showFile();
  };

  const showFile = () => {
    const found = enough(wish);
    const questions = texts.slice(0, wish.questions);
    if (!found) {
      file.replaceChildren(
        problem("There is no file for this wish. Accept a larger margin, ask more people, or choose another trust."),
      );
      return;
    }
    const { trust, people } = wish;
    const { epsilon } = found;
    const text = surveyFile({ title, trust, epsilon, delta: given.deltas[trust], people, questions });
    const shown = h("pre", { class: "output", tabindex: 0, role: "group", "aria-label": "The survey file" });
    shown.append(h("code", {}, text));
    file.replaceChildren(
      shown,
      [title, ...questions].every((one) => one.trim())
        ? buttons(button("Download survey.toml", () => download(text), true))
        : problem("Write a title, and a text for every question."),
    );
  };

  const field = (label: string, value: string, changed: (now: string) => void) => {
    const name = fresh("text");
    const input = h("input", { type: "text", id: name, value, maxlength: 200, autocomplete: "off" });
    input.addEventListener("input", () => {
      changed(input.value);
      showFile();
    });
    return h("div", { class: "field" }, h("label", { for: name }, label), input);
  };
  const showFields = () =>
    fields.replaceChildren(
      field("Title", title, (now) => (title = now)),
      ...texts
        .slice(0, wish.questions)
        .map((text, at) => field(`Question ${at + 1}`, text, (now) => (texts[at] = now))),
    );

  place.append(
    slider("How exact must it be?", given.margins, given.margins.indexOf(wish.margin), written, (margin) =>
      wished({ margin }),
    ).element,
    choice(
      "About whom?",
      [
        ["crowd", "The people who answer"],
        ["population", "Everybody from whom they are drawn at random"],
      ],
      (value) => wished({ sampling: value === "population" }),
      "crowd",
    ),
    slider("How many people will answer?", given.people, given.people.indexOf(wish.people), short, (people) =>
      wished({ people }),
    ).element,
    choice(
      "How many yes-or-no questions?",
      given.sizes.map((one) => [String(one), String(one)] as const),
      (value) => {
        wished({ questions: Number(value) });
        showFields();
      },
      String(wish.questions),
    ),
    offers,
    chart.element,
    h("h3", {}, "Your survey"),
    choice(
      "Whom do people trust?",
      TRUSTS.map((trust) => [trust, WHOM[trust].replace(/^./, (first) => first.toUpperCase())] as const),
      (trust) => wished({ trust }),
      wish.trust,
    ),
    h("details", { class: "write" }, h("summary", {}, "Write your own questions"), fields),
    file,
  );
  showFields();
  wished({});
}

/** The points of the table for a wish, from the smallest ε to the largest. */
function points({ sampling, people, questions, trust }: Wish): Point[] {
  const [, plans] = Object.entries(given.plans).find(([size]) => Number(size) === questions)!;
  return given.epsilons.map((epsilon, row) => {
    const { margin, with_sampling, within } = plans[trust][row]![given.people.indexOf(people)]!;
    return { epsilon, margin: sampling ? with_sampling : margin, within };
  });
}

/** The point with the smallest ε that is exact enough. */
function enough(wish: Wish): Point | undefined {
  return points(wish).find(({ margin }) => margin <= wish.margin);
}

/** What a trust offers for a wish. */
function offer(wish: Wish): HTMLElement {
  const whom = `If people trust ${WHOM[wish.trust]}: `;
  const found = enough(wish);
  if (found) {
    const guesses = `Of 100 people who guess about you, on average 50 are right without your answers, and at most ${found.within} with them.`;
    const rest = `. The margin is ${written(found.margin)}. ${guesses}`;
    return h("span", {}, whom, h("strong", {}, `ε = ${short(found.epsilon)}`), rest);
  }
  const people = given.people.find((one) => one > wish.people && enough({ ...wish, people: one }));
  const more = people
    ? `With ${short(people)} people, ε = ${short(enough({ ...wish, people })!.epsilon)} is.`
    : "No crowd in the table is large enough either.";
  return h("span", {}, whom, h("strong", {}, "no ε in the table is enough"), `. ${more}`);
}

function figure(wish: Wish): Spec {
  const epsilon = enough(wish)?.epsilon ?? given.epsilons.at(-1)!;
  const row = given.epsilons.indexOf(epsilon);
  const margins = (trust: Trust) => given.people.map((people) => [people, points({ ...wish, trust, people })[row]!.margin]);
  const here = (trust: Trust) => `${written(points({ ...wish, trust })[row]!.margin)} in ${trust} trust`;
  const all = TRUSTS.flatMap(margins).map(([, margin]) => margin!);
  return {
    title: `The margin in three trusts, at ε = ${short(epsilon)}`,
    summary: `With ${short(wish.people)} people, the margin is ${here("central")}, ${here("shuffle")} and ${here("local")}.`,
    x: axisOf("People", given.people, true),
    y: { ...axisOf("Margin in points", [...all, wish.margin], true), format: (margin) => short(100 * margin, 2) },
    series: TRUSTS.map((trust) => ({ label: trust, color: trust, kind: "line", points: margins(trust) })),
    rules: [
      { on: "y", at: wish.margin, label: `wanted: ${written(wish.margin)}` },
      { on: "x", at: wish.people, label: "" },
    ],
  };
}

/** A margin in percentage points, as plans of the library write it. */
function written(margin: number): string {
  const points = 100 * margin;
  return `±${points < 9.95 ? short(points, 2) : places(points, 0)} points`;
}

function problem(words: string): HTMLElement {
  return h("p", { class: "problem" }, words);
}

function download(text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/toml" }));
  h("a", { href: address, download: "survey.toml" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
