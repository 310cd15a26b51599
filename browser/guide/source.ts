// The random bytes of all widgets. They are the browser's cryptographically secure bytes.

import { BufferedSource, SecureSource, type Source } from "../src/random.js";

let current: Source = new BufferedSource(new SecureSource());

/** The random bytes of this page. */
export const source: Source = {
  fill(buffer: Uint8Array): void {
    current.fill(buffer);
  },
};

/** Replaces the random bytes by a fixed sequence, so that a test sees the same page every time. The
 * page itself never calls this function. */
export function seed(number: number): void {
  current = new SeededSource(number);
  document.documentElement.dataset["seeded"] = String(number);
}

/** Bytes that follow from a number (the generator sfc32). They are not secret. */
class SeededSource implements Source {
  private readonly state: Uint32Array;

  constructor(number: number) {
    this.state = new Uint32Array([0x9e3779b9, 0x243f6a88, number, 1]);
    for (let at = 0; at < 12; at++) this.next();
  }

  fill(buffer: Uint8Array): void {
    for (let at = 0; at < buffer.length; at++) buffer[at] = this.next() >>> 24;
  }

  private next(): number {
    const [a, b, c, count] = this.state as unknown as [number, number, number, number];
    const drawn = (a + b + count) | 0;
    this.state.set([b ^ (b >>> 9), c + (c << 3), ((c << 21) | (c >>> 11)) + drawn, count + 1]);
    return drawn >>> 0;
  }
}
