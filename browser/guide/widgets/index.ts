// All widgets by the names that the prose uses: <div data-widget="name"></div>.

import { attacker, longRun } from "./attacker.js";
import { doorbell } from "./doorbell.js";
import { evasion } from "./evasion.js";
import { guessers } from "./guessers.js";
import { manyCrowds } from "./many-crowds.js";
import { oneCrowd } from "./one-crowd.js";

export type Widget = (place: HTMLElement) => void;

export const WIDGETS: Readonly<Record<string, Widget>> = {
  doorbell,
  evasion,
  "one-crowd": oneCrowd,
  "many-crowds": manyCrowds,
  attacker,
  "long-run": longRun,
  guessers,
};
