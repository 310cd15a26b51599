// Reads formulas as JSON, pairs of TeX and whether it is displayed, and writes their HTML as JSON.
import { readFileSync } from "node:fs";

const { default: katex } = await import(process.argv[2]);
const formulas = JSON.parse(readFileSync(0, "utf8"));
const shown = formulas.map(([tex, displayMode]) =>
  katex.renderToString(tex, { displayMode, strict: "error", throwOnError: true }),
);
process.stdout.write(JSON.stringify(shown));
