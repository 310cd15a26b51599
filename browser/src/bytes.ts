// Bytes, hexadecimal digits, and little-endian integers.

export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  if (text.length % 2 || /[^0-9a-f]/.test(text)) throw new RangeError("expected hexadecimal digits");
  const out = new Uint8Array(text.length / 2);
  for (let at = 0; at < out.length; at++) out[at] = parseInt(text.slice(2 * at, 2 * at + 2), 16);
  return out;
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** The integer in these bytes, the lowest byte first. */
export function littleEndian(bytes: Uint8Array): bigint {
  let number = 0n;
  for (let at = bytes.length - 1; at >= 0; at--) number = (number << 8n) | BigInt(bytes[at]!);
  return number;
}

/** An integer as `size` bytes, the lowest byte first. Negative numbers are written modulo 2^(8·size). */
export function bytesOf(number: number | bigint, size: number): Uint8Array {
  let left = BigInt.asUintN(8 * size, BigInt(number));
  const out = new Uint8Array(size);
  for (let at = 0; at < size; at++) {
    out[at] = Number(left & 255n);
    left >>= 8n;
  }
  return out;
}
