// Turns the prose of a part into HTML: numbers, formulas, and programs with their output.

import katex from "katex";
import MarkdownIt from "markdown-it";

/** Numbers -----------------------------------------------------------------------------------------
 * {{part.name}} is a text or a whole number. Other numbers need a format after a bar:
 *   {{part.name | places 2}}   two decimal places
 *   {{part.name | digits 3}}   three significant digits
 *   {{part.name | up 3}}       three significant digits, rounded up: for ε and δ
 *   {{part.name | down 3}}     three significant digits, rounded down
 *   {{part.name | power 3}}    three significant digits and a power of ten, rounded up: for small δ
 *   {{part.name | percent 1}}  a share as a percentage, with one decimal place
 *   {{part.name | whole}}      the nearest whole number
 */
const PLACEHOLDER = /\{\{\s*([^{}|]+?)\s*(?:\|\s*([a-z]+)(?:\s+(\d+))?\s*)?\}\}/g;

function english(value, options = {}) {
  return new Intl.NumberFormat("en-US", options).format(value).replace("-", "−");
}

/** A number such as 3.85 · 10⁻⁷, rounded up. */
function scientific(value, digits) {
  const [leading, power] = value.toExponential().split("e");
  let exponent = Number(power);
  let mantissa = Number(`${Math.ceil(Number(`${leading}e${digits - 1}`))}e${1 - digits}`);
  if (mantissa === 10) [mantissa, exponent] = [1, exponent + 1];
  const raised = [...String(exponent)].map((one) => (one === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(one)])).join("");
  return `${mantissa === 1 ? "" : `${mantissa} · `}10${raised}`;
}

/** A number with this many significant digits, rounded by a function such as Math.ceil. */
function rounded(value, count, round) {
  const places = value ? count - 1 - Math.floor(Math.log10(Math.abs(value))) : 0;
  const [digits, power] = value.toExponential().split("e");
  const scaled = Number(`${digits}e${Number(power) + places}`);
  return english(Number(`${round(scaled)}e${-places}`), { maximumSignificantDigits: count });
}

const FORMATS = {
  places: (value, count) => english(value, { minimumFractionDigits: count, maximumFractionDigits: count }),
  digits: (value, count) => english(value, { maximumSignificantDigits: count }),
  up: (value, count) => rounded(value, count, Math.ceil),
  down: (value, count) => rounded(value, count, Math.floor),
  power: (value, count) => scientific(value, count),
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

/** A rule of markdown-it for formulas between dollars in a line. */
function inline(state, silent) {
  const found = /^\$([^$\n]+)\$/.exec(state.src.slice(state.pos));
  if (!found) return false;
  if (!silent) state.push("formula", "", 0).content = found[1];
  state.pos += found[0].length;
  return true;
}

/** A rule of markdown-it for formulas between two dollars, on lines of their own. */
function displayed(state, first, last, silent) {
  const line = (at) => state.src.slice(state.bMarks[at] + state.tShift[at], state.eMarks[at]).trim();
  if (!line(first).startsWith("$$")) return false;
  let text = line(first).slice(2);
  let end = first;
  while (!text.endsWith("$$")) {
    if (++end === last) throw new Error(`a formula is not closed: ${text}`);
    text += `\n${line(end)}`;
  }
  if (silent) return true;
  state.push("displayed", "", 0).content = text.slice(0, -2).trim();
  state.line = end + 1;
  return true;
}

/** The HTML of a text in Markdown. `outputs` has what each program printed. */
export function html(text, formulas, outputs) {
  let next = 0;
  const markdown = new MarkdownIt({ html: true, typographer: true }).disable("replacements");
  markdown.inline.ruler.after("escape", "formula", inline);
  markdown.block.ruler.before("fence", "displayed", displayed, { alt: ["paragraph", "list"] });
  Object.assign(markdown.renderer.rules, {
    formula: (tokens, at) => formulas.render(tokens[at].content, false),
    displayed: (tokens, at) => `<p class="formula">${formulas.render(tokens[at].content, true)}</p>\n`,
    fence(tokens, at) {
      const { content, info } = tokens[at];
      const shown = `<pre class="source" tabindex="0"><code>${escaped(content)}</code></pre>\n`;
      if (info !== "python" && info !== "sh") return shown;
      const output = `<pre class="output" tabindex="0"><samp>${escaped(outputs[next++])}</samp></pre>`;
      return `<div class="program">${shown}${output}</div>\n`;
    },
  });
  const tokens = markdown.parse(text, {});
  for (const token of tokens) {
    // The page itself has the heading of the first level.
    if (token.type.startsWith("heading")) token.tag = `h${Number(token.tag.slice(1)) + 1}`;
  }
  return markdown.renderer.render(tokens, markdown.options, {});
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
