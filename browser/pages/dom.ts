// Makes elements. Texts become text nodes, so nothing in a survey is ever executed.

type Child = Node | string | null | false;
type Attributes = Readonly<Record<string, string | number | boolean | ((event: Event) => void)>>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child): child is Node | string => child !== null && child !== false));
  return made;
}

/** Paragraphs of a text. An empty line divides them. */
export function paragraphs(text: string): HTMLElement[] {
  return text.split(/\n\s*\n/).filter(Boolean).map((one) => h("p", {}, one));
}

/** A list of names with values. */
export function facts(rows: readonly (readonly [string, Child])[]): HTMLElement {
  return h("dl", {}, ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
