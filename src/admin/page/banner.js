// Says at the top what is not well, and what mends it; and how the page's own connection is.

import { at, fill, h, icon, say } from "./element.js";
import { house, on_stats } from "./live.js";
import { time_of_day, zone } from "./words.js";

const LINKS = { waiting: "connecting", live: "live", late: "reconnecting", lost: "reconnecting", token: "token needed" };
const ENOUGH = 5;

/** Shows it from now on. */
export function start() {
  on_stats(banner);
  on_stats(head);
  house.addEventListener("link", () => {
    head();
    banner();
  });
  setInterval(head, 1_000);
}

function head() {
  at("live").dataset.state = house.link;
  say(at("live-word"), LINKS[house.link] ?? house.link);
  const stats = house.stats;
  if (!stats) return;
  at("read-only").hidden = stats.may_write;
  at("park").hidden = !stats.may_write;
  const dead = stats.destinations.reduce((sum, it) => sum + it.dead, 0);
  at("dead-count").hidden = dead === 0;
  say(at("dead-count"), dead > 999 ? "999+" : String(dead));
  say(at("about"), `xdelay ${stats.version}`);
  const [name, offset] = [Intl.DateTimeFormat().resolvedOptions().timeZone || "local time", zone(house.now())];
  say(at("clock"), `Times are in ${name === offset ? name : `${name} (${offset})`}, by the store’s clock: ${time_of_day(house.now())}`);
  document.title = stats.ready ? "xdelay" : "⚠ xdelay is degraded";
}

function banner() {
  const element = at("banner");
  const parts = house.stats?.parts ?? [];
  const failed = parts.filter((part) => part.state === "FAILED");
  const warned = parts.filter((part) => part.state === "warning");
  const lost = house.link === "lost";
  const bad = [...failed, ...warned];
  element.hidden = !lost && bad.length === 0;
  element.dataset.grade = lost || failed.length ? "bad" : "warning";
  if (element.hidden) return fill(element);
  const title = lost
    ? `No connection to xdelay: ${house.why}${house.stats ? ` What you see is from ${time_of_day(house.stats.now)}.` : ""}`
    : summary(failed.length, warned.length);
  const rows = lost ? [] : bad.map(row);
  const list = rows.length > ENOUGH
    ? [h("ul", {}, rows.slice(0, ENOUGH)), h("details", {}, h("summary", {}, `${rows.length - ENOUGH} more`), h("ul", {}, rows.slice(ENOUGH)))]
    : [h("ul", {}, rows)];
  fill(element, h("div", { class: "banner-in" }, icon("alert"), h("div", {}, h("p", {}, h("strong", {}, title)), ...(rows.length ? list : []))));
}

function summary(failed, warned) {
  const parts = (number, what) => (number ? `${number} ${number === 1 ? "part" : "parts"} ${what}` : null);
  const both = [parts(failed, failed === 1 ? "has failed" : "have failed"), parts(warned, failed ? "with a warning" : warned === 1 ? "has a warning" : "have warnings")];
  return `${failed ? "Degraded: " : ""}${both.filter(Boolean).join(", ")}.`;
}

function row(part) {
  return h("li", { "data-state": part.state, "data-key": part.part },
    h("span", { class: "part" }, part.part), " ", h("span", { class: "detail" }, part.detail));
}
