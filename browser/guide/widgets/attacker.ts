// Part 3: the reader attacks. A person holds a bit, the attacker sees the message and bets on the bit.

import { h } from "../../pages/dom.js";
import { uniform } from "../../src/random.js";
import { Chart, type Spec } from "../charts/chart.js";
import { Dots } from "../charts/dots.js";
import { percent, places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { source } from "../source.js";
import { button, buttons, choice, result, slider } from "./controls.js";
import { sender } from "./randomizers.js";

type Setting = (typeof data.guessing.settings)[number];
type Strategy = (message: number) => number;

const WORDS = ["no", "yes"] as const;
const RIGHT = { color: "accent", full: true } as const;
const WRONG = { color: "soft", full: false } as const;
const { rounds, games, settings, first } = data.guessing;

/** How a computer may bet, by name. The first is the best. */
const STRATEGIES: readonly (readonly [name: string, label: string, bet: Strategy])[] = [
  ["believe", "Believe every message", (message) => message],
  ["yes", "Always bet on yes", () => 1],
  ["coin", "Toss a coin", () => uniform(source, 2)],
  ["doubt", "Bet against every message", (message) => 1 - message],
];

/** One round: the bit that a person holds, and the message. */
function round(send: ReturnType<typeof sender>): { bit: number; message: number } {
  const bit = uniform(source, 2);
  return { bit, message: Number(send(bit)[0]![0]) };
}

export function epsilonSlider(changed: (setting: Setting) => void) {
  const label = (one: Setting) => short(Math.ceil(1000 * one.epsilon - 1e-9) / 1000, 4);
  return slider("ε of the answer", settings, first, label, changed);
}

export function attacker(place: HTMLElement): void {
  const said = result();
  const track = new Dots();
  const message = h("p", { class: "message" });
  let send = sender(settings[first]!.device);
  let won: boolean[] = [];
  let now = round(send);

  const ask = () => {
    message.replaceChildren(
      `Round ${won.length + 1} of ${rounds}. The message says `,
      h("strong", {}, WORDS[now.message]!),
      ". What does the person hold?",
    );
  };

  const score = () => won.filter(Boolean).length;

  const show = () => {
    const left = Array.from({ length: rounds - won.length }, () => ({ ...WRONG, color: "none" as const }));
    track.show(
      [...won.map((one) => (one ? RIGHT : WRONG)), ...left],
      `You were right in ${score()} of ${won.length} rounds.`,
      [{ ...RIGHT, label: "right" }, { ...WRONG, label: "wrong" }],
    );
  };

  const start = () => {
    send = sender(epsilon.value.device);
    won = [];
    now = round(send);
    said.replaceChildren();
    chart.element.hidden = again.hidden = true;
    bets.hidden = message.hidden = false;
    ask();
    show();
  };

  const bet = (guess: number) => {
    won.push(guess === now.bit);
    const truth = `The person held ${WORDS[now.bit]}.`;
    said.replaceChildren(h("p", {}, won.at(-1) ? `Right. ${truth}` : `Wrong. ${truth}`));
    show();
    if (won.length === rounds) finish(truth);
    else {
      now = round(send);
      ask();
    }
  };

  const finish = (truth: string) => {
    const { right, scores } = epsilon.value;
    const luck = scores.slice(score()).reduce((sum, one) => sum + one, 0);
    said.replaceChildren(
      h("p", {}, `${truth} You were right in `, h("strong", {}, `${score()} of ${rounds} rounds`), "."),
      h(
        "p",
        {},
        `In the long run, nobody is right in more than ${places(rounds * right, 1)} of ${rounds} rounds, ` +
          `which is ${percent(right, 1)}. In a single game, luck matters: the best attacker reaches your score or ` +
          `a better one in ${percent(luck, 1)} of all games.`,
      ),
    );
    chart.show(spec(epsilon.value, score()));
    bets.hidden = message.hidden = true;
    chart.element.hidden = again.hidden = false;
    again.querySelector("button")!.focus();
  };

  const epsilon = epsilonSlider(start);
  const bets = buttons(button("Bet on yes", () => bet(1)), button("Bet on no", () => bet(0)));
  const again = buttons(button("Play again", start, true));
  const chart = new Chart(spec(settings[first]!, null));
  place.append(epsilon.element, message, bets, said, track.element, again, chart.element);
  start();
}

function spec({ scores, right }: Setting, score: number | null): Spec {
  const likely = scores.indexOf(Math.max(...scores));
  return {
    title: `Scores of the best attacker in games of ${rounds} rounds`,
    summary:
      `The best attacker is right in ${places(rounds * right, 1)} rounds on average. The most frequent score is ${likely}, ` +
      `in ${percent(scores[likely]!, 1)} of all games.`,
    x: { title: "rounds in which the attacker is right", low: -0.7, high: rounds + 0.7, ticks: [0, 5, 10, 15, 20] },
    y: { title: "share of games", low: 0, high: Math.max(...scores) * 1.15, format: (value) => percent(value, 1) },
    series: [{ label: "best attacker", color: "local", kind: "bars", width: 1, points: scores.map((one, at) => [at, one]) }],
    rules: score === null ? [] : [{ on: "x", at: score, label: `you: ${score}` }],
  };
}

/** A computer plays many games with one strategy. */
export function longRun(place: HTMLElement): void {
  let strategy = STRATEGIES[0]!;
  const said = result();
  const clear = () => said.replaceChildren();
  const epsilon = epsilonSlider(clear);
  const names = STRATEGIES.map(([name, label]) => [name, label] as const);
  const play = () => {
    const { device, right } = epsilon.value;
    const send = sender(device);
    const all = games * rounds;
    let won = 0;
    for (let at = 0; at < all; at++) {
      const { bit, message } = round(send);
      won += Number(strategy[2](message) === bit);
    }
    said.replaceChildren(
      h("p", {}, "Right in ", h("strong", {}, `${short(won, 7)} of ${short(all, 7)} rounds`), `: ${percent(won / all, 2)}.`),
      h("p", {}, `No strategy is right more often than ${percent(right, 2)} in the long run.`),
    );
  };
  place.append(
    epsilon.element,
    choice("How does the computer bet?", names, (name) => {
      strategy = STRATEGIES.find(([one]) => one === name)!;
      clear();
    }, strategy[0]),
    buttons(button(`Play ${short(games, 5)} games`, play, true)),
    said,
  );
}
