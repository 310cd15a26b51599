// Part 4: the reader's answer as a row of bits, some of which are flipped. Then a crowd does the same.

import { h } from "../../pages/dom.js";
import { Chart, type Spec } from "../charts/chart.js";
import { percent, places } from "../charts/numbers.js";
import { data } from "../data.js";
import { button, buttons, choice, result, slider } from "./controls.js";
import { sender } from "./randomizers.js";

type Level = (typeof data.answers.levels)[number];

export function oneHot(place: HTMLElement): void {
  const { question, answers, counts, people, levels } = data.answers;
  const sent = result(h("p", { class: "note" }, "Choose an answer. It stays on this page."));
  const said = result();
  let own: number | null = null;

  const send = () => {
    if (own === null) {
      sent.replaceChildren(h("p", { class: "problem" }, "Choose an answer first."));
      return;
    }
    const held = own;
    const bits = bitsOf(sender(level.value.device)(held));
    const flips = bits.filter((bit, at) => bit !== Number(at === held)).length;
    sent.replaceChildren(
      h(
        "table",
        { class: "bits" },
        h("caption", { class: "hidden" }, "Your bits and the bits of the message"),
        h("thead", {}, h("tr", {}, ...["answer", "your bit", "message"].map((head) => h("th", { scope: "col" }, head)))),
        h(
          "tbody",
          {},
          ...answers.map((answer, at) => {
            const flipped = bits[at] !== Number(at === held);
            return h(
              "tr",
              { class: flipped ? "flipped" : "" },
              h("th", { scope: "row" }, answer),
              h("td", {}, String(Number(at === held))),
              h("td", {}, `${bits[at]}${flipped ? ", flipped" : ""}`),
            );
          }),
        ),
      ),
      h(
        "p",
        { class: "note" },
        `${flips} of ${answers.length} bits were flipped. ` +
          `Each is flipped with a probability of ${percent(level.value.flip, 1)}.`,
      ),
    );
  };

  const ask = () => {
    const answer = sender(level.value.device);
    const ones = new Array<number>(answers.length).fill(0);
    counts.forEach((count, held) => {
      for (let person = 0; person < count; person++) {
        bitsOf(answer(held)).forEach((bit, at) => (ones[at]! += bit));
      }
    });
    const estimates = ones.map((count) => estimated(count, level.value));
    chart.show(spec(ones, estimates, level.value));
    const error = Math.sqrt(level.value.variance / people);
    const total = estimates.reduce((all, one) => all + one, 0);
    said.replaceChildren(
      h(
        "p",
        {},
        `The standard error of each share is ${places(100 * error, 1)} points. ` +
          `The estimated shares add up to ${percent(total, 1)}, not quite to 100 %, and some may be negative.`,
      ),
    );
  };

  const changed = () => {
    sent.replaceChildren(h("p", { class: "note" }, own === null ? "Choose an answer." : "Now send your answer."));
    chart.show(spec(null, [], level.value));
    said.replaceChildren();
  };
  const asked = choice(
    question,
    answers.map((answer, at) => [String(at), answer] as const),
    (value) => {
      own = Number(value);
      sent.replaceChildren(h("p", { class: "note" }, "Now send your answer."));
    },
  );
  const level = slider("ε", levels, 1, (one) => places(one.epsilon, 1), changed);
  const chart = new Chart(spec(null, [], level.value));
  place.append(
    asked,
    level.element,
    buttons(button("Send your answer", send, true)),
    sent,
    buttons(button(`Let ${people.toLocaleString("en-US")} people answer`, ask)),
    chart.element,
    said,
  );
}

/** The share of people who hold an answer, from the number of messages whose bit is 1. */
function estimated(ones: number, { flip }: Level): number {
  return (ones / data.answers.people - flip) / (1 - 2 * flip);
}

/** The bits of a message, whose bytes have eight bits each. */
function bitsOf(messages: readonly (readonly (number | bigint)[])[]): number[] {
  return data.answers.answers.map((_, at) => (Number(messages[0]![at >> 3]) >> (at & 7)) & 1);
}

function spec(ones: readonly number[] | null, estimates: readonly number[], { epsilon }: Level): Spec {
  const { answers, counts, people } = data.answers;
  const truth = counts.map((count) => count / people);
  const came = ones?.map((count) => count / people) ?? [];
  const low = Math.min(0, ...estimates);
  const high = Math.max(...truth, ...came, ...estimates);
  const worst = Math.max(...estimates.map((one, at) => Math.abs(one - truth[at]!)));
  return {
    title: "Shares of a made-up crowd",
    summary: ones
      ? `${people.toLocaleString("en-US")} people answered at ε = ${places(epsilon, 1)}. ` +
        `The largest error of the five estimates is ${places(100 * worst, 1)} points.`
      : "Nobody has answered yet.",
    x: { title: "answer", low: -0.6, high: answers.length - 0.4, ticks: [...answers.keys()], format: (at) => answers[at] ?? "" },
    y: { title: "share", low: 1.05 * low, high: 1.1 * high, format: (share) => percent(share, 1) },
    series: [
      { label: "messages with this bit", color: "soft", kind: "bars", width: 0.7, points: came.map((one, at) => [at, one]) },
      { label: "estimate", color: "local", kind: "points", points: estimates.map((one, at) => [at, one]) },
      { label: "truth", color: "ink", kind: "marks", points: truth.map((one, at) => [at, one]) },
    ],
  };
}
