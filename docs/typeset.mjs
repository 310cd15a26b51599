// Reads formulas as JSON, a list of TeX, and writes their HTML as JSON.
import { readFileSync } from "node:fs";

const { default: katex } = await import(process.argv[2]);
const formulas = JSON.parse(readFileSync(0, "utf8"));
const shown = formulas.map((tex) => katex.renderToString(tex, { strict: "error" }));
process.stdout.write(JSON.stringify(shown));
