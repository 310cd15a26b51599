// The survey document: the client checks everything that it can compute.
//
// - The bytes have the digest of the address, and are canonical JSON of at most 1 MiB.
// - The analyzer's key belongs to its id.
// - Every question is answered by one release that takes exactly its answers.
// - Sizes and numbers of messages follow from the releases.
// - Randomizers have valid parameters. Noise tables are derived from closed forms, or add up to 1.
// - The local ε follows from the probabilities of the randomizers.
// - In local trust, the promised ε is at least the ε of all answers together. If there are several
//   waves and a δ, only the local ε of all waves is checked.
//
// The joint δ in shuffle trust needs the law of everybody's noise. The shuffler, the analyzer and the
// Python client compute it anew from the same document, and refuse a document that claims too much.

import { fromHex, joined, toHex } from "./bytes.js";
import { parsed, type Json } from "./canonical.js";
import { HeadcountError, refuse } from "./errors.js";
import { domainOf, isObject, questionOf, textOf, type Question } from "./questions.js";
import { randomizerOf, type Instructions, type Randomizer } from "./randomizers/index.js";

const MOST_BYTES = 2 ** 20;
const MOST_MESSAGES = 10_000;
const MOST_RELEASES = 1000;
const LINE = 2 ** 32; // shares of people are integers divided by this
const HEADER = 20; // the bytes of a message before its payload
const CLOSE = 1e-6; // the relative error of a recomputed ε

export interface Release {
  readonly ids: readonly string[]; // one question or table, or several yes-no questions that are the boxes
  readonly of: readonly string[]; // the questions from whose answers the value is computed
  readonly share: number; // the share of people who answer it, times 2^32
  readonly slots: number; // the number of messages that everybody sends
  readonly bytes: number; // the size of each integer of a message
  readonly randomizer: Randomizer;
}

export interface Survey {
  readonly digest: string;
  readonly title: string;
  readonly introduction: string;
  readonly contact: string;
  readonly questions: readonly Question[];
  readonly releases: readonly Release[];
  readonly releasesEach: number; // how many releases a person answers
  readonly trust: "local" | "shuffle";
  readonly noise: "people" | "shuffler";
  readonly epsilon: number;
  readonly delta: number;
  readonly localEpsilon: number; // infinite if nothing is left without the shuffler
  readonly waves: number;
  readonly leastPeople: number;
  readonly admission: "open" | "codes";
  readonly messages: number;
  readonly messageBytes: number;
  readonly key: Uint8Array<ArrayBuffer>;
  readonly shuffler: string;
  readonly analyzer: string;
}

/** The survey in these bytes, whose SHA-256 must be `digest`. */
export async function surveyOf(bytes: Uint8Array<ArrayBuffer>, digest: string): Promise<Survey> {
  if (bytes.length > MOST_BYTES) refuse("must have at most 1 MiB");
  if (toHex(await sha256(bytes)) !== digest) refuse("must have the digest of its address");
  const found = parsed(bytes);
  if (!isObject(found)) refuse("must be an object");
  if (found["version"] !== 1) refuse("must have version 1");
  const told = isObject(found["survey"]) ? found["survey"] : refuse("must have a survey");
  const questions = listOf(told["question"], "questions", MOST_RELEASES).map(questionOf);
  const releases = listOf(found["releases"], "releases", MOST_RELEASES).map(releaseOf);
  checkQuestions(questions, releases);
  const guarantee = isObject(found["guarantee"]) ? found["guarantee"] : refuse("must have a guarantee");
  const trust = guarantee["trust"];
  if (trust !== "local" && trust !== "shuffle") refuse("must have local or shuffle trust");
  const releasesEach = wholeOf(found["releases_each"], "releases_each", 1, releases.length);
  if (releases.reduce((sum, one) => sum + one.share, 0) !== releasesEach * LINE) {
    refuse("must have shares that add up to the number of releases that a person answers");
  }
  if (trust === "shuffle" && releasesEach !== releases.length) {
    refuse("must ask everybody everything in shuffle trust");
  }
  const waves = wholeOf(found["waves"], "waves", 1, 10_000);
  const admission = found["admission"];
  if (admission !== "open" && admission !== "codes") refuse("must say who is admitted");
  const survey: Survey = {
    digest,
    title: optionalText(told["title"], "the title"),
    introduction: optionalText(told["introduction"], "the introduction"),
    contact: optionalText(told["contact"], "the contact"),
    questions,
    releases,
    releasesEach,
    trust,
    noise: isObject(told["privacy"]) && told["privacy"]["noise"] === "shuffler" ? "shuffler" : "people",
    epsilon: positive(guarantee["epsilon"], "epsilon"),
    delta: share(guarantee["delta"], "delta"),
    localEpsilon: found["local_epsilon"] === null ? Infinity : positive(found["local_epsilon"], "local_epsilon"),
    waves,
    leastPeople: wholeOf(found["least_people"], "least_people", 1, 2 ** 50),
    admission,
    messages: wholeOf(found["messages"], "messages", 1, MOST_MESSAGES),
    messageBytes: wholeOf(found["message_bytes"], "message_bytes", 64, 64 * 2 ** 16),
    key: await keyOf(found["key"]),
    ...addressesOf(found["addresses"]),
  };
  checkSizes(survey);
  checkPrivacy(survey);
  return survey;
}

