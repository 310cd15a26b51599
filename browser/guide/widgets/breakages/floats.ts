// Noise in double precision: the last bits of a sum tell what was added.

import { h } from "../../../pages/dom.js";
import { NegativeBinomial } from "../../../src/noise.js";
import { short } from "../../charts/numbers.js";
import { data } from "../../data.js";
import { laplace, reachable } from "../../models/doubles.js";
import { source } from "../../source.js";
import { button, buttons, choice, readings, result, slider } from "../controls.js";
import { library } from "./panel.js";

const { epsilon, floats } = data.breaking;
const OUTPUTS = 1000;
const SHOWN = 8;
const COUNTS = [0, 1, 2, 5, 10, 100, 1000];
const GIVEN_AWAY = "Outputs that the neighbor cannot give";

export function floatsPanel(place: HTMLElement): void {
  const numbers = readings(["Claimed", GIVEN_AWAY]);
  const shown = result();
  const words = library();
  const one = { over: 1n, under: 1n };
  const geometric = new NegativeBinomial(one, one); // its differences are two-sided geometric noise
  let doubles = true;

  const show = () => {
    numbers.set("Claimed", `ε = ${short(epsilon)}, δ = 0`);
    numbers.set(GIVEN_AWAY, "–");
    shown.replaceChildren();
    if (doubles) {
      const runs = `${short(floats.runs)} runs on each side`;
      words.say(`An audit of such noise for the counts 0 and 1, with a claim of ε = ${short(epsilon)} and ${runs}:`, ...floats.audit);
    } else words.say("The library adds whole numbers to counts:", `central.geometric  ${floats.promised}`);
  };

  const draw = () => {
    const count = control.value;
    const whole = () => Number(geometric.draw(source) - geometric.draw(source));
    const rows = Array.from({ length: OUTPUTS }, () => {
      const output = count + (doubles ? laplace(source) : whole());
      return { output, possible: !doubles || reachable(output, count + 1) };
    });
    const alone = rows.filter(({ possible }) => !possible).length;
    numbers.set(GIVEN_AWAY, `${short(alone)} of ${short(OUTPUTS)}`);
    shown.replaceChildren(
      h(
        "p",
        {},
        h(
          "strong",
          {},
          alone
            ? `${short(alone)} of ${short(OUTPUTS)} outputs prove that the count is not ${short(count + 1)}.`
            : `Each of the ${short(OUTPUTS)} outputs is also possible for a count of ${short(count + 1)}.`,
        ),
      ),
      h("p", {}, alone ? "No ε allows this. Only a δ at least as large as their probability would." : ""),
      table(count, rows.slice(0, SHOWN)),
    );
  };

  const control = slider("True count", COUNTS, 0, short, show);
  place.append(
    choice(
      "What noise is added?",
      [
        ["doubles", "Laplace noise in double precision"],
        ["whole", "The whole numbers of the library"],
      ],
      (value) => {
        doubles = value === "doubles";
        show();
      },
      "doubles",
    ),
    control.element,
    buttons(button(`Publish ${short(OUTPUTS)} noisy counts`, draw, true)),
    numbers.element,
    shown,
    words.element,
  );
  show();
}

function table(count: number, rows: readonly { readonly output: number; readonly possible: boolean }[]): HTMLElement {
  const head = [`Output for ${short(count)}`, `Possible for ${short(count + 1)}?`];
  return h(
    "table",
    { class: "outputs" },
    h("caption", {}, `The first ${rows.length} outputs`),
    h("thead", {}, h("tr", {}, ...head.map((one) => h("th", { scope: "col" }, one)))),
    h(
      "tbody",
      {},
      ...rows.map(({ output, possible }) => {
        const digits = h("code", {}, String(output).replace(/^-/, "−"));
        return h("tr", {}, h("th", { scope: "row" }, digits), h("td", {}, possible ? "yes" : "no"));
      }),
    ),
  );
}
