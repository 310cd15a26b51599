// Questions about crowds: dishonest people, single messages in a mix, and repeated questions.

import { WHOLE } from "../../src/random.js";
import { short } from "../charts/numbers.js";
import { data } from "../data.js";
import { ones, pick, runs, yesMessages, type Flip } from "./draws.js";
import { binomial } from "./estimates.js";
import { question, type Answer, type Question } from "./question.js";
import { deltaText, table, times } from "./shown.js";

const ROUNDS = 20_000;

export function honest(): Question {
  const setting = pick(data.quiz.honest);
  const { epsilon, people, honest: few, claimed, delta, least } = setting;
  const noise = BigInt(setting.weight); // of a noise message
  const factor = Math.exp(epsilon);
  const claim = (believed: number, why: string): Answer => {
    const right = believed === delta;
    return {
      label: `δ = ${deltaText(believed)}`,
      right,
      why,
      ...(right
        ? {}
        : {
            simulate: () => {
              const [yes, no] = [1, 0].map(
                (held) => runs(ROUNDS, () => held + ones(few, noise)).filter((sum) => sum >= least).length / ROUNDS,
              ) as [number, number];
              return {
                text:
                  `The attacker knows what everybody sends except ${few} honest people, of whom all hold a no except perhaps Ada. ` +
                  `${short(ROUNDS)} surveys with a yes of Ada, and as many with a no. The event is that the honest people send at ` +
                  `least ${least} messages.`,
                measured: "Probability of the event for a yes, minus e^ε times that for a no",
                believed: `at most ${deltaText(believed)}`,
                found: short(yes - factor * no),
                exact: short(delta),
                table: table(
                  ["Ada holds", "surveys with the event"],
                  [["a yes", surveys(yes)], ["a no", surveys(no)]],
                ),
              };
            },
          }),
    };
  };
  return question({
    name: "honest",
    title: "Too few honest people",
    part: 8,
    story: [
      `${people} people answer yes or no in shuffle trust. Every device sends a message for a yes, and perhaps one more as noise. ` +
        `The noise is just large enough for ε = ${short(epsilon)} and δ = ${claimed}, if all ${people} people follow the protocol.`,
      `Only ${few} of them do. The others leave out the noise, and tell the attacker what they sent.`,
    ],
    asks: `Which δ holds for the honest people, at the same ε?`,
    answers: [
      claim(
        delta,
        "Only the noise of honest people hides them. With less noise, δ grows fast. So say beforehand how many people are " +
          "certain to be honest, and the noise will be large enough.",
      ),
      claim(claimed, "The noise was meant to come from all people. What the others left out is missing."),
      claim((claimed * people) / few, "δ is not proportional to the number of people. It grows much faster than the noise falls."),
      claim((claimed * few) / people, "With fewer honest people there is less noise, and less noise never hides people better."),
    ],
  });
}

function surveys(probability: number): string {
  return short(Math.round(probability * ROUNDS));
}

export function oneMessage(): Question {
  const { odds, device } = pick(data.quiz.responses.filter((one) => one.odds < 5));
  const people = pick([3, 4, 5, 6]);
  const exact = mixedFactor(people, odds);
  const claim = (factor: number, label: string, why: string): Answer => {
    const right = Math.abs(factor - exact) < 1e-9;
    return { label, right, why, ...(right ? {} : { simulate: () => allSame(people, odds, device, factor) }) };
  };
  return question({
    name: "one-message",
    title: "One message and no δ",
    part: 7,
    story: [
      `${people} people send one bit each, by randomized response with e^ε = ${odds}. A shuffler mixes the ${people} messages, and ` +
        "nobody else adds anything.",
    ],
    asks: "What is e^ε of the mixed messages at δ = 0?",
    answers: [
      claim(
        odds,
        `still ${odds}`,
        `Shuffling single messages gives no pure privacy. If everybody holds a yes and all messages say yes, mixing hides nothing. ` +
          `The event is ${odds} times less likely if one person holds a no. Mixing helps only with a positive δ.`,
      ),
      claim(odds ** (1 / Math.sqrt(people)), `about ${short(odds ** (1 / Math.sqrt(people)))}, since ε shrinks like 1/√n`,
        "ε shrinks roughly like 1/√n if δ is positive. At δ = 0, it does not shrink at all."),
      claim(odds ** (1 / people), `about ${short(odds ** (1 / people))}, since ε shrinks like 1/n`,
        "The people do not divide ε among them. The event that all messages are the same gives it away."),
      claim(1, "1, since nobody knows who sent which message", "The names are gone, but the messages are not. Their number still depends on what people hold."),
    ],
  });
}

