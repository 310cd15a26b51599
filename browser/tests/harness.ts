// What the tests call in a browser and in Node: every step of the client, with given random bytes.

import { KEM_DHKEM_X25519_HKDF_SHA256, type KEM, type KEMFactory } from "hpke";

import { bestEvent } from "../guide/models/auditing.js";
import { laplace } from "../guide/models/doubles.js";
import { boundIn } from "../pages/numbers.js";
import { fromHex, joined, bytesOf, toHex } from "../src/bytes.js";
import { surveyOf } from "../src/document.js";
import { HeadcountError } from "../src/errors.js";
import type { Answers } from "../src/questions.js";
import { BufferedSource, GivenSource, SecureSource } from "../src/random.js";
import { randomizerOf, type Instructions, type Value } from "../src/randomizers/index.js";
import { asked, randomized, selected } from "../src/response.js";
import { packed, Sealer } from "../src/seal.js";

/** An ε or δ as the page shows it. */
export function shown(value: number): string {
  return boundIn("en", value);
}

/** The messages of one person, each as hexadecimal digits, and how many random bytes were used. */
export function messages(device: Instructions, value: Value | string, random: string, slots: number) {
  const source = new GivenSource(fromHex(random));
  const held = typeof value === "string" ? BigInt(value) : value;
  const sent = randomizerOf(device).send(held, source, slots);
  const size = device["bytes"] as number;
  return {
    messages: sent.map((message) => toHex(joined(message.map((one) => bytesOf(one, size))))),
    used: source.used,
  };
}

/** How often each bundle came, in `count` draws. A bundle is its sorted messages. */
export function drawn(device: Instructions, value: Value | string, count: number, slots: number) {
  const randomizer = randomizerOf(device);
  const held = typeof value === "string" ? BigInt(value) : value;
  const source = new BufferedSource(new SecureSource());
  const found: Record<string, number> = {};
  for (let at = 0; at < count; at++) {
    const sent = randomizer.send(held, source, slots).map((one) => one.join(","));
    const key = sent.sort().join(" ");
    found[key] = (found[key] ?? 0) + 1;
  }
  return found;
}

/** How often the sum of all messages came, modulo a number. */
export function drawnSums(device: Instructions, value: string, count: number, modulus: string) {
  const randomizer = randomizerOf(device);
  const source = new BufferedSource(new SecureSource());
  const found: Record<string, number> = {};
  for (let at = 0; at < count; at++) {
    const sent = randomizer.send(BigInt(value), source, 10_000);
    const sum = sent.reduce((total, [share]) => total + BigInt(share!), 0n) % BigInt(modulus);
    found[String(sum)] = (found[String(sum)] ?? 0) + 1;
  }
  return found;
}

/** A KEM whose ephemeral keys are given, for test vectors alone. */
function givenKeys(keys: string[]): KEMFactory {
  let next = 0;
  return () => {
    const kem = KEM_DHKEM_X25519_HKDF_SHA256() as KEM<CryptoKey>;
    const made = Object.create(kem) as KEM<CryptoKey>;
    return Object.assign(made, {
      async GenerateKeyPair() {
        const raw = fromHex(keys[next++]!);
        const header = fromHex("302e020100300506032b656e04220420");
        const pair = { name: "X25519" };
        const secret = await crypto.subtle.importKey("pkcs8", joined([header, raw]), pair, true, ["deriveBits"]);
        const { x } = await crypto.subtle.exportKey("jwk", secret);
        const open = await crypto.subtle.importKey("jwk", { kty: "OKP", crv: "X25519", x: x! }, pair, true, []);
        return { privateKey: secret, publicKey: open };
      },
    });
  };
}

export interface Vector {
  document: string; // hexadecimal digits
  digest: string;
  answers: Answers;
  random: string;
  ephemeral: string[];
}

/** A whole response: the questions that are asked, the contents in their final order, and the sealed bytes. */
export async function whole(vector: Vector) {
  const survey = await surveyOf(fromHex(vector.document), vector.digest);
  const source = new GivenSource(fromHex(vector.random));
  const selection = selected(survey, source);
  const contents = randomized(survey, vector.answers, source, selection);
  const sealed = await new Sealer(survey, givenKeys(vector.ephemeral)).seal(contents);
  return {
    asked: asked(survey, selection).map((one) => one.id),
    contents: contents.map((one) => toHex(packed(survey, one))),
    sealed: toHex(sealed),
    used: source.used,
  };
}

/** One sealed message. */
export async function sealed(
  digest: string,
  key: string,
  messageBytes: number,
  release: number,
  payload: string | null,
  ephemeral: string,
) {
  const survey = { digest, messageBytes, key: fromHex(key) };
  const content = { release, payload: payload === null ? null : fromHex(payload) };
  return {
    content: toHex(packed(survey, content)),
    sealed: toHex(await new Sealer(survey, givenKeys([ephemeral])).seal([content])),
  };
}

/** What is wrong with a document: the code and the words of the error, or "accepted". */
export async function verdict(document: string, digest: string | null): Promise<string[]> {
  const bytes = fromHex(document);
  const name = digest ?? toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
  try {
    await surveyOf(bytes, name);
    return ["accepted", ""];
  } catch (error) {
    if (error instanceof HeadcountError) return [error.code, error.message];
    throw error;
  }
}

/** The event that an audit of the guide chooses. Counts are lists of outputs with their numbers. */
export function chosenEvent(learned: Listed[], tried: Listed[], delta: number) {
  const sides = ([one, other]: Listed[]) => [new Map(one), new Map(other)] as const;
  return bestEvent(sides(learned), sides(tried), delta);
}

type Listed = readonly (readonly [output: number, count: number])[];

export { leastEpsilon, lowerChance, lowerEpsilon, measured, smallestResponse, upperChance } from "../guide/models/auditing.js";
export { reachable } from "../guide/models/doubles.js";

/** Laplace noise of the guide, from these random bytes. */
export function laplaceOf(random: string): number {
  return laplace(new GivenSource(fromHex(random)));
}
