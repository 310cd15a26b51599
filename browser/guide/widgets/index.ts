// All widgets by the names that the prose uses: <div data-widget="name"></div>.

import { doorbell } from "./doorbell.js";
import { quiz } from "./quiz.js";

export type Widget = (place: HTMLElement) => void;

export const WIDGETS: Readonly<Record<string, Widget>> = {
  doorbell,
  quiz,
};
