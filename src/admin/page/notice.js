// Short words about what was done, at the edge of the page; errors stay until they are closed.

import { at, h, icon } from "./element.js";
import { sentence } from "./words.js";

const LASTING_MS = 8_000;
const NOTICES_MAX = 4;

/** Says that something was done; `link` leads to it. */
export function tell(text, link = null) {
  show("good", text, link);
}

/** Says that something went wrong, and what mends it. */
export function complain(error) {
  if (error.name !== "AbortError") show("bad", sentence(error.message ?? String(error)), null);
}

function show(kind, text, link) {
  const close = h("button", { type: "button", class: "quiet square", "aria-label": "Close this notice" }, icon("close"));
  const words = link ? [text, " ", h("a", { href: link.href }, link.text)] : [text];
  const notice = h("div", { class: "notice", "data-kind": kind }, h("p", {}, ...words), close);
  close.addEventListener("click", () => notice.remove());
  const all = at("notices");
  all.append(notice);
  while (all.children.length > NOTICES_MAX) all.firstElementChild.remove();
  if (kind === "good") setTimeout(() => notice.remove(), LASTING_MS);
}
