// Puts the page together: which view is shown, who may see it, light or dark.

import { refused, token, wants_token } from "./api.js";
import { start as start_banner } from "./banner.js";
import { at, h } from "./element.js";
import { house, start, stop } from "./live.js";
import { show as show_history } from "./history.js";
import { show as show_message } from "./message.js";
import { show as show_messages } from "./messages.js";
import { show as show_overview } from "./overview.js";
import { park } from "./park.js";
import { here } from "./route.js";
import { ask_for_token, show_forget } from "./token.js";

let shown = null;
let before = "";

/** Shows what the address says, and ends what was shown before. */
function route() {
  shown?.abort();
  shown = new AbortController();
  const { signal } = shown;
  const main = at("main");
  const { view, name, fields } = here();
  const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
  main.replaceChildren();
  main.dataset.view = view;
  const current = view === "messages" && fields.state === "dead" ? "dead" : view === "message" ? "messages" : view;
  for (const link of at("views").children) {
    if (link.dataset.view === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!house.stats) return main.append(h("p", { class: "empty" }, "Looking…"));
  if (view === "overview") show_overview(main, fields, signal);
  else if (view === "messages") show_messages(main, fields, signal);
  else if (view === "message") show_message(main, name, signal);
  else if (view === "history") show_history(main, fields, signal);
  else main.append(h("div", { class: "card lonely" }, h("h1", {}, "Nothing here"), h("p", {}, "This page has no such view. ", h("a", { href: "#/" }, "To the overview"))));
  if (view === "messages") sessionStorage.setItem("xdelay.list", location.hash);
  // A new view is read from its beginning; a new filter leaves the focus in its field.
  if (before && before !== view) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  if (before === view && focused) at(focused)?.focus();
  before = view;
}

function locked() {
  at("main").replaceChildren(h("div", { class: "card lonely" }, h("h1", {}, "Locked"), h("p", {}, "This xdelay shows what it holds to those who have a token."),
    h("button", { type: "button", class: "primary", onclick: () => ask_for_token(entered) }, "Enter a token")));
}

function need_token(why) {
  locked();
  ask_for_token(entered, why);
}

function entered() {
  route();
}

at("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("xdelay.theme", root.dataset.theme);
  } catch {
    // It holds for this page then.
  }
  document.dispatchEvent(new Event("theme"));
});
at("park").addEventListener("click", park);
at("forget").addEventListener("click", () => {
  token.forget();
  stop();
  location.reload();
});
at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("main").focus();
});
addEventListener("hashchange", route);
refused.addEventListener("token", () => {
  const had = token.get() !== null;
  token.forget();
  need_token(had ? "The token it had is not known any more." : "");
});
house.addEventListener("stats", route, { once: true });

start_banner();
show_forget();
route();
if (await wants_token()) need_token("");
else start();
