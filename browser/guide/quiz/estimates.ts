// Questions about estimates: how they are made, how exact they are, and what their intervals say.

import { percent, places, short } from "../charts/numbers.js";
import { data } from "../data.js";
import { distance, lieOf, mean, pick, runs, whole, yesMessages, type Flip } from "./draws.js";
import { question, type Answer, type Question } from "./question.js";
import { histogram, share } from "./shown.js";

const SURVEYS = 300;
const MORE_SURVEYS = 1000;

/** The moment estimate of the number of people who hold a yes. */
function estimate(sum: number, people: number, lie: number): number {
  return (sum - lie * people) / (1 - 2 * lie);
}

function estimates(count: number, flip: Flip, people: number, yes: number): number[] {
  return runs(count, () => estimate(yesMessages(flip, people, yes), people, lieOf(flip)));
}

export function moment(): Question {
  const { odds, device } = pick(data.quiz.responses);
  const parts = odds + 1; // one message in this many is a lie
  const people = parts * whole(80, 120);
  const yes = parts * whole(25, 35); // the right estimate, and the number of people who hold a yes in the simulation
  const sum = people / parts + (yes * (odds - 1)) / parts;
  const gamma = (odds - 1) / (2 * parts);
  const lies = (0.5 - gamma) * people;
  /** An answer that computes its estimate in its own way. */
  const way = (compute: (sum: number) => number, why: string): Answer => {
    const right = Math.abs(compute(lies + 2 * gamma * yes) - yes) < 1e-6;
    const exact = compute(lies + 2 * gamma * yes); // the estimate is linear in the sum
    return {
      label: places(compute(sum), 0),
      right,
      why,
      ...(right
        ? {}
        : {
            simulate: () => {
              const found = runs(SURVEYS, () => compute(yesMessages(device, people, yes)));
              return {
                text:
                  `${SURVEYS} crowds of ${short(people)} people answer. In each of them, ${yes} people hold a yes. Each ` +
                  "estimate is computed as in your answer.",
                measured: "Mean of all estimates",
                believed: places(yes, 0),
                found: places(mean(found), 1),
                exact: places(exact, 1),
                chart: histogram(`Estimates of ${SURVEYS} crowds, computed your way`, "estimate", found, [
                  { on: "x", at: yes, label: `truth: ${yes}` },
                ]),
              };
            },
          }),
    };
  };
  return question({
    name: "moment",
    title: "From messages to an estimate",
    part: 2,
    story: [
      `${short(people)} people answer yes or no by randomized response. A message is a lie with probability 1/${parts}.`,
      `${short(sum)} messages say yes.`,
    ],
    asks: "How many people hold a yes, by the moment estimator?",
    answers: [
      way(
        (all) => (all - lies) / (2 * gamma),
        `Subtract the ${short(lies)} yes messages that would come if nobody held a yes. Then divide by 2γ = ` +
          `${short(2 * gamma)}, since each person with a yes adds 2γ messages on average.`,
      ),
      way(
        (all) => (all - lies) / gamma,
        "This divides by γ instead of 2γ. A person with a yes sends a yes with probability ½ + γ, and a person with a " +
          "no with probability ½ − γ. The difference is 2γ.",
      ),
      way((all) => all - lies, "This subtracts the lies of people with a no, but forgets the lies of people with a yes."),
      way((all) => all, "This counts messages, and lies are among them."),
    ],
  });
}