/** The bytes at an address, if they are few enough. */
export async function fetched(url: string): Promise<Uint8Array<ArrayBuffer>> {
  let reply: Response;
  try {
    // With these options, a browser takes the reply that the page has asked for in advance.
    reply = await fetch(url, { credentials: "same-origin", referrerPolicy: "no-referrer" });
  } catch {
    throw new HeadcountError("unavailable", "the survey cannot be reached");
  }
  if (!reply.ok || !reply.body) throw new HeadcountError("unavailable", `status ${reply.status}`);
  const reader = reply.body.getReader();
  const parts: Uint8Array[] = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST_BYTES) {
      await reader.cancel();
      refuse("must have at most 1 MiB");
    }
    parts.push(value);
  }
  return joined(parts);
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

// Parts of the document ---------------------------------------------------------------------------

function listOf(value: Json | undefined, what: string, most: number): Json[] {
  if (!Array.isArray(value) || !value.length || value.length > most) refuse(`must have ${what}`);
  return value;
}

function wholeOf(value: Json | undefined, name: string, low: number, high: number): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < low || value > high) {
    refuse(`must have a whole number \`${name}\` from ${low} to ${high}`);
  }
  return value;
}

function positive(value: Json | undefined, name: string): number {
  if (typeof value !== "number" || !(value > 0)) refuse(`must have a positive \`${name}\``);
  return value;
}

function share(value: Json | undefined, name: string): number {
  if (typeof value !== "number" || !(value >= 0 && value < 1)) refuse(`must have a \`${name}\` below 1`);
  return value;
}

function optionalText(value: Json | undefined, what: string): string {
  return value === undefined ? "" : textOf(value, what);
}

function releaseOf(row: Json): Release {
  if (!isObject(row)) refuse("must have releases");
  const device = row["device"];
  if (!isObject(device)) refuse("must have instructions for devices");
  const asks = listOf(row["questions"], "questions in every release", 64);
  const ids = asks.map((ask) => textOf(isObject(ask) ? ask["id"] : null, "the id of a question"));
  const of = asks.flatMap((ask) =>
    listOf(isObject(ask) ? ask["of"] : null, "questions in every release", 2).map((id) => textOf(id, "an id")),
  );
  return {
    ids,
    of,
    share: wholeOf(row["share"], "share", 1, LINE),
    slots: wholeOf(row["slots"], "slots", 1, MOST_MESSAGES),
    bytes: wholeOf(device["bytes"], "bytes", 1, 8),
    randomizer: randomizerOf(device as Instructions),
  };
}