/** The largest ratio of the probabilities of a number of yes messages, over all neighboring crowds. */
function mixedFactor(people: number, odds: number): number {
  const truth = odds / (odds + 1);
  const law = (yes: number) => {
    const [own, other] = [binomial(yes, truth), binomial(people - yes, 1 - truth)];
    return Array.from({ length: people + 1 }, (_, sum) =>
      own.reduce((all, one, at) => all + one * (other[sum - at] ?? 0), 0),
    );
  };
  const laws = Array.from({ length: people + 1 }, (_, yes) => law(yes));
  const pairs = laws.slice(1).flatMap((one, at) => [[one, laws[at]!], [laws[at]!, one]] as const);
  return Math.max(...pairs.flatMap(([one, other]) => one.map((mass, sum) => mass / other[sum]!)));
}

function allSame(people: number, odds: number, device: Flip, factor: number) {
  const [all, but] = [people, people - 1].map(
    (yes) => runs(ROUNDS, () => yesMessages(device, people, yes)).filter((sum) => sum === people).length,
  ) as [number, number];
  return {
    text:
      `${short(ROUNDS)} crowds of ${people} people who all hold a yes, and as many crowds in which one person holds a no. ` +
      "The event is that all messages say yes.",
    measured: "How many times as often the event happens in the first crowds",
    believed: `at most ${times(factor)}`,
    found: times(all / but),
    exact: times(odds),
    table: table(["crowd", "crowds with the event"], [["all hold a yes", short(all)], ["one holds a no", short(but)]]),
  };
}

export function waves(): Question {
  const odds = pick([2, 3]);
  const { device } = data.quiz.responses.find((one) => one.odds === odds)!;
  const count = pick([3, 4]);
  const repeats = pick([false, true]);
  const exact = jointFactor(odds, count, repeats);
  const claim = (factor: number, label: string, why: string): Answer => {
    const right = Math.abs(factor - exact) < 1e-9;
    return {
      label,
      right,
      why,
      ...(right
        ? {}
        : {
            simulate: () => {
              const [yes, no] = [1, 0].map((held) => {
                const truth = held ? WHOLE - BigInt(device.weight) : BigInt(device.weight);
                return runs(ROUNDS, () => ones(repeats ? 1 : count, truth)).filter((sum) => sum === (repeats ? 1 : count)).length;
              }) as [number, number];
              return {
                text:
                  `${short(ROUNDS)} people with a yes and as many with a no answer ${count} times. ` +
                  `${repeats ? "Their devices repeat the first message." : "Their devices draw a new message every time."} The event is ` +
                  `that all ${count} messages say yes.`,
                measured: "How many times as often the event happens for a yes",
                believed: `at most ${times(factor)}`,
                found: times(yes / no),
                exact: times(exact),
                table: table(["person holds", "people with the event"], [["a yes", short(yes)], ["a no", short(no)]]),
              };
            },
          }),
    };
  };
  return question({
    name: "waves",
    title: "The same question again",
    part: 8,
    story: [
      `A survey asks the same people the same question in ${count} waves, and nobody changes their mind. Each answer goes through ` +
        `randomized response with e^ε = ${odds}.`,
      repeats
        ? "A device draws its message in the first wave, keeps it, and repeats it in the other waves."
        : "A device draws a new message in every wave.",
    ],
    asks: `By which factor may the odds about a person rise after all ${count} waves?`,
    answers: [
      claim(
        odds ** count,
        `${odds ** count}`,
        repeats
          ? "This would be so with a new message in every wave. A repeated message says nothing new."
          : "Every wave may multiply the odds by e^ε. So the ε of all waves add up.",
      ),
      claim(
        odds,
        `${odds}`,
        repeats
          ? "A repeated message says nothing new, so it costs nothing. That is why devices keep their messages."
          : "Every wave alone is private. But lies are drawn anew, so the truth shows in the long run.",
      ),
      claim(odds * count, `${odds * count}`, repeats ? "A repeated message says nothing new." : "The ε add up, so the factors e^ε are multiplied."),
      claim(
        odds ** Math.sqrt(count),
        `about ${short(odds ** Math.sqrt(count))}`,
        repeats
          ? "A repeated message says nothing new."
          : "ε grows roughly with the square root of the number of waves only if a positive δ is allowed, and there are many waves.",
      ),
    ],
  });
}

/** The largest ratio of the probabilities of all messages of a person, in both directions. */
function jointFactor(odds: number, count: number, repeats: boolean): number {
  const truth = odds / (odds + 1);
  const law = (held: number) =>
    Array.from({ length: 2 ** count }, (_, messages) => {
      const bits = Array.from({ length: count }, (__, wave) => (messages >> wave) & 1);
      const one = (bit: number) => (bit === held ? truth : 1 - truth);
      if (!repeats) return bits.reduce((all, bit) => all * one(bit), 1);
      return bits.every((bit) => bit === bits[0]) ? one(bits[0]!) : 0;
    });
  const [yes, no] = [law(1), law(0)];
  return Math.max(...yes.flatMap((mass, at) => (no[at] ? [mass / no[at]!, no[at]! / mass] : [])));
}
