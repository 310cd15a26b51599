// Sealing: each message is encrypted separately for the analyzer, with HPKE (RFC 9180) in base mode:
// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. headcount.collect.sealing opens it.

import {
  AEAD_AES_128_GCM,
  CipherSuite,
  KDF_HKDF_SHA256,
  KEM_DHKEM_X25519_HKDF_SHA256,
  type KEMFactory,
} from "hpke";

import { fromHex, joined } from "./bytes.js";
import type { Survey } from "./document.js";
import type { Content } from "./response.js";

const VERSION = 1;
const INFO = new TextEncoder().encode("headcount survey 1\0"); // the digest follows

/** The content of a message: version, mark, release, digest, payload and zeros. */
export function packed(survey: Pick<Survey, "digest" | "messageBytes">, content: Content): Uint8Array {
  const out = new Uint8Array(survey.messageBytes);
  out.set([VERSION, Number(content.payload !== null), content.release >> 8, content.release & 255]);
  out.set(fromHex(survey.digest).subarray(0, 16), 4);
  out.set(content.payload ?? [], 20);
  return out;
}

/** Seals messages for one survey. */
export class Sealer {
  private readonly suite: CipherSuite;
  private readonly info: Uint8Array;

  constructor(
    private readonly survey: Pick<Survey, "digest" | "messageBytes" | "key">,
    kem: KEMFactory = KEM_DHKEM_X25519_HKDF_SHA256,
  ) {
    this.suite = new CipherSuite(kem, KDF_HKDF_SHA256, AEAD_AES_128_GCM);
    this.info = joined([INFO, fromHex(survey.digest)]);
  }

  /** All messages, sealed one by one and joined. */
  async seal(contents: readonly Content[]): Promise<Uint8Array<ArrayBuffer>> {
    const key = await this.suite.DeserializePublicKey(this.survey.key);
    const sealed: Uint8Array[] = [];
    for (const content of contents) {
      const plain = packed(this.survey, content);
      const { encapsulatedSecret, ciphertext } = await this.suite.Seal(key, plain, { info: this.info });
      sealed.push(encapsulatedSecret, ciphertext);
    }
    return joined(sealed);
  }
}
