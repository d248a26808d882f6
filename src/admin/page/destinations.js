// All destinations at a glance; each can be paused and resumed.

import { query, send } from "./api.js";
import { ask } from "./dialog.js";
import { fill, h } from "./element.js";
import { house, on_stats, refresh } from "./live.js";
import { complain, tell } from "./notice.js";
import { link } from "./route.js";
import { away } from "./time.js";
import { count } from "./words.js";

/** The table. */
export function destinations(signal) {
  const body = h("tbody");
  on_stats(() => fill(body, rows()), signal);
  const heads = [["Destination"], ["Parked", "number"], ["Overdue", "number"], ["Releasing", "number"], ["Dead", "number"],
    ["Next due"], ["Captured", "number", "since this xdelay started"], ["Released", "number", "since this xdelay started"], [""]];
  return h("section", { class: "card", "aria-labelledby": "destinations-title" },
    h("div", { class: "card-head" }, h("h2", { id: "destinations-title" }, "Destinations")),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of destinations" },
      h("table", { class: "cards sites" },
        h("thead", {}, h("tr", {}, heads.map(([text, kind, title]) =>
          text ? h("th", { scope: "col", class: kind, title }, text) : h("td")))), body)));
}

function rows() {
  const all = house.destinations();
  if (all.length === 0) return [h("tr", {}, h("td", { colspan: 9, class: "empty" }, "There are no destinations yet. Name some in the configuration: amqp.exchanges."))];
  return all.map(row);
}

function row(it) {
  const where = { destination: it.destination, broker: two_of(it) ? it.broker : null };
  const amount = (label, number, fields, kind) => h("td", { class: number === 0 ? "number none" : kind ? `number ${kind}` : "number", "data-label": label },
    number && fields ? h("a", { href: link("messages", { ...where, ...fields }) }, count(number)) : count(number));
  const due = it.next_due === null ? h("span", { class: "aside" }, "nothing parked") : away(it.next_due);
  return h("tr", { "data-key": `${it.broker}/${it.destination}` },
    h("th", { scope: "row" },
      h("a", { href: link("messages", where) }, it.destination), h("span", { class: "broker" }, it.broker),
      it.paused ? h("span", { class: "chip warn" }, "paused") : null,
      it.configured ? null : h("span", { class: "chip", title: "What is parked still goes out; nothing new comes in" }, "not configured any more")),
    amount("Parked", it.parked, {}),
    amount("Overdue", it.overdue, { due_to: Math.floor(house.now() / 1_000) * 1_000 }, it.paused ? "warn" : "over"),
    amount("Releasing", it.leased, { state: "leased" }),
    amount("Dead", it.dead, { state: "dead" }, "over"),
    h("td", { "data-label": it.overdue ? "Oldest due" : "Next due", class: `due-cell ${it.overdue ? (it.paused ? "warn" : "over") : ""}` }, due),
    amount("Captured", it.captured), amount("Released", it.released),
    h("td", { class: "act" }, house.may_write() ? switcher(it) : null));
}

const two_of = (it) => house.destinations().filter((other) => other.destination === it.destination).length > 1;

function switcher(it) {
  const { destination, broker, paused } = it;
  return h("button", { type: "button", "data-key": paused ? "resume" : "pause", "aria-label": `${paused ? "Resume" : "Pause"} ${destination}`,
    onclick: () => (paused ? resume(destination, broker) : pause(destination, broker)) }, paused ? "Resume" : "Pause");
}

const path = (destination, broker, step) => `/v1/destinations/${encodeURIComponent(destination)}/${step}${query({ broker })}`;

function pause(destination, broker) {
  ask(`Pause ${destination}?`, {
    parts: [h("p", {}, "What becomes due for it waits, on every replica, until somebody resumes it. What is captured is parked as ever.")],
    verb: `Pause ${destination}`,
    danger: true,
    act: async () => {
      await send("POST", path(destination, broker, "pause"));
      tell(`${destination} is paused.`);
      refresh();
    },
  });
}

async function resume(destination, broker) {
  try {
    await send("POST", path(destination, broker, "resume"));
    tell(`${destination} is released again; what is overdue goes out now.`);
    refresh();
  } catch (error) {
    complain(error);
  }
}