async function keyOf(value: Json | undefined): Promise<Uint8Array<ArrayBuffer>> {
  const text = isObject(value) ? value["public"] : undefined;
  if (!isObject(value) || typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) {
    refuse("must have a key of 32 bytes");
  }
  const key = fromHex(text);
  if (toHex(await sha256(key)).slice(0, 16) !== value["id"]) refuse("must have a key that fits its id");
  return key;
}

function addressesOf(value: Json | undefined): { shuffler: string; analyzer: string } {
  const address = (name: string) => {
    const url = textOf(isObject(value) ? value[name] : undefined, `the address of the ${name}`);
    if (!/^https?:\/\//.test(url) || !URL.canParse(url)) refuse(`must have the address of the ${name}`);
    return url;
  };
  return { shuffler: address("shuffler"), analyzer: address("analyzer") };
}

// Checks of the whole -----------------------------------------------------------------------------

/** The number of values of a release: a pair of answers, several yes-no questions, or one answer. */
function domainOfRelease(release: Release, byId: ReadonlyMap<string, Question>): bigint | null {
  const asked = release.of.map((id) => byId.get(id) ?? refuse(`must have the question ${id}`));
  if (release.ids.length > 1) {
    if (asked.length !== release.ids.length || asked.some((one) => one.kind !== "yes-no" || one.optional)) {
      refuse("must join only yes-no questions");
    }
    return 1n << BigInt(asked.length);
  }
  const domains = asked.map(domainOf);
  return domains.includes(null)
    ? null
    : (domains as bigint[]).reduce((product, one) => product * one, 1n);
}

/** Every question has one release of its own, which takes all of its answers. */
function checkQuestions(questions: readonly Question[], releases: readonly Release[]): void {
  const byId = new Map(questions.map((one) => [one.id, one]));
  if (byId.size !== questions.length) refuse("must have different ids");
  const own = releases.filter((one) => one.of.length === one.ids.length);
  const answered = own.flatMap((one) => one.ids);
  if (answered.length !== questions.length || !answered.every((id) => byId.has(id))) {
    refuse("must answer every question by one release");
  }
  if (new Set(answered).size !== answered.length) refuse("must answer every question by one release");
  for (const release of releases) {
    if (release.of.length !== release.ids.length && release.ids.length !== 1) {
      refuse("must have tables of two questions");
    }
    const values = domainOfRelease(release, byId);
    const { domain } = release.randomizer;
    if ((values === null) !== (domain === null)) refuse("must round numbers, and nothing else");
    const [first] = release.of.map((id) => byId.get(id)!);
    const takesAll =
      values !== null && domain !== null
        ? domain >= values
        : first?.kind === "number" && release.of.length === 1 && release.randomizer.takes?.(first.low, first.high);
    if (!takesAll) refuse("must have a randomizer that takes every answer");
  }
}

function checkSizes(survey: Survey): void {
  const longest = Math.max(...survey.releases.map((one) => one.randomizer.columns * one.bytes));
  if (survey.messageBytes !== 64 * Math.ceil((HEADER + longest) / 64)) {
    refuse("must have messages of the size of the longest one");
  }
  const slots = survey.releases.map((one) => one.slots).sort((one, other) => other - one);
  const messages = slots.slice(0, survey.releasesEach).reduce((sum, one) => sum + one, 0);
  if (messages !== survey.messages) refuse("must have as many messages as its releases");
}

function checkPrivacy(survey: Survey): void {
  const each = survey.releases.map((one) => one.randomizer.localEpsilon).sort((one, other) => other - one);
  const left = survey.waves * each.slice(0, survey.releasesEach).reduce((sum, one) => sum + one, 0);
  if (survey.localEpsilon < left * (1 - CLOSE)) {
    refuse(`must not claim a local ε of ${survey.localEpsilon}, since its probabilities give ${left}`);
  }
  if (survey.trust === "local" && (survey.waves === 1 || !survey.delta) && survey.epsilon < left * (1 - CLOSE)) {
    refuse(`must not promise ε = ${survey.epsilon}, since its probabilities give ${left}`);
  }
}
