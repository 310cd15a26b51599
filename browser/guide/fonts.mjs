// The style sheet of KaTeX with the fonts that some formulas use, and no others.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const SHEET = createRequire(import.meta.url).resolve("katex/dist/katex.css");
const FACE = /@font-face\s*\{[^}]*\}/g;
const RULE = /([^{}]+)\{([^{}]*)\}/g;
const GENERIC = "KaTeX_Main";

function property(body, name) {
  return new RegExp(`(?:^|[;{\\s])${name}:\\s*([^;}]+)`).exec(body)?.[1].trim();
}

function weight(body) {
  const found = property(body, "font-weight");
  return found === "bold" || Number(found) >= 600 ? "bold" : "normal";
}

/** The family, weight and style of a font in one word. */
function face(family, body) {
  return `${family} ${weight(body)} ${property(body, "font-style") === "italic" ? "italic" : "normal"}`;
}

/** Fonts are embedded, since some browsers load no fonts from files beside a page in a folder. */
function embedded(body) {
  const [, path] = /url\(([^()]+\.woff2)\)/.exec(body);
  const font = readFileSync(join(dirname(SHEET), path)).toString("base64");
  return body.replace(/src:[^;}]*/, `src:url(data:font/woff2;base64,${font}) format("woff2")`);
}

export function katexStyles(html) {
  const sheet = readFileSync(SHEET, "utf8").replace(/\/\*.*?\*\//gs, "");
  const elements = [...new Set([...html.matchAll(/class="([^"]*)"/g)].map(([, names]) => names))].map(
    (names) => new Set(names.split(" ")),
  );
  // Whether each element that a selector names, such as ".delimsizing.size1", is somewhere on the page.
  const named = (selector) =>
    selector.trim().split(/[\s>+~]+/).every((one) => {
      const classes = [...one.matchAll(/\.([\w-]+)/g)].map(([, name]) => name);
      return elements.some((names) => classes.every((name) => names.has(name)));
    });
  const rules = sheet.replace(FACE, "");
  const needed = new Set([`${GENERIC} normal normal`]);
  for (const [, selectors, body] of rules.matchAll(RULE)) {
    if (!/font-(family|weight|style)/.test(body)) continue;
    const family = (property(body, "font-family") ?? GENERIC).split(",")[0].replace(/["']/g, "").trim();
    if (selectors.split(",").some(named) && family.startsWith("KaTeX_")) needed.add(face(family, body));
  }
  const faces = sheet.match(FACE).filter((one) => {
    const family = property(one, "font-family").replace(/["']/g, "");
    return needed.has(face(family, one));
  });
  return [...faces.map(embedded), rules].join("\n");
}
