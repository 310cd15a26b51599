// Builds the guide into src/headcount/guide/pages: a page, a script, a style sheet and an icon.
//
// The numbers come from `python -m headcount.guide`. The programs that the page shows run here, and
// the page shows what they print.

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build, transformSync } from "esbuild";

import { katexStyles } from "./fonts.mjs";
import { filled, Formulas, html, linked, programs } from "./prose.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = join(HERE, "..", "..");
const PAGES = join(ROOT, "src", "headcount", "guide", "pages");
const PYTHON = process.env.PYTHON ?? join(ROOT, ".venv", "bin", "python");
const POLICY = [
  "default-src 'none'",
  // Browsers disagree on whether a file beside the page is 'self', if the page is a file itself.
  "script-src 'self' file:",
  "style-src 'self' file:",
  "img-src 'self' file:",
  "font-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** What a program prints. If it fails, it says why, and the build ends. */
function printedBy(program, args, input = "") {
  const env = { ...process.env, PYTHONPATH: join(ROOT, "src") };
  const stdio = ["pipe", "pipe", "inherit"];
  try {
    return execFileSync(program, args, { input, encoding: "utf8", env, stdio, maxBuffer: 2 ** 26 });
  } catch (error) {
    process.stderr.write(error.stdout ?? "");
    return process.exit(1);
  }
}

function read(name) {
  return readFileSync(join(HERE, name), "utf8");
}

/** A text in which names in %…% are replaced. */
function template(text, values) {
  return text.replace(/%([a-z]+)%/g, (_, name) => {
    if (!Object.hasOwn(values, name)) throw new Error(`the page has no %${name}%`);
    return values[name];
  });
}

const data = JSON.parse(printedBy(PYTHON, ["-m", "headcount.guide"]));
writeFileSync(join(HERE, "data.json"), JSON.stringify(data));
printedBy(join(HERE, "..", "node_modules", ".bin", "tsc"), ["-p", HERE]);

// Each part is a file NN-name.md. Its first line is its title.
const parts = readdirSync(join(HERE, "parts"))
  .filter((file) => file.endsWith(".md"))
  .sort()
  .map((file) => {
    const [, number, name] = /^(\d\d)-([a-z-]+)\.md$/.exec(file);
    const [first, ...rest] = filled(read(join("parts", file)), data, file).split("\n");
    if (!first.startsWith("# ")) throw new Error(`${file}: the first line must be the title`);
    return { name, number: Number(number), title: first.slice(2), text: rest.join("\n") };
  });

const shown = parts.map((part) => programs(part.text));
const printed = JSON.parse(printedBy(PYTHON, [join(HERE, "snippets.py")], JSON.stringify(shown.flat())));
const formulas = new Formulas();
let at = 0;
const sections = parts.map((part, index) => {
  const outputs = printed.slice(at, (at += shown[index].length));
  const body = html(part.text, formulas, outputs);
  const title = `part-${part.number}`; // other parts may refer to a part by its number
  const heading = `<h2 id="${title}"><span class="ordinal">${part.number}</span> ${part.title}</h2>`;
  return `<section class="part" id="${part.name}" aria-labelledby="${title}">\n${heading}\n${body}</section>`;
});
const contents = parts.map((part) => `<li><a href="#${part.name}">${part.title}</a></li>`).join("\n");

rmSync(PAGES, { recursive: true, force: true });
mkdirSync(PAGES, { recursive: true });
const page = template(read("page.html"), {
  policy: POLICY,
  contents,
  parts: linked(sections).join("\n"),
  data: JSON.stringify(data).replaceAll("<", "\\u003c"),
});
writeFileSync(join(PAGES, "index.html"), page);

const common = { bundle: true, minify: true, logLevel: "warning", target: "es2022" };
await build({ ...common, entryPoints: [join(HERE, "guide.ts")], format: "iife", outfile: join(PAGES, "guide.js") });
const styles = await build({
  ...common,
  target: ["chrome111", "firefox113", "safari16.4"],
  entryPoints: [join(HERE, "guide.css")],
  write: false,
});
const colors = `:root{${Object.entries(data.colors).map(([trust, color]) => `--${trust}-color:${color}`).join(";")}}`;
const sheet = [colors, katexStyles(page), formulas.css].join("\n");
const small = transformSync(sheet, { loader: "css", minify: true, logLevel: "warning" }).code;
writeFileSync(join(PAGES, "guide.css"), small + styles.outputFiles[0].text);
copyFileSync(join(HERE, "..", "pages", "icon.svg"), join(PAGES, "icon.svg"));
