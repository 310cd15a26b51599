// Chooses the language of the page.

import { german } from "./de.js";
import { english, type Texts } from "./en.js";

export const LANGUAGES: Readonly<Record<string, Texts>> = { en: english, de: german };

/** The first of the reader's languages that the page has. */
export function preferred(wanted: readonly string[]): string {
  const known = wanted.map((one) => one.slice(0, 2).toLowerCase()).find((one) => Object.hasOwn(LANGUAGES, one));
  return known ?? "en";
}

export type { Texts };
