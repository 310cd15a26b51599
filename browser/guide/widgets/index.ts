// All widgets by the names that the prose uses: <div data-widget="name"></div>.

import { attacker, longRun } from "./attacker.js";
import { breaking } from "./breaking.js";
import { constants } from "./constants.js";
import { density } from "./density.js";
import { doorbell } from "./doorbell.js";
import { enumeration } from "./enumeration.js";
import { evasion } from "./evasion.js";
import { growth } from "./growth.js";
import { guessers } from "./guessers.js";
import { lanes } from "./lanes.js";
import { manyCrowds } from "./many-crowds.js";
import { means } from "./means.js";
import { measuring } from "./measuring.js";
import { oneCrowd } from "./one-crowd.js";
import { oneHot } from "./one-hot.js";
import { planning } from "./planning.js";
import { quiz } from "./quiz.js";
import { rates } from "./rates.js";
import { simplex } from "./simplex.js";
import { smooth } from "./smooth.js";
import { worth } from "./worth.js";

export type Widget = (place: HTMLElement) => void;

export const WIDGETS: Readonly<Record<string, Widget>> = {
  doorbell,
  evasion,
  "one-crowd": oneCrowd,
  "many-crowds": manyCrowds,
  attacker,
  "long-run": longRun,
  guessers,
  "one-hot": oneHot,
  simplex,
  worth,
  density,
  rates,
  lanes,
  growth,
  constants,
  smooth,
  means,
  enumeration,
  breaking,
  measuring,
  planning,
  quiz,
};
