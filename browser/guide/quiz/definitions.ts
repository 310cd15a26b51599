// Questions about the definition: what privacy is, what δ says, and which randomizer is private.

import { percent, short } from "../charts/numbers.js";
import { outcomes, pick, whole } from "./draws.js";
import { question, type Question, type Simulation } from "./question.js";
import { share, table, times } from "./shown.js";
import {
  bestGuess,
  equal,
  leastDelta,
  privateBySets,
  probabilityBeyond,
  probabilityOfProof,
  totalOf,
  within,
  withinOneWay,
  worst,
  type Randomizing,
} from "./tables.js";

const MESSAGES = ["“yes”", "“no”", "“maybe”"] as const;
const RARE = 0.05; // a share of messages that some people would call negligible
const PEOPLE = 10_000;
const MANY = 400_000; // people, so that a ratio is seen clearly

/** A table of three messages. `less` is taken from the no of a no, and `more` is added to the yes of a
 * yes. Without them, “yes” and “no” are `factor` times as likely if they are true. */
function drawn(factor: number, more = 0, less = 0): Randomizing {
  const [yes, no] = [whole(6, 9), whole(6, 9)];
  const rows = [
    [factor * yes + more, no],
    [yes, factor * no - less],
  ];
  const [first, second] = rows.map(([one, other]) => [one!, other!, 100 - one! - other!]);
  return { messages: MESSAGES, yes: first!, no: second! };
}

/** It hides a yes from being proven, but a “no” says too much. */
function oneWay(factor: number): Randomizing {
  return drawn(factor, 0, -whole(4, 9));
}

/** A few people who hold a yes send a message that nobody else sends. */
function rarelyProven(factor: number): Randomizing {
  const made = drawn(factor, 0, 0);
  const proof = whole(1, 4);
  return {
    messages: [...MESSAGES, "“guilty”"],
    yes: [made.yes[0]!, made.yes[1]!, made.yes[2]! - proof, proof],
    no: [...made.no, 0],
  };
}

function shownTable(made: Randomizing): HTMLElement {
  const total = totalOf(made);
  const cells = (row: readonly number[]) => row.map((weight) => percent(weight / total, 2));
  return table(
    ["message", "from a yes", "from a no"],
    made.messages.map((message, at) => [message, cells(made.yes)[at]!, cells(made.no)[at]!]),
  );
}

/** How many of each message come from people with a yes, and from as many people with a no. */
function sent(made: Randomizing, people = PEOPLE): { yes: number[]; no: number[]; table: HTMLElement } {
  const [yes, no] = [outcomes(people, made.yes), outcomes(people, made.no)];
  const rows = made.messages.map((message, at) => [message, short(yes[at]!), short(no[at]!)]);
  const heads = ["message", `from ${short(people)} with a yes`, `from ${short(people)} with a no`];
  return { yes, no, table: table(heads, rows) };
}

/** How many times as often the message with the worst ratio comes from one answer as from the other. */
function ratioSeen(made: Randomizing, factor: number, text: string): Simulation {
  const { message, more, less, over, under } = worst(made);
  const seen = sent(made, MANY);
  return {
    text,
    measured: `How many times as often ${made.messages[message]!} comes from a ${more} as from a ${less}`,
    believed: `at most ${times(factor)}`,
    found: times(seen[more][message]! / seen[less][message]!),
    exact: times(over / under),
    table: seen.table,
  };
}

/** How many people's messages prove what they hold. */
function proofsSeen(made: Randomizing, believed: number, text: string): Simulation {
  const proof = made.yes.map((weight, at) => weight > 0 && made.no[at] === 0);
  const seen = sent(made);
  const found = seen.yes.reduce((sum, count, at) => sum + (proof[at] ? count : 0), 0);
  return {
    text,
    measured: `People whose message proves their yes, of ${short(PEOPLE)}`,
    believed: short(believed),
    found: short(found),
    exact: short(PEOPLE * probabilityOfProof(made)),
    table: seen.table,
  };
}

