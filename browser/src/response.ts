// One person's whole response: the same number of messages for everybody, in random order.

import { bytesOf, joined } from "./bytes.js";
import type { Release, Survey } from "./document.js";
import { refuse } from "./errors.js";
import { domainOf, encoded, type Answers } from "./questions.js";
import { permutation, words, type Source } from "./random.js";
import type { Meaning, Value } from "./randomizers/index.js";

const LINE = 1n << 32n;

/** A message before it is sealed. The payload of a dummy is null. */
export interface Content {
  readonly release: number;
  readonly payload: Uint8Array | null;
  readonly meaning?: Meaning; // of a payload
}

/** Randomize all answers, once. A second time would reveal more than the survey promises. */
export function randomized(survey: Survey, answers: Answers, source: Source): Content[] {
  const values = new Map(survey.questions.map((one) => [one.id, encoded(one, answers[one.id])]));
  const contents: Content[] = [];
  for (const number of drawnReleases(survey, source)) {
    const release = survey.releases[number]!;
    const messages = release.randomizer.send(valueOf(survey, release, values), source, release.slots);
    for (const message of messages) {
      const payload = joined(message.map((one) => bytesOf(one, release.bytes)));
      contents.push({ release: number, payload, meaning: release.randomizer.meaning(message) });
    }
    for (let at = messages.length; at < release.slots; at++) contents.push({ release: number, payload: null });
  }
  if (contents.length > survey.messages) refuse("must have room for all messages");
  while (contents.length < survey.messages) contents.push({ release: 0, payload: null });
  return permutation(source, contents.length).map((place) => contents[place]!);
}

/** The numbers of the releases that this device answers. In local trust, it draws them. */
function drawnReleases(survey: Survey, source: Source): number[] {
  const every = [...survey.releases.keys()];
  if (survey.trust !== "local") return every;
  const place = words(source, 1, 4)[0]!;
  let start = 0n;
  return every.filter((number) => {
    const low = start;
    start += BigInt(survey.releases[number]!.share);
    // One of the numbers place + k·2^32 must lie between both ends.
    const first = place >= low ? place - ((place - low) / LINE) * LINE : place + ((low - place + LINE - 1n) / LINE) * LINE;
    return first < start;
  });
}

/** The value of a release: an answer, a pair of answers, or several ticked boxes. */
function valueOf(survey: Survey, release: Release, values: ReadonlyMap<string, Value>): Value {
  if (release.ids.length > 1) {
    return release.of.reduce((code, id, place) => code | (BigInt(values.get(id)!) << BigInt(place)), 0n);
  }
  const [first, second] = release.of;
  if (second === undefined) return values.get(first!)!;
  const columns = survey.questions.find((one) => one.id === second)!;
  return Number(values.get(first!)) * Number(domainOf(columns)) + Number(values.get(second));
}
