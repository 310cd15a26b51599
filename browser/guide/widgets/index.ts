// All widgets by the names that the prose uses: <div data-widget="name"></div>.

import { breaking } from "./breaking.js";
import { doorbell } from "./doorbell.js";
import { measuring } from "./measuring.js";
import { planning } from "./planning.js";

export type Widget = (place: HTMLElement) => void;

export const WIDGETS: Readonly<Record<string, Widget>> = {
  doorbell,
  breaking,
  measuring,
  planning,
};
