// Turns the prose of a part into HTML: numbers, formulas, and programs with their output.

import katex from "katex";
import { Marked } from "marked";

/** Numbers -----------------------------------------------------------------------------------------
 * {{part.name}} is a text or a whole number. Other numbers need a format after a bar:
 *   {{part.name | places 2}}   two decimal places
 *   {{part.name | digits 3}}   three significant digits
 *   {{part.name | up 3}}       three significant digits, rounded up: for ε and δ
 *   {{part.name | down 3}}     three significant digits, rounded down
 *   {{part.name | percent 1}}  a share as a percentage, with one decimal place
 *   {{part.name | whole}}      the nearest whole number
 */
const PLACEHOLDER = /\{\{\s*([^{}|]+?)\s*(?:\|\s*([a-z]+)(?:\s+(\d+))?\s*)?\}\}/g;

function english(value, options = {}) {
  return new Intl.NumberFormat("en-US", options).format(value).replace("-", "−");
}

const FORMATS = {
  places: (value, count) => english(value, { minimumFractionDigits: count, maximumFractionDigits: count }),
  digits: (value, count) => english(value, { maximumSignificantDigits: count }),
  up: (value, count) => english(value, { maximumSignificantDigits: count, roundingMode: "ceil" }),
  down: (value, count) => english(value, { maximumSignificantDigits: count, roundingMode: "floor" }),
  percent: (value, count) => `${english(100 * value, { maximumFractionDigits: count })} %`,
  whole: (value) => english(value, { maximumFractionDigits: 0 }),
};

/** A value of the data, as text. */
function written(data, path, format, count, where) {
  const value = path.split(".").reduce((found, name) => {
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) {
      throw new Error(`${where}: there is no number {{${path}}}`);
    }
    return found[name];
  }, data);
  if (format) {
    if (!Object.hasOwn(FORMATS, format)) throw new Error(`${where}: there is no format "${format}"`);
    if (typeof value !== "number") throw new Error(`${where}: {{${path}}} is not a number`);
    return FORMATS[format](value, count === undefined ? 0 : Number(count));
  }
  if (typeof value === "string") return value;
  if (Number.isInteger(value)) return english(value);
  throw new Error(`${where}: {{${path}}} needs a format, such as {{${path} | digits 3}}`);
}

export function filled(text, data, where) {
  const done = text.replace(PLACEHOLDER, (_, path, format, count) => written(data, path, format, count, where));
  if (/\{\{[^{}]*\w\.\w/.test(done)) throw new Error(`${where}: a placeholder is not closed`);
  return done;
}

/** Formulas ---------------------------------------------------------------------------------------- */

/** The HTML of a formula in TeX. KaTeX positions its parts by style attributes, which the page's
 * policy forbids. Each distinct style becomes a class instead. */
export class Formulas {
  #styles = new Map();

  render(tex, displayMode) {
    const grouped = tex.replace(/(\d),(?=\d{3})/g, "$1{,}").replaceAll("−", "-").replaceAll(" %", "\\,\\%");
    return this.classed(katex.renderToString(grouped, { displayMode, strict: "error" }));
  }

  classed(html) {
    return html.replace(/<[a-z]+(?: [^<>]*)? style="([^"]*)"[^<>]*>/g, (tag, style) => {
      const plain = tag.replace(/ style="[^"]*"/, "");
      const name = this.#name(style);
      return / class="/.test(plain)
        ? plain.replace(/ class="/, ` class="${name} `)
        : plain.replace(/^<[a-z]+/, (start) => `${start} class="${name}"`);
    });
  }

  #name(style) {
    if (!this.#styles.has(style)) this.#styles.set(style, `k${this.#styles.size.toString(36)}`);
    return this.#styles.get(style);
  }

  /** The style sheet of the classes. */
  get css() {
    const important = (style) => style.split(";").filter(Boolean).map((one) => `${one}!important`).join(";");
    return [...this.#styles].map(([style, name]) => `.${name}{${important(style)}}`).join("\n");
  }
}

/** Markdown ---------------------------------------------------------------------------------------- */

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Blocks of code that begin with ```python or ```sh, in the order of the prose. */
export function programs(text) {
  return [...text.matchAll(/^```(python|sh)\n(.*?)^```$/gms)].map(([, language, code]) => ({ language, code }));
}

/** The HTML of a text in Markdown. `outputs` has what each program printed. */
export function html(text, formulas, outputs) {
  let next = 0;
  const formula = (name, level, start, rule, displayed) => ({
    name,
    level,
    start: (source) => source.indexOf(start),
    tokenizer(source) {
      const found = rule.exec(source);
      return found ? { type: name, raw: found[0], tex: found[1].trim() } : undefined;
    },
    renderer: ({ tex }) =>
      displayed ? `<p class="formula">${formulas.render(tex, true)}</p>\n` : formulas.render(tex, false),
  });
  const marked = new Marked({
    extensions: [
      formula("displayed", "block", "$$", /^\$\$\n?(.+?)\$\$(?:\n|$)/s, true),
      formula("inline", "inline", "$", /^\$([^$\n]+?)\$/, false),
    ],
    renderer: {
      code({ text: code, lang }) {
        const shown = `<pre class="code" tabindex="0"><code>${escaped(code)}</code></pre>\n`;
        if (lang !== "python" && lang !== "sh") return shown;
        const output = outputs[next++];
        return `<div class="program">${shown}<pre class="output" tabindex="0"><samp>${escaped(output)}</samp></pre></div>\n`;
      },
      heading({ tokens, depth }) {
        const level = depth + 1; // the page itself has the heading of the first level
        return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
      },
    },
  });
  return marked.parse(text);
}

/** Links the first emphasized use of each term to its entry in the glossary, which is the last part. */
export function linked(sections) {
  const glossary = sections.at(-1);
  const rest = sections.slice(0, -1);
  for (const [, id, name] of glossary.matchAll(/<dt id="(term-[a-z-]+)">([^<]+)<\/dt>/g)) {
    const used = `<em>${name}</em>`;
    const first = rest.findIndex((section) => section.includes(used));
    if (first >= 0) rest[first] = rest[first].replace(used, `<a class="term" href="#${id}">${used}</a>`);
  }
  return [...rest, glossary];
}
