// Part 1: the reader answers a question, and sees the answer, the message and the bytes.

import { facts, h } from "../../pages/dom.js";
import { data } from "../data.js";
import { button, buttons, choice, result } from "./controls.js";
import { bytesIn, sender } from "./randomizers.js";

const WORDS = ["no", "yes"] as const;

export function doorbell(place: HTMLElement): void {
  const { question, device } = data.doorbell;
  const send = sender(device);
  const shown = result(h("p", { class: "note" }, "Choose an answer. It stays on this page."));
  let bit: number | null = null;
  let sent = 0;
  let lies = 0;

  const answer = () => {
    if (bit === null) {
      shown.replaceChildren(h("p", { class: "problem" }, "Choose yes or no first."));
      return;
    }
    const message = send(bit)[0]!;
    const told = Number(message[0]);
    sent += 1;
    lies += Number(told !== bit);
    const verdict = told === bit ? "told the truth" : "lied for you";
    shown.replaceChildren(
      facts([
        ["Your answer", h("strong", {}, `${WORDS[bit]}, the bit ${bit}`)],
        ["The message that leaves your device", h("strong", {}, `${WORDS[told]}, the bit ${told}`)],
        ["Its bytes, in hexadecimal digits", h("code", { class: "bytes" }, bytesIn(device, message))],
      ]),
      h("p", {}, `This time your device ${verdict}. Only you know that.`),
      h("p", { class: "note" }, `Answers so far: ${sent}. Lies among them: ${lies}.`),
    );
  };

  place.append(
    choice(question, [["1", "Yes"], ["0", "No"]], (value) => {
      bit = Number(value);
      sent = lies = 0;
      shown.replaceChildren(h("p", { class: "note" }, "Now answer the door."));
    }),
    buttons(button("Answer the door", answer, true)),
    shown,
  );
}
