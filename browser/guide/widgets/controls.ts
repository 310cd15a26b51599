// The controls that widgets share, so that they look and work alike.

import { h } from "../../pages/dom.js";

let made = 0;

/** A name for an element that another element refers to. */
export function fresh(name: string): string {
  return `${name}-${++made}`;
}

export function button(label: string, press: () => void, primary = false): HTMLButtonElement {
  return h("button", { type: "button", class: primary ? "primary" : "", click: press }, label);
}

export function buttons(...all: HTMLElement[]): HTMLElement {
  return h("div", { class: "actions" }, ...all);
}


/** A slider over some values. `shown` puts a value into words. */
export function slider<T>(
  label: string,
  values: readonly T[],
  first: number,
  shown: (value: T) => string,
  changed: (value: T) => void,
): { readonly element: HTMLElement; readonly value: T; set(at: number): void } {
  const name = fresh("slider");
  const words = h("span", { class: "value", "aria-hidden": "true" }); // the slider itself says its value
  const input = h("input", { type: "range", id: name, min: 0, max: values.length - 1, step: 1, value: first });
  const chosen = () => values[Number(input.value)]!;
  const show = () => {
    words.textContent = shown(chosen());
    input.setAttribute("aria-valuetext", shown(chosen()));
  };
  input.addEventListener("input", () => {
    show();
    changed(chosen());
  });
  show();
  const element = h("div", { class: "slider" }, h("label", { for: name }, label), words, input);
  return {
    element,
    get value() {
      return chosen();
    },
    set(at) {
      input.value = String(at);
      show();
    },
  };
}

/** Radio buttons. Nothing is chosen at first, unless `first` says so. */
export function choice<T extends string>(
  question: string,
  options: readonly (readonly [value: T, label: string])[],
  changed: (value: T) => void,
  first?: T,
): HTMLFieldSetElement {
  const name = fresh("choice");
  return h(
    "fieldset",
    { class: "choice" },
    h("legend", {}, question),
    h(
      "div",
      { class: options.length > 3 ? "options wide" : "options row" },
      ...options.map(([value, label]) =>
        h(
          "label",
          { class: "option" },
          h("input", { type: "radio", name, value, checked: value === first, change: () => changed(value) }),
          h("span", {}, label),
        ),
      ),
    ),
  );
}

/** A place for results. Screen readers read out what is put into it. */
export function result(...children: (Node | string)[]): HTMLElement {
  return h("div", { class: "result", role: "status" }, ...children);
}

/** Named numbers side by side. `set` changes one of them. */
export function readings(names: readonly string[]): { element: HTMLElement; set(name: string, value: string): void } {
  const values = new Map(names.map((name) => [name, h("dd", {}, "–")]));
  return {
    element: h("dl", { class: "readings" }, ...names.map((name) => h("div", {}, h("dt", {}, name), values.get(name)!))),
    set(name, value) {
      values.get(name)!.textContent = value;
    },
  };
}