export function noise(): Question {
  const { epsilon, people, device, local, central } = pick(data.quiz.errors);
  const yes = Math.round(people / whole(2, 5));
  const alone = local / Math.sqrt(people); // the error about a single person
  const claim = (error: number, why: string): Answer => {
    const right = Math.abs(error - local) < 0.01 * local;
    return {
      label: error ? `about ${short(error)} people` : "0: the lies cancel out",
      right,
      why,
      ...(right
        ? {}
        : {
            simulate: () => {
              const found = estimates(SURVEYS, device, people, yes);
              return {
                text: `${SURVEYS} crowds of ${short(people)} people answer. In each of them, ${short(yes)} people hold a yes.`,
                measured: "Root of the mean squared error, in people",
                believed: short(error),
                found: short(distance(found, yes)),
                exact: short(local),
                chart: histogram(`Estimates of ${SURVEYS} crowds`, "estimate", found, [
                  { on: "x", at: yes, label: `truth: ${short(yes)}` },
                ]),
              };
            },
          }),
    };
  };
  return question({
    name: "noise",
    title: "Does noise average out?",
    part: 2,
    story: [
      `${short(people)} people answer yes or no by randomized response with ε = ${short(epsilon)}. Nobody else is trusted.`,
    ],
    asks: "What is the standard error of the estimated number of people with a yes?",
    answers: [
      claim(
        local,
        "Lies partly cancel out, so the error grows only with the square root of the crowd. Relative to the crowd it " +
          "falls. But it is never 0.",
      ),
      claim(
        0,
        "The number of lies differs from survey to survey. The estimator subtracts the expected number, and magnifies " +
          "the rest.",
      ),
      claim(
        central,
        "This is the error of a curator, who adds noise once. In local trust, every single person adds noise.",
      ),
      claim(
        alone * people,
        "This adds up the errors of all people. But errors of different people partly cancel out. Their squares add up.",
      ),
    ],
  });
}

export function clipping(): Question {
  const { epsilon, people, device, standard_error: error, mean: exact } = pick(data.quiz.clipping);
  const claim = (believed: number, why: string): Answer => {
    const right = believed === exact;
    return {
      label: places(believed, 1),
      right,
      why,
      ...(right
        ? {}
        : {
            simulate: () => {
              const found = estimates(MORE_SURVEYS, device, people, 0).map((one) => Math.max(0, one));
              return {
                text:
                  `${short(MORE_SURVEYS)} crowds of ${short(people)} people answer, and nobody holds a yes. Negative ` +
                  "estimates are set to 0.",
                measured: "Mean of all estimates",
                believed: places(believed, 1),
                found: places(mean(found), 1),
                exact: places(exact, 1),
                chart: histogram(`Estimates of ${short(MORE_SURVEYS)} crowds, without negative ones`, "estimate", found, [
                  { on: "x", at: 0, label: "truth: 0" },
                ]),
              };
            },
          }),
    };
  };
  return question({
    name: "clipping",
    title: "A count cannot be negative",
    part: 4,
    story: [
      `${short(people)} people answer by randomized response with ε = ${short(epsilon)}. In truth, nobody holds a yes. ` +
        "So about half of all estimates would be negative.",
      "Somebody sets every negative estimate to 0, because a count cannot be negative.",
    ],
    asks: "What is the mean of the estimates of many such surveys?",
    answers: [
      claim(
        exact,
        "Estimates above 0 stay, and those below 0 are raised to 0. So the mean is above the truth: the clipped estimate " +
          "is biased. A single clipped estimate is closer to the truth, but sums and means of many are not.",
      ),
      claim(0, "The estimate was unbiased because errors upward and downward balance. Clipping removes those downward."),
      claim(-exact, "Clipping raises some estimates and lowers none. So the mean goes up."),
      claim(error, "This is the standard error, which says how far an estimate is off. Errors downward are now 0."),
    ],
  });
}

