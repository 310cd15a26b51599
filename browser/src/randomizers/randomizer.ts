// What all randomizers share. A randomizer turns an encoded answer into messages.

import { refuse } from "../errors.js";
import { bitLength, type Source } from "../random.js";

export type Value = number | bigint;
/** A message is one integer, or a row of integers. */
export type Message = readonly Value[];

/** What a message says, so that a page can put it into words. */
export type Meaning =
  | { readonly kind: "value"; readonly value: number } // an encoded answer
  | { readonly kind: "box"; readonly box: number }
  | { readonly kind: "filler" } // it stands for no box
  | { readonly kind: "boxes"; readonly boxes: readonly number[]; readonly fillers: number } // a random set
  | { readonly kind: "ticks"; readonly boxes: readonly (readonly [number, boolean])[] }
  | { readonly kind: "set"; readonly values: readonly number[] } // the answer may be one of these
  | { readonly kind: "cells"; readonly first: number; readonly last: number } // a range of answers
  | { readonly kind: "ranges"; readonly ranges: readonly (readonly [number, number])[] }
  | { readonly kind: "side"; readonly row: boolean; readonly value: number } // of a table
  | { readonly kind: "sign"; readonly plus: boolean; readonly value: number }
  | { readonly kind: "share"; readonly numbers: Message } // random numbers that add up to something
  | { readonly kind: "report"; readonly numbers: Message };

/** A person answers about `each` of all boxes. After the last box comes the first one. */
export interface Blocks {
  readonly boxes: number;
  readonly each: number;
}

export interface Randomizer {
  /** The number of integers in every message. */
  readonly columns: number;
  /** The ε of one answer by itself. It is infinite if only the other people's noise protects it. */
  readonly localEpsilon: number;
  /** The number of answers that can be encoded: 0, …, domain − 1. It is null for real numbers. */
  readonly domain: bigint | null;
  /** For real numbers: whether it takes all numbers of this range. Its ε is that of such numbers. */
  takes?(least: number, most: number): boolean;
  readonly blocks?: Blocks;
  /** One person's messages. If they do not fit into `slots`, they are drawn again. `first` is the first
   * box of a block, if the device has drawn it before. */
  send(value: Value, source: Source, slots: number, first?: number | null): Message[];
  meaning(message: Message): Meaning;
}

/** The meaning of a message that is an encoded answer. */
export function valueOf(message: Message): Meaning {
  return { kind: "value", value: Number(message[0]) };
}

/** The meaning of a message that has none by itself. */
export function reportOf(numbers: Message): Meaning {
  return { kind: "report", numbers };
}

/** Messages that are drawn again until the noise would fit with any answer. `fewer` is how many
 * fewer messages this answer has than the answer with the most messages. */
export function fitting(slots: number, fewer: number, draw: () => Message[]): Message[] {
  if (slots < fewer) refuse("must have room for the messages of every answer");
  for (;;) {
    const messages = draw();
    if (messages.length <= slots - fewer) return messages;
  }
}

/** ln(1 + over/under): the privacy loss of two probabilities. */
export function loss(over: bigint, under: bigint): number {
  if (under <= 0n) return Infinity;
  const shift = 1n << 80n;
  return Math.log1p(Number((over * shift) / under) / 2 ** 80);
}

// Instructions of a document ----------------------------------------------------------------------

export type Instructions = Readonly<Record<string, unknown>>;

/** A whole number of the instructions. */
export function whole(from: Instructions, name: string, low: number, high: number): number {
  const value = from[name];
  if (typeof value !== "number" || !Number.isInteger(value) || value < low || value > high) {
    refuse(`must have a whole number \`${name}\` from ${low} to ${high}`);
  }
  return value;
}

/** An integer of the instructions that is written as a text. */
export function large(from: Instructions, name: string, high: bigint): bigint {
  const value = from[name];
  if (typeof value !== "string" || !/^(0|[1-9][0-9]{0,39})$/.test(value) || BigInt(value) > high) {
    refuse(`must have an integer \`${name}\` of at most ${high}`);
  }
  return BigInt(value);
}

/** A list of integers of the instructions that are written as texts. */
export function larges(from: Instructions, name: string, most: number, high: bigint): bigint[] {
  const value = from[name];
  if (!Array.isArray(value) || !value.length || value.length > most) {
    refuse(`must have a list \`${name}\` of integers`);
  }
  return value.map((_, at) => large(value as unknown as Instructions, String(at), high));
}

/** A list of whole numbers of the instructions. */
export function wholes(from: Instructions, name: string, most: number, high: number): number[] {
  const value = from[name];
  const fits = (one: unknown) => Number.isInteger(one) && (one as number) >= 0 && (one as number) <= high;
  if (!Array.isArray(value) || !value.length || value.length > most || !value.every(fits)) {
    refuse(`must have a list \`${name}\` of whole numbers`);
  }
  return value as number[];
}

/** Instructions within the instructions. */
export function inner(from: Instructions, name: string): Instructions {
  const value = from[name];
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    refuse(`must have instructions \`${name}\``);
  }
  return value as Instructions;
}

/** The number of bytes of the smallest unsigned integer that holds this number. */
export function sizeOf(largest: number): number {
  return sizeOfBits(bitLength(largest));
}

/** The number of bytes of the smallest unsigned integer with this many bits. */
export function sizeOfBits(bits: number): number {
  return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}
