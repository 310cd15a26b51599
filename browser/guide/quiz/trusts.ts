// Questions about trust: whom people must trust, what collusion leaves, and what a noisy shuffler knows.

import { Table } from "../../src/random.js";
import { places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { sender, type Device } from "../widgets/randomizers.js";
import { source } from "../source.js";
import { distance, lieOf, mean, pick, runs, whole } from "./draws.js";
import { question, type Answer, type Question, type Simulation } from "./question.js";
import { epsilonText, histogram, permitted, share, table } from "./shown.js";

const ROUNDS = 10_000;
const SLOTS = 2; // the most messages that a person sends here

/** How often an attacker guesses rightly who sees what `show` makes of a bit. Guesses are those that
 * are right most often for these laws: a message more than usual means a yes. */
function guessed(show: (bit: number) => number): number {
  const right = runs(ROUNDS, () => {
    const bit = whole(0, 1);
    return Number(show(bit) === bit);
  });
  return mean(right);
}

type Trust = "central" | "shuffle" | "noisy" | "local";
type Assumption = "curator" | "mixing" | "people" | "noise";

/** What the guarantee relies on, besides a person's own device. */
const RELIES: Readonly<Record<Trust, readonly Assumption[]>> = {
  central: ["curator"],
  shuffle: ["mixing", "people"],
  noisy: ["mixing", "noise"],
  local: [],
};

const STORIES: Readonly<Record<Trust, string>> = {
  central: "Every device sends its answer to an institute. The institute counts, adds noise and publishes the result.",
  shuffle:
    "Every device turns its answer into up to two messages, seals them for the analyzer, and sends them to a shuffler. " +
    "The shuffler mixes the messages of all people and hands them over. It adds nothing.",
  noisy:
    "Every device seals its answer for the analyzer, and sends it to a shuffler. The shuffler adds made-up answers, mixes " +
    "them all and hands them over.",
  local: "Every device replaces its answer by a random one now and then, and sends it to the analyzer with the sender's name.",
};

const WHY: Readonly<Record<Trust, string>> = {
  central: "The institute holds a table of all answers. The guarantee covers only what it publishes.",
  shuffle:
    "Nobody has a table of answers. But the people hide in each other's noise, so enough of them must follow the protocol, " +
    "and the shuffler must not work together with the analyzer.",
  noisy: "Only the made-up answers hide people. So no other person matters, but everything depends on the shuffler.",
  local: "The noise is added on the person's own device, before anything leaves it. Whoever reads the message sees only that.",
};

const BROKEN: Readonly<Record<Assumption, string>> = {
  curator: "Suppose that everybody whom you named is honest, but a clerk of the institute looks at the answers.",
  mixing: "Suppose that everybody whom you named is honest, but the shuffler tells the analyzer who sent which message.",
  people:
    "Suppose that the shuffler is honest, but all other people leave out their noise, and the analyzer knows what they hold.",
  noise: "Suppose that all people are honest, but the shuffler adds no answers, and the analyzer knows what the others hold.",
};

export function trust(): Question {
  const setting = pick(data.quiz.trusts);
  const { epsilon, people, relies_on: words, withheld } = setting;
  const kind = pick(Object.keys(RELIES) as Trust[]);
  const mixed = sender(setting.shuffle as Device, SLOTS);
  const told = sender(setting.local as Device);
  const allowed = permitted(epsilon, kind === "local" || kind === "central" ? 0 : data.quiz.delta);
  /** What somebody sees who breaks an assumption, as a guess, and how often this guess is right. */
  const sees: Readonly<Record<Assumption, readonly [show: (bit: number) => number, exact: number]>> = {
    curator: [(bit) => bit, 1],
    // Of a person with a no, at most one message comes. Of a person with a yes, one or two.
    mixing: kind === "noisy" ? [(bit) => bit, 1] : [(bit) => Number(mixed(bit).length > 1), 1 - withheld / 2],
    people: [(bit) => Number(mixed(bit).length > 1), 1 - withheld / 2],
    noise: [(bit) => bit, 1],
  };
  const simulate = (chosen: Trust): Simulation => {
    const missing = RELIES[kind].find((one) => !RELIES[chosen].includes(one));
    const measured = "Right guesses about Ada's answer";
    if (missing) {
      const [show, exact] = sees[missing];
      return {
        text: `${BROKEN[missing]} In each of ${short(ROUNDS)} surveys, somebody uses this to guess what Ada holds.`,
        measured,
        believed: `at most ${share(allowed)}`,
        found: share(guessed(show)),
        exact: share(exact),
      };
    }
    return {
      text:
        "Suppose that everybody whom you named works against Ada, and reads her message. In each of " +
        `${short(ROUNDS)} surveys, they guess what she holds.`,
      measured,
      believed: share(1),
      found: share(guessed((bit) => Number(told(bit)[0]![0]))),
      exact: share(allowed),
    };
  };
  return question({
    name: "trust",
    title: "Whom must people trust?",
    part: 6,
    story: [`${short(people)} people answer yes or no. ${STORIES[kind]} The result is private with ε = ${short(epsilon)}.`],
    asks: "Whom does this promise rely on, besides the person's own device?",
    answers: (Object.keys(RELIES) as Trust[]).map((chosen): Answer => {
      const right = words[chosen] === words[kind];
      return {
        label: `On ${words[chosen]}.`,
        right,
        why: WHY[kind],
        ...(right ? {} : { simulate: () => simulate(chosen) }),
      };
    }),
  });
}

const SENDS: Readonly<Record<string, string>> = {
  "shuffle.randomized-response": "Every device sends one bit, which is rarely a lie.",
  "shuffle.zero-exact": "Every device sends one message for a yes and none for a no. Most devices add one more message as noise.",
};

export function collusion(): Question {
  const setting = pick(data.quiz.collusion);
  const { epsilon, people, left, bit } = setting;
  const device = setting.device as Device;
  const send = sender(device, SLOTS);
  const finite = left !== null;
  /** What the two of them see of a person: the bit, or the number of messages. */
  const seen = (held: number) => (finite ? Number(send(held)[0]![0]) : send(held).length);
  const lie = lieOf(setting.device as { weight: string });
  const sent = () => {
    const counts = [1, 0].map((held) => runs(ROUNDS, () => seen(held)));
    const what = finite ? ["the bit 0", "the bit 1"] : ["no message", "one message", "two messages"];
    const times = (held: number, view: number) => counts[held]!.filter((one) => one === view).length;
    const shown = table(
      ["they see", "from a yes", "from a no"],
      what.map((words, view) => [words, short(times(0, view)), short(times(1, view))]),
    );
    return { times, shown };
  };
  const together =
    `The shuffler and the analyzer look together at the messages of ${short(ROUNDS)} people with a yes, and of as many with a no.`;
  const guesses = (claimed: number) => (): Simulation => {
    const { times, shown } = sent();
    return {
      text: `${together} For each person, they guess.`,
      measured: "Right guesses",
      believed: `at most ${share(permitted(claimed))}`,
      found: share((times(0, 1) + times(1, 0)) / (2 * ROUNDS)),
      exact: share(1 - lie),
      table: shown,
    };
  };
  const mistakes = (): Simulation => {
    const { times, shown } = sent();
    return {
      text: `${together} For each person, they guess. If nothing were left, they would always be right.`,
      measured: `Wrong guesses, of ${short(2 * ROUNDS)}`,
      believed: "0",
      found: short(times(0, 0) + times(1, 1)),
      exact: short(2 * ROUNDS * lie),
      table: shown,
    };
  };
  const proofs = (): Simulation => {
    const { times, shown } = sent();
    return {
      text: together,
      measured: `People with a yes whose messages prove it, of ${short(ROUNDS)}`,
      believed: "0",
      found: short(times(0, 2)),
      exact: short(ROUNDS * lie), // here, `lie` is the probability of a noise message
      table: shown,
    };
  };
  const claim = (claimed: number | null, why: string): Answer => {
    const right = claimed === left;
    const simulate = !finite ? proofs : claimed === null ? mistakes : guesses(claimed);
    return {
      label: claimed === null ? "Nothing. No finite ε holds any more." : `ε = ${epsilonText(claimed)}`,
      right,
      why,
      ...(right ? {} : { simulate }),
    };
  };
  const own = finite
    ? "The two of them see each person's own bit. What protects a person then is only the noise of this bit. It is small, " +
      "because a whole crowd was meant to share the noise."
    : "The two of them see how many messages each person sent. Two messages prove a yes, and no message proves a no.";
  return question({
    name: "collusion",
    title: "The shuffler and the analyzer collude",
    part: 8,
    story: [
      `${short(people)} people answer yes or no in shuffle trust. ${SENDS[setting.protocol]!} The result is private with ` +
        `ε = ${short(epsilon)} and δ = ${short(data.quiz.delta)}.`,
      "Then the shuffler tells the analyzer who sent which messages.",
    ],
    asks: "What is left of the privacy against the two of them?",
    answers: [
      claim(bit, own),
      claim(null, own),
      claim(epsilon, `ε = ${short(epsilon)} holds for the mixed messages. ${own}`),
      claim(2 * epsilon, `Two dishonest parties do not double ε. ${own}`),
    ],
  });
}

export function shuffler(): Question {
  const { epsilon, people, most, weights, standard_error: error } = pick(data.quiz.shuffler);
  const half = most / 2;
  const law = new Table(weights.map(BigInt));
  const count = whole(300, 700);
  let added = law.sample(source);
  while (added === half || 2 * added === half) added = law.sample(source); // otherwise, two answers are the same
  const published = count + added - half;
  /** An answer that computes the count from the published number and the added ones. */
  const way = (compute: (published: number, added: number) => number, why: string): Answer => {
    const right = compute(published, added) === count;
    return {
      label: `The count is exactly ${compute(published, added)}.`,
      right,
      why,
      ...(right
        ? {}
        : {
            simulate: () => {
              const errors = law.samples(source, ROUNDS).map((z) => compute(count + z - half, z) - count);
              const exact = errorOf(compute);
              return {
                text: `${short(ROUNDS)} surveys. In each of them, the shuffler computes the count as in your answer.`,
                measured: "Root of the mean squared error",
                believed: "0",
                found: places(distance(errors, 0), 2),
                exact: places(exact, 2),
                chart: histogram("Errors of your way to compute the count", "error", errors, [{ on: "x", at: 0, label: "no error" }]),
              };
            },
          }),
    };
  };
  /** The root of the mean squared error of a way to compute the count, for all possible noise. */
  const errorOf = (compute: (published: number, added: number) => number) => {
    const all = weights.map(Number);
    const total = all.reduce((sum, one) => sum + one, 0);
    return Math.sqrt(all.reduce((sum, weight, z) => sum + (weight / total) * (compute(count + z - half, z) - count) ** 2, 0));
  };
  return question({
    name: "shuffler",
    title: "A shuffler that adds the noise",
    part: 6,
    story: [
      `${short(people)} people answer yes or no. Their answers are sealed for the analyzer. The shuffler adds ${most} made-up ` +
        `answers before it mixes. In this survey, ${added} of these are a yes. On average it is ${half}.`,
      `The analyzer counts the answers that say yes, subtracts ${half} and publishes the result: ${published}. This is private with ` +
        `ε = ${short(epsilon)}, and its standard error is ${places(error, 2)}.`,
    ],
    asks: "What does the shuffler know about the true count now?",
    answers: [
      way(
        (said, z) => said + half - z,
        "The shuffler knows the noise, and subtracts it from the published number. So people must trust the shuffler, or the " +
          "analyzer must add noise of its own before it publishes.",
      ),
      way((said, z) => said - half + z, "The noise has to be taken back, with the opposite sign."),
      way((said, z) => said - z, `The analyzer has already subtracted ${half}.`),
      {
        label: `No more than everybody: it is about ${published}, give or take ${places(error, 1)}.`,
        right: false,
        why:
          "The shuffler could open no answer. But it knows how many made-up answers say yes, so it knows the noise of the " +
          "published number.",
        simulate: () => {
          const noise = law.samples(source, ROUNDS);
          const errors = noise.map((z) => count + z - half + (half - z) - count);
          return {
            text:
              `${short(ROUNDS)} surveys. In each of them, the shuffler subtracts its own noise from what is published. For ` +
              `everybody else, the error was ${places(distance(noise, half), 2)}.`,
            measured: "Root of the mean squared error of the shuffler",
            believed: places(error, 2),
            found: places(distance(errors, 0), 2),
            exact: places(errorOf((said, z) => said + half - z), 2),
          };
        },
      },
    ],
  });
}