export function privacy(): Question {
  const factor = pick([2, 3, 4, 5]);
  const sound = drawn(factor, 0, whole(0, 2));
  const lopsided = oneWay(factor);
  const rare = rarelyProven(factor);
  const tables = [sound, lopsided, rare];
  /** Whether a sentence says of every table what the definition says. */
  const defines = (holds: (made: Randomizing) => boolean) =>
    tables.every((made) => holds(made) === within(made, factor));
  return question({
    name: "privacy",
    title: "What is privacy?",
    part: 3,
    story: [`A survey promises privacy with e^ε = ${factor} and δ = 0.`],
    asks: "What does it promise?",
    answers: [
      {
        label:
          `Take any two crowds that differ in one person's answer, in either order, and any set of results. The ` +
          `set is at most ${factor} times as likely for the one crowd as for the other.`,
        right: defines((made) => privateBySets(made, factor)),
        why:
          "This is the definition: every pair of neighbors, both directions, every event. It limits what anybody " +
          "can learn from your answer. It does not say that nobody learns anything.",
      },
      {
        label: "Nobody can learn anything about a person who takes part.",
        right: defines(equal),
        why:
          "A message that tells nothing about anybody tells nothing about the crowd either. Privacy limits by how " +
          "much a guess improves. It does not forbid that a guess improves.",
        simulate: () => {
          const seen = sent(sound);
          const guesses = sound.yes.map((weight, at) => (weight >= sound.no[at]! ? seen.yes[at]! : seen.no[at]!));
          return {
            text:
              `This randomizer keeps the promise. ${short(PEOPLE)} people with a yes and as many with a no send ` +
              "a message. An attacker guesses what each of them holds.",
            measured: "Guesses that are right",
            believed: share(0.5),
            found: share(guesses.reduce((sum, one) => sum + one, 0) / (2 * PEOPLE)),
            exact: share(bestGuess(sound)),
            table: seen.table,
          };
        },
      },
      {
        label: `Whatever message comes, it is at most ${factor} times as likely from a yes as from a no.`,
        right: defines((made) => withinOneWay(made, factor)),
        why:
          "This is one direction only. The other direction is needed, too: otherwise a message may give away those " +
          "who hold a no.",
        simulate: () =>
          ratioSeen(
            lopsided,
            factor,
            `No message of this randomizer is more than ${factor} times as likely from a yes as from a no. But ` +
              "look at the other direction.",
          ),
      },
      {
        label:
          `At least ${100 * (1 - RARE)} of 100 messages are at most ${factor} times as likely for one answer as ` +
          "for the other, in both directions.",
        right: defines((made) => probabilityBeyond(made, factor) <= RARE),
        why:
          "The promise is about every message, also about rare ones. The few people who send them are not " +
          "protected otherwise.",
        simulate: () =>
          proofsSeen(rare, 0, "This randomizer does what you chose. But one of its rare messages proves a yes."),
      },
    ],
  });
}