export function interval(): Question {
  const setting = pick(data.quiz.intervals);
  const { people, yes, confidence, device, covered, first, last } = setting;
  const found = pick(setting.missing);
  const ends = `${found.low} to ${found.high}`;
  const lie = lieOf(device);
  const law = sums(people, yes, lie);
  const inside = law.reduce((sum, mass, at) => {
    const one = estimate(at, people, lie);
    return sum + (found.low <= one && one <= found.high ? mass : 0);
  }, 0);
  /** An answer about how often something happens in 100 cases. It is right if this is so. */
  const claim = (label: string, actual: number, why: string, simulate: Answer["simulate"]): Answer => {
    const right = Math.abs(actual - confidence / 100) < 0.015;
    return { label, right, why, ...(right || !simulate ? {} : { simulate }) };
  };
  const believed = `${confidence} %`;
  return question({
    name: "interval",
    title: "What an interval says",
    part: 10,
    story: [
      `In a rehearsal, ${yes} of ${short(people)} people hold a yes. They answer by randomized response with ` +
        `ε = ${short(setting.epsilon)}. The estimate is ${places(found.value, 0)}, and its interval with a confidence of ` +
        `${confidence} % is ${ends}.`,
    ],
    asks: `What do the ${confidence} % mean?`,
    answers: [
      claim(
        `If the survey is repeated with fresh noise, at least ${confidence} of 100 intervals contain the truth in the long run.`,
        covered,
        `The confidence belongs to the method. It gives a wrong interval in at most ${100 - confidence} of 100 surveys, and ` +
          "this is one of them.",
        undefined,
      ),
      claim(
        `The truth is between ${found.low} and ${found.high} with a probability of ${confidence} %.`,
        Number(found.low <= yes && yes <= found.high),
        `The truth is ${yes}, and this interval does not contain it. Before the survey, the probability that the interval ` +
          `would contain the truth was at least ${confidence} %. Now nothing is random any more.`,
        () => {
          const drawn = runs(MORE_SURVEYS, () => yesMessages(device, people, yes));
          const like = drawn.filter((sum) => (found.value < yes ? sum <= found.sum : sum >= found.sum));
          const right = drawn.filter((sum) => first <= sum && sum <= last).length;
          return {
            text:
              `${short(MORE_SURVEYS)} surveys. The intervals of ${right} of them contain the truth. Look at the ` +
              `${like.length} surveys whose estimate is ${places(found.value, 0)} or further away on the same side.`,
            measured: "Intervals that contain the truth, among these surveys",
            believed,
            found: share(like.length ? like.filter((sum) => first <= sum && sum <= last).length / like.length : 0),
            exact: share(0),
          };
        },
      ),
      claim(
        `If the survey is repeated, ${confidence} of 100 estimates are between ${found.low} and ${found.high} in the long run.`,
        inside,
        "Further estimates scatter around the truth, not around this interval.",
        () => {
          const drawn = estimates(MORE_SURVEYS, device, people, yes);
          return {
            text: `The survey is repeated ${short(MORE_SURVEYS)} times.`,
            measured: `Estimates between ${found.low} and ${found.high}`,
            believed,
            found: share(drawn.filter((one) => found.low <= one && one <= found.high).length / MORE_SURVEYS),
            exact: share(inside),
            chart: histogram(`Estimates of ${short(MORE_SURVEYS)} further surveys`, "estimate", drawn, [
              { on: "x", at: yes, label: `truth: ${yes}` },
              { on: "x", at: found.low, label: "from", color: "soft" },
              { on: "x", at: found.high, label: "to", color: "soft" },
            ]),
          };
        },
      ),
      claim(
        `${confidence} of 100 messages are the truth.`,
        1 - lie,
        "How often a message is the truth depends on ε alone. The confidence can be chosen afterwards: more confidence " +
          "makes the interval longer, and the privacy stays the same.",
        () => {
          const lies = yesMessages(device, people, 0); // nobody holds a yes here, so each yes is a lie
          return {
            text: `${short(people)} people send a message.`,
            measured: "Messages that are the truth",
            believed,
            found: percent(1 - lies / people, 1),
            exact: percent(1 - lie, 1),
          };
        },
      ),
    ],
  });
}

/** The law of the number of yes messages. */
function sums(people: number, yes: number, lie: number): number[] {
  const law = new Array<number>(people + 1).fill(0);
  const [own, other] = [binomial(yes, 1 - lie), binomial(people - yes, lie)];
  own.forEach((one, at) => {
    if (one > 0) other.forEach((two, more) => (law[at + more]! += one * two));
  });
  return law;
}

/** The law of the number of successes in `trials`, from the ratios of neighboring probabilities. */
export function binomial(trials: number, p: number): number[] {
  const mode = Math.min(trials, Math.floor((trials + 1) * p));
  const law = new Array<number>(trials + 1).fill(0);
  law[mode] = 1;
  for (let k = mode; k < trials; k++) law[k + 1] = (law[k]! * (trials - k) * p) / ((k + 1) * (1 - p));
  for (let k = mode; k > 0; k--) law[k - 1] = (law[k]! * k * (1 - p)) / ((trials - k + 1) * p);
  const total = law.reduce((sum, one) => sum + one, 0);
  return law.map((one) => one / total);
}
