// What happened lately, and what happens now.

import { get } from "./api.js";
import { fill, h, say } from "./element.js";
import { house } from "./live.js";
import { go, link, message_link } from "./route.js";
import { when } from "./time.js";
import { happened, instant, span, time_of_day, exactly } from "./words.js";

const KINDS = ["released", "cancelled", "buried", "rescheduled", "revived"];
const ROWS_MAX = 200;

/** Whether an event passes; `cancelled` is both kinds of that. */
const passes = (event, { destination, what }) =>
  (!destination || event.destination === destination) && (!what || event.what.startsWith(what));

/** The whole view. */
export function show(main, fields, signal) {
  const change = (name) => (event) => go(link("history", { ...fields, [name]: event.target.value }));
  const choice = (name, label, options) => h("div", { class: "field" }, h("label", { for: `history-${name}` }, label),
    h("select", { id: `history-${name}`, onchange: change(name) }, h("option", { value: "" }, "any"), options.map((it) => h("option", { value: it, selected: fields[name] === it }, it))));
  const names = [...new Set([...house.destinations().map((it) => it.destination), ...(fields.destination ? [fields.destination] : [])])];
  const hold = h("button", { type: "button", "aria-pressed": "false" }, "Hold still");
  main.append(
    h("div", { class: "title" }, h("h1", {}, "History")),
    h("section", { class: "card" },
      h("div", { class: "filter" }, choice("destination", "Destination", names), choice("what", "What happened", KINDS), h("span", { class: "grow" }), hold),
      feed(fields, ROWS_MAX, signal, hold)));
}

/** The newest events on top, live. `hold` is a button that keeps them where they are. */
export function feed(fields, most, signal, hold = null) {
  const body = h("tbody");
  const empty = h("p", { class: "empty" }, "Nothing has happened yet. This is what this replica did since it started.");
  const missed = h("p", { class: "aside missed" });
  const state = { events: [], held: [], holding: false, lost: 0 };
  const paint = () => {
    fill(body, state.events.map(row));
    empty.hidden = state.events.length > 0;
    say(missed, state.lost ? `${state.lost} more were too fast to be shown.` : "");
  };
  const add = (events) => {
    state.events = [...events.toReversed(), ...state.events].slice(0, most);
  };
  get("/v1/history", { ...fields, limit: most }, signal).then(({ events }) => {
    const known = new Set(state.events.map(key_of));
    state.events = [...state.events, ...events.filter((event) => !known.has(key_of(event)))].slice(0, most);
    paint();
  }).catch((error) => {
    if (error.name !== "AbortError") say(empty, error.message);
  });
  house.addEventListener("events", ({ events, missed: lost }) => {
    state.lost += lost;
    const wanted = events.filter((event) => passes(event, fields));
    if (state.holding) {
      state.held = [...state.held, ...wanted].slice(-most);
      say(hold, `Go on (${state.held.length} new)`);
      return;
    }
    if (wanted.length === 0 && !lost) return;
    add(wanted);
    paint();
  }, { signal });
  hold?.addEventListener("click", () => {
    state.holding = !state.holding;
    hold.setAttribute("aria-pressed", String(state.holding));
    say(hold, state.holding ? "Go on" : "Hold still");
    if (state.holding) return;
    add(state.held);
    state.held = [];
    paint();
  }, { signal });
  return h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Events" }, h("table", { class: "cards events" },
    h("thead", {}, h("tr", {}, ["When", "What", "Message", "Destination", "More"].map((text) => h("th", { scope: "col" }, text)))), body)), empty, missed);
}

const key_of = (event) => `${event.at} ${event.what} ${event.uid ?? event.id}`;

function row(event) {
  const name = event.id ?? event.uid ?? "–";
  const stays = ["buried", "rescheduled", "revived"].includes(event.what);
  const label = event.id ? name : h("span", { class: "mono" }, name);
  return h("tr", { "data-key": key_of(event) },
    h("td", { "data-label": "When" }, when(event.at)),
    h("td", { "data-label": "What" }, h("span", { class: "chip", "data-what": event.what }, happened(event.what))),
    h("td", { "data-label": "Message", class: "name" }, stays && event.uid ? h("a", { href: message_link(event.uid) }, label) : label),
    h("td", { "data-label": "Destination" }, event.destination),
    h("td", { "data-label": "More", class: "reason" }, more(event)));
}

function more(event) {
  if (event.lateness_ms !== undefined) return h("span", { class: event.lateness_ms > 1_000 ? "over" : "aside", title: `due at ${exactly(event.due)}` }, `${span(event.lateness_ms)} late`);
  if (event.what === "rescheduled") return event.due > event.at ? `due ${instant(event.due, house.now())}` : "due at once";
  return event.reason ?? "";
}
