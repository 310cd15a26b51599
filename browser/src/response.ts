// One person's whole response: the same number of messages for everybody, in random order.

import { bytesOf, joined } from "./bytes.js";
import type { Release, Survey } from "./document.js";
import { refuse } from "./errors.js";
import { domainOf, encoded, type Answers, type Question } from "./questions.js";
import { permutation, uniform, words, type Source } from "./random.js";
import type { Blocks, Meaning, Value } from "./randomizers/index.js";

const LINE = 1n << 32n;

/** A message before it is sealed. The payload of a dummy is null. */
export interface Content {
  readonly release: number;
  readonly payload: Uint8Array | null;
  readonly meaning?: Meaning; // of a payload
}

/** What one device answers: its releases, and for each of them a first box or null. It is drawn once,
 * whatever anybody answers, and is public. */
export interface Selection {
  readonly releases: readonly number[];
  readonly firsts: readonly (number | null)[];
}

/** Draw what this device answers. In shuffle trust, everybody answers everything. */
export function selected(survey: Survey, source: Source): Selection {
  const releases = drawnReleases(survey, source);
  const firsts = releases.map((number) => {
    const blocks = blocksOf(survey.releases[number]!);
    return blocks ? uniform(source, blocks.boxes, 1) : null;
  });
  return { releases, firsts };
}

/** The questions that a person has to answer, in the order of the survey. */
export function asked(survey: Survey, selection: Selection): Question[] {
  const ids = new Set<string>();
  selection.releases.forEach((number, place) => {
    const release = survey.releases[number]!;
    const first = selection.firsts[place] ?? 0;
    const blocks = blocksOf(release);
    const chosen = (box: number) => !blocks || (box - first + blocks.boxes) % blocks.boxes < blocks.each;
    release.of.filter((_, box) => chosen(box)).forEach((id) => ids.add(id));
  });
  return survey.questions.filter((one) => ids.has(one.id));
}

/** Whether devices ask different questions. */
export function asksSome(survey: Survey): boolean {
  const whole = (release: Release) => {
    const blocks = blocksOf(release);
    return !blocks || blocks.each >= blocks.boxes;
  };
  return survey.releasesEach < survey.releases.length || !survey.releases.every(whole);
}

/** The blocks of a release whose boxes are different questions, if a person answers some of them. */
function blocksOf(release: Release): Blocks | undefined {
  return release.ids.length > 1 ? release.randomizer.blocks : undefined;
}

/** Randomize the answers, once. A second time would reveal more than the survey promises. Answers to
 * questions outside the selection are not used. */
export function randomized(
  survey: Survey,
  answers: Answers,
  source: Source,
  selection = selected(survey, source),
): Content[] {
  const values = new Map(asked(survey, selection).map((one) => [one.id, encoded(one, answers[one.id])]));
  const contents: Content[] = [];
  selection.releases.forEach((number, place) => {
    const release = survey.releases[number]!;
    const value = valueOf(survey, release, values);
    const messages = release.randomizer.send(value, source, release.slots, selection.firsts[place]);
    for (const message of messages) {
      const payload = joined(message.map((one) => bytesOf(one, release.bytes)));
      contents.push({ release: number, payload, meaning: release.randomizer.meaning(message) });
    }
    for (let at = messages.length; at < release.slots; at++) contents.push({ release: number, payload: null });
  });
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
    // Boxes that were not asked are not sent.
    return release.of.reduce((code, id, place) => code | (BigInt(values.get(id) ?? 0) << BigInt(place)), 0n);
  }
  const [first, second] = release.of;
  if (second === undefined) return values.get(first!)!;
  const columns = survey.questions.find((one) => one.id === second)!;
  return Number(values.get(first!)) * Number(domainOf(columns)) + Number(values.get(second));
}