export function delta(): Question {
  const factor = pick([2, 3, 4]);
  const hundredths = pick([1, 2, 5]); // δ
  const size = hundredths / 100;
  const total = 100 * (factor + 1);
  // A message is the truth with probability (e^ε + δ)/(e^ε + 1). Nothing is ever proven.
  const truth = 100 * factor + hundredths;
  const louder = { messages: MESSAGES.slice(0, 2), yes: [truth, total - truth], no: [total - truth, truth] };
  // A message is the answer itself with this probability, and empty otherwise.
  const leak = (part: number) => ({
    messages: [...MESSAGES.slice(0, 2), "nothing"],
    yes: [part, 0, 100 - part],
    no: [0, part, 100 - part],
  });
  const leaky = leak(hundredths);
  const tables: Randomizing[] = [louder, leaky, leak(3 * hundredths), drawn(factor)];
  const defines = (holds: (made: Randomizing) => boolean) =>
    tables.every((made) => holds(made) === leastDelta(made, factor) <= size);
  return question({
    name: "delta",
    title: "What does δ say?",
    part: 3,
    story: [`Another survey promises privacy with e^ε = ${factor} and δ = ${size}.`],
    asks: "What does it promise?",
    answers: [
      {
        label:
          `Take any two crowds that differ in one person's answer, in either order, and any set of results. The ` +
          `probability of the set for the one crowd is at most ${factor} times that for the other, plus ${size}.`,
        right: defines((made) => privateBySets(made, factor, (hundredths * totalOf(made)) / 100)),
        why: "This is the definition. First the probability is multiplied by e^ε, and then δ is added.",
      },
      {
        label:
          `With a probability of ${size} the protection fails, and the answer becomes known. Otherwise the odds ` +
          `change at most by the factor ${factor}.`,
        right: defines((made) => probabilityOfProof(made) <= size && probabilityBeyond(made, factor) <= size),
        why:
          `δ is not the probability that the answer becomes known. Here is a randomizer that has this ε and this δ. ` +
          `No message of it ever proves anything, and its odds always change by a little more than ${factor}.`,
        simulate: () =>
          proofsSeen(
            louder,
            PEOPLE * size,
            `This randomizer tells the truth with a probability of ${percent(truth / total, 2)}. At e^ε = ${factor}, ` +
              `its least δ is ${leastDelta(louder, factor)}. If your answer were right, some messages would give their ` +
              "senders away.",
          ),
      },
      {
        label:
          `Except with a probability of ${size}, the odds of any statement about a person change at most by the ` +
          `factor ${factor}.`,
        right: defines((made) => probabilityBeyond(made, factor) <= size),
        why:
          "Many texts say so, but it is not true: the odds may exceed the factor by a little, and do so almost " +
          "always. A true sentence is: except with a probability of 2δ, the odds rise at most by 2·e^ε.",
        simulate: () => {
          const seen = sent(louder);
          const beyond = louder.yes.map((weight, at) => weight > factor * louder.no[at]!);
          const found = seen.yes.reduce((sum, count, at) => sum + (beyond[at] ? count : 0), 0);
          return {
            text:
              `This randomizer tells the truth with a probability of ${percent(truth / total, 2)}. At e^ε = ${factor}, ` +
              `its least δ is ${leastDelta(louder, factor)}. People who hold a yes send messages.`,
            measured: `Messages for which the odds of a yes rise by more than the factor ${factor}`,
            believed: `at most ${share(size)}`,
            found: share(found / PEOPLE),
            exact: share(probabilityBeyond(louder, factor)),
            table: seen.table,
          };
        },
      },
      {
        label:
          `The odds change at most by the factor ${factor}. δ is only a margin for rounding, so nobody's answer ever ` +
          "becomes known for certain.",
        right: defines((made) => probabilityOfProof(made) === 0 && within(made, factor)),
        why:
          "A protocol with a positive δ may give a few people away completely. That is why δ should be far below 1/n, " +
          "where n is the number of people.",
        simulate: () =>
          proofsSeen(
            leaky,
            0,
            `This randomizer sends the answer itself with a probability of ${size}, and nothing otherwise. For every ` +
              `ε, its least δ is ${leastDelta(leaky, factor)}.`,
          ),
      },
    ],
  });
}

export function mechanism(): Question {
  const factor = pick([2, 3, 4]);
  const half = whole(30, 50);
  const blind: Randomizing = {
    messages: MESSAGES,
    yes: [half, half, 100 - 2 * half],
    no: [half, half, 100 - 2 * half],
  };
  const answer = (made: Randomizing, why: string, simulate: () => Simulation) => {
    const right = within(made, factor) && !equal(made);
    return { label: shownTable(made), right, why, ...(right ? {} : { simulate }) };
  };
  const exceeded = (made: Randomizing) => () =>
    ratioSeen(made, factor, "People with a yes and as many people with a no send a message.");
  const near = (made: Randomizing, why: string) => answer(made, why, exceeded(made));
  const sound = drawn(factor, 0, whole(0, 2));
  return question({
    name: "mechanism",
    title: "Which randomizer is private?",
    part: 3,
    story: [
      "Each table shows how often a person sends each message, for a yes and for a no.",
      `One of these randomizers is α-locally private with e^α = ${factor}, and still tells something about a crowd.`,
    ],
    asks: "Which one?",
    answers: [
      near(
        sound,
        `In every row, neither number is more than ${factor} times the other. And the columns differ, so the messages ` +
          "of a crowd tell something about it.",
      ),
      near(
        oneWay(factor),
        `No message is more than ${factor} times as likely from a yes as from a no. But the other direction counts, too.`,
      ),
      near(drawn(factor, whole(2, 4), whole(0, 2)), "One row is enough to break the promise, even if it does so by a little."),
      answer(
        blind,
        "Half truth, half lie: both columns are the same. This is private for every α, even for α = 0. But the messages " +
          "of a crowd do not depend on what it holds. They hide everything and tell nothing.",
        () => {
          const seen = sent(blind);
          return {
            text: "A crowd in which everybody holds a yes sends messages, and so does a crowd in which everybody holds a no.",
            measured: `Difference between the two crowds, in messages that say ${MESSAGES[0]}`,
            believed: "large",
            found: short(seen.yes[0]! - seen.no[0]!),
            exact: "0 on average",
            table: seen.table,
          };
        },
      ),
    ],
  });
}
