// Times on the page that keep saying how far away they are.

import { h, say } from "./element.js";
import { house } from "./live.js";
import { exactly, from_now, instant } from "./words.js";

/** How far away an instant is, kept up to date. */
export function away(at) {
  return h("time", { "data-at": at, title: exactly(at) }, from_now(at, house.now()));
}

/** An instant on the clock, with the whole of it in its title. */
export function when(at) {
  return h("time", { title: exactly(at) }, instant(at, house.now()));
}

setInterval(() => {
  if (document.hidden) return;
  const now = house.now();
  for (const time of document.querySelectorAll("time[data-at]")) say(time, from_now(Number(time.dataset.at), now));
}, 1_000);
