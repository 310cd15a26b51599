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
  let kept = 0;

  const answer = () => {
    if (bit === null) {
      shown.replaceChildren(h("p", { class: "problem" }, "Choose yes or no first."));
      return;
    }
    const [message] = send(bit);
    const told = Number(message![0]);
    sent += 1;
    kept += Number(told === bit);
    shown.replaceChildren(
      facts([
        ["Your answer", h("strong", {}, `${WORDS[bit]}, the bit ${bit}`)],
        ["The message that leaves your device", h("strong", {}, `${WORDS[told]}, the bit ${told}`)],
        ["Its bytes, in hexadecimal digits", h("code", {}, bytesIn(device, message!))],
      ]),
      h(
        "p",
        {},
        told === bit
          ? "This time the coin told the truth. Nobody but you knows that."
          : "This time the coin lied for you. Nobody but you knows that.",
      ),
      h("p", { class: "note" }, `Answered ${sent} ${sent === 1 ? "time" : "times"}, ${kept} of them with the truth.`),
    );
  };

  place.append(
    choice(question, [["1", "Yes"], ["0", "No"]], (value) => {
      bit = Number(value);
      sent = kept = 0;
      shown.replaceChildren(h("p", { class: "note" }, "Now answer the door."));
    }),
    buttons(button("Answer the door", answer, true)),
    shown,
  );
}
