// All at a glance: what waits, how late it goes out, where it goes, what happens now.

import { backlog } from "./backlog.js";
import { destinations } from "./destinations.js";
import { h } from "./element.js";
import { feed } from "./history.js";
import { minutes } from "./minutes.js";
import { go, link } from "./route.js";
import { SPANS } from "./spans.js";

const LATEST = 8;

/** The whole view. */
export function show(main, fields, signal) {
  const chosen = fields.span in SPANS ? fields.span : "day";
  main.append(
    h("h1", { class: "hidden" }, "Overview"),
    backlog(chosen, (span) => go(link("overview", { span: span === "day" ? "" : span })), signal),
    h("div", { class: "halves" }, ...minutes(signal)),
    destinations(signal),
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Just now"), h("a", { href: "#/history" }, "All history")), feed({}, LATEST, signal)));
}
