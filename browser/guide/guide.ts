// Mounts the widgets of the page, and shows how far the reader has come.

import { seed } from "./source.js";
import { WIDGETS } from "./widgets/index.js";

for (const place of document.querySelectorAll<HTMLElement>("[data-widget]")) {
  const name = place.dataset["widget"]!;
  const mount = WIDGETS[name];
  if (!mount) throw new Error(`there is no widget ${name}`);
  place.classList.add("widget");
  mount(place);
}

const sections = [...document.querySelectorAll<HTMLElement>(".part")];
const links = [...document.querySelectorAll<HTMLAnchorElement>(".contents a")];
const bar = document.querySelector<HTMLProgressElement>(".progress progress")!;
const words = document.querySelector<HTMLElement>(".progress span")!;
const menu = document.querySelector<HTMLDetailsElement>(".contents details")!;
const narrow = matchMedia("(max-width: 63.99rem)");

/** Marks the part that the reader sees, and the share of all parts above it. */
function progress(): void {
  const line = innerHeight / 3;
  const below = sections.findIndex((section) => section.getBoundingClientRect().top > line);
  const current = (below < 0 ? sections.length : below) - 1;
  links.forEach((link, at) => {
    if (at === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  const area = document.querySelector("main")!.getBoundingClientRect();
  bar.value = Math.min(1, Math.max(0, (line - area.top) / (area.height - innerHeight + line)));
  words.textContent = current < 0 ? "" : `Part ${current + 1} of ${sections.length}`;
}

function fold(): void {
  menu.open = !narrow.matches;
}

menu.addEventListener("click", (event) => {
  if (narrow.matches && event.target instanceof HTMLAnchorElement) menu.open = false;
});
narrow.addEventListener("change", fold);
fold();
addEventListener("scroll", progress, { passive: true });
addEventListener("resize", progress);
progress();

// Tests ask for a fixed sequence of random bytes. Nothing on the page does.
Object.assign(window, { guide: { seed } });
