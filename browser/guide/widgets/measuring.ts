// Part 9: an audit of a mechanism that the reader edits.

import { h } from "../../pages/dom.js";
import { uniform } from "../../src/random.js";
import { Chart } from "../charts/chart.js";
import { short } from "../charts/numbers.js";
import { data } from "../data.js";
import { source } from "../source.js";
import { atLeast, audited, frequencies, report, truth, type Audit } from "./audit-report.js";
import { button, buttons, choice, readings, result, slider } from "./controls.js";
import { coinMechanism, noiseMechanism, tableMechanism, type Mechanism } from "./mechanisms.js";
import { weightsTable } from "./weights.js";

const { measuring: given } = data;
const CLAIMED = "Claimed ε";
const MEASURED = "Measured ε, at least";
const TRUE = "True ε";

export function measuring(place: HTMLElement): void {
  const settings = h("div", { class: "settings" });
  const numbers = readings([CLAIMED, MEASURED, TRUE]);
  const shown = result();
  const figure = h("div");
  const claim = slider("Claimed ε", given.claims, given.claims.indexOf(1), short, () => cleared());
  const delta = slider("Claimed δ", given.deltas, 0, short, () => cleared());
  const runs = slider("Runs on each dataset", given.runs, given.runs.indexOf(10_000), short, () => cleared());
  let mechanism: Mechanism | null = null;
  let hidden: number | null = null; // the stranger's probability of a lie

  const audits = (now: Mechanism | null) => {
    mechanism = now;
    cleared();
  };

  const cleared = () => {
    numbers.set(CLAIMED, short(claim.value));
    numbers.set(MEASURED, "–");
    numbers.set(TRUE, hidden === null && mechanism ? truth(mechanism.epsilon(delta.value)) : "?");
    shown.replaceChildren();
    figure.replaceChildren();
  };

  const offered = (words: string, ...controls: HTMLElement[]) =>
    settings.replaceChildren(h("p", { class: "note" }, words), ...controls);

  const kinds: Readonly<Record<string, () => void>> = {
    coin() {
      const shares = (one: number) => `${short(100 * one)} %`;
      const lie = slider("How often the coin lies", given.lies, given.lies.indexOf(0.2), shares, (one) =>
        audits(coinMechanism(one)),
      );
      offered("One person answers yes or no. The coin changes the answer now and then.", lie.element);
      audits(coinMechanism(lie.value));
    },
    noise() {
      const scale = slider("Scale of the noise", given.scales, given.scales.indexOf(1), short, (one) =>
        audits(noiseMechanism(one)),
      );
      offered("The true count is 3 or 4, since one person's answer differs. Noise is added to it.", scale.element);
      audits(noiseMechanism(scale.value));
    },
    table() {
      const table = weightsTable(given.table, (weights) => audits(weights && tableMechanism(weights)));
      offered("How likely is each output? Write weights for both datasets. A weight of 0 means never.", table);
      audits(tableMechanism([given.table[0]!, given.table[1]!]));
    },
    stranger() {
      hidden = given.strangers[uniform(source, given.strangers.length)]!;
      claim.set(given.claims.indexOf(1));
      delta.set(0);
      offered(
        "A stranger hands you a coin in a closed box and says: “It lies so often that ε is at most 1.” Some strangers are honest.",
        buttons(button("Ask another stranger", () => kinds["stranger"]!())),
      );
      audits(coinMechanism(hidden));
    },
  };

  const audit = () => {
    if (!mechanism) {
      shown.replaceChildren(h("p", { class: "problem" }, "Each dataset needs an output with a weight above 0."));
      return;
    }
    const found = audited(mechanism, runs.value, claim.value, delta.value);
    numbers.set(MEASURED, atLeast(found.epsilon));
    shown.replaceChildren(...report(mechanism, found));
    if (hidden !== null) shown.append(buttons(button("Open the box", () => opened(found))));
    figure.replaceChildren(new Chart(frequencies(mechanism, found)).element);
  };

  const opened = (found: Audit) => {
    const epsilon = mechanism!.epsilon(found.delta);
    const kept = epsilon <= found.claim;
    const judged = found.refuted ? "your audit has refuted it" : "your audit has not refuted it. Buy more runs";
    numbers.set(TRUE, truth(epsilon));
    shown.lastElementChild!.replaceWith(
      h(
        "p",
        {},
        `The coin lies with a probability of ${short(100 * hidden!)} %, so its ε is ${truth(epsilon)}. The claim is `,
        h("strong", {}, kept ? "true" : "false"),
        kept ? "." : `, and ${judged}.`,
      ),
    );
  };

  place.append(
    choice(
      "What do you audit?",
      [
        ["coin", "A coin that lies"],
        ["noise", "A count with noise"],
        ["table", "A table of my own"],
        ["stranger", "A stranger's coin"],
      ],
      (kind) => {
        hidden = null;
        kinds[kind]!();
      },
      "coin",
    ),
    settings,
    claim.element,
    delta.element,
    runs.element,
    buttons(button("Run the audit", audit, true)),
    numbers.element,
    shown,
    figure,
  );
  kinds["coin"]!();
}
