// What widgets do with the randomizers of the client.

import { bytesOf, joined, toHex } from "../../src/bytes.js";
import { randomizerOf, type Instructions, type Message, type Value } from "../../src/randomizers/index.js";
import { source } from "../source.js";

/** What a device knows about a randomizer: its instructions, and the size of each integer in bytes. */
export type Device = Instructions & { readonly bytes: number };

/** The messages of one person, from the random bytes of the page. */
export function sender(device: Device, slots = 1): (value: Value) => Message[] {
  const randomizer = randomizerOf(device);
  return (value) => randomizer.send(value, source, slots);
}

/** A message as the bytes that leave a device, before they are sealed. */
export function bytesIn(device: Device, message: Message): string {
  return toHex(joined(message.map((one) => bytesOf(one, device.bytes))));
}
