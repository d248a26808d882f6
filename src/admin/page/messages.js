// The list of messages: found, filtered, gone through page by page, and steered one or many.

import { Problem, get, message_path } from "./api.js";
import { bulk } from "./bulk.js";
import { fill, h, icon, say } from "./element.js";
import { filter_form, filter_of, in_words } from "./filter.js";
import { house } from "./live.js";
import { complain } from "./notice.js";
import { go, link, message_link } from "./route.js";
import { STEPS, step, steps_of } from "./steps.js";
import { away, when } from "./time.js";
import { count, exactly, happened, size, time_of_day } from "./words.js";

const PAGE = 50;
const FRESH_MS = 10_000;

/** Shows the list that `fields` ask for. */
export function show(main, fields, signal) {
  const filter = filter_of(fields);
  const state = { filter, cursor: fields.cursor ?? null, page: null, gone: new Map(), at: 0, signal };
  const parts = {
    bar: h("div", { class: "bulk" }),
    head: h("thead"),
    body: h("tbody"),
    empty: h("p", { class: "empty" }),
    pager: h("nav", { class: "pager", "aria-label": "Pages" }),
  };
  const dead = filter.state === "dead";
  main.append(
    h("div", { class: "title" }, h("h1", {}, dead ? "Dead messages" : "Messages"), search(signal)),
    h("section", { class: "card" }, filter_form(filter, (wanted) => go(link("messages", wanted))), parts.bar,
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Messages" }, h("table", { class: "cards list" }, parts.head, parts.body)), parts.empty, parts.pager));
  const load = () => reload(state, parts);
  parts.reload = load;
  load();
  house.addEventListener("events", ({ events }) => mark(state, parts, events), { signal });
  // What is captured makes no event: a look now and then shows it, unless somebody is at work here.
  house.addEventListener("stats", () => {
    const at_work = parts.body.contains(document.activeElement) || document.querySelector("dialog");
    if (state.cursor === null && !at_work && Date.now() - state.at > FRESH_MS) load();
  }, { signal });
}

async function reload(state, parts) {
  const { filter, cursor, signal } = state;
  state.at = Date.now();
  try {
    state.page = await get("/v1/messages", { ...filter, cursor, limit: PAGE }, signal);
    state.read = house.now();
    state.gone.clear();
    paint(state, parts);
  } catch (error) {
    if (error.name === "AbortError" || error.status === 401) return;
    if (state.page) complain(error);
    else fill(parts.empty, error.message);
  }
}

function paint(state, parts) {
  const { page, filter, gone, cursor } = state;
  const dead = filter.state === "dead";
  const columns = dead
    ? [["Buried"], ["Message"], ["Destination"], ["Key"], ["Reason"], [""]]
    : [["Due"], [""], ["Message"], ["Destination"], ["Key"], ["Size", "number"], ["Tries", "number"]];
  fill(parts.head, h("tr", {}, columns.map(([text, kind]) => (text ? h("th", { scope: "col", class: kind }, text) : h("td")))));
  fill(parts.body, page.messages.map((message) => (dead ? dead_row : row)(message, gone.get(message.uid), parts)));
  const none = page.messages.length === 0;
  parts.empty.hidden = !none;
  if (none) say(parts.empty, page.cursor ? `None among the ${count(page.examined)} that were looked at here; there are more.` : nothing(state));
  fill(parts.bar, tools(state, parts));
  fill(parts.pager, pager(state, page, cursor));
}

function nothing({ filter, cursor }) {
  if (cursor) return "That was all.";
  const plain = Object.keys(filter).every((name) => name === "state");
  if (plain && filter.state === "dead") return "Nothing is dead. All is well.";
  return plain ? `Nothing is ${filter.state ?? "parked"}.` : "Nothing matches.";
}

function tools(state, parts) {
  const { filter, page } = state;
  const about = h("span", { class: "aside" }, `as of ${time_of_day(state.read)}`);
  const fresh = h("button", { type: "button", class: "quiet", "data-keep": "fresh", onclick: () => parts.reload() }, "Refresh");
  if (!house.may_write() || (page.messages.length === 0 && !page.cursor)) return [h("span", { class: "grow" }), about, fresh];
  const buttons = steps_of(filter.state ?? "parked").map((name) =>
    h("button", { type: "button", class: name === "cancel" ? "danger-quiet" : null, "data-key": `bulk-${name}`,
      onclick: () => bulk(name, filter, in_words(filter), () => parts.reload()) }, `${STEPS[name].verb}…`));
  return [h("span", { class: "aside" }, "All that match:"), ...buttons, h("span", { class: "grow" }), about, fresh];
}

function pager({ filter }, page, cursor) {
  const shown = page.messages.length ? `${count(page.messages.length)} shown, ${count(page.examined)} looked at` : "";
  return [
    cursor ? h("a", { class: "button", href: link("messages", filter) }, "First page") : null,
    h("span", { class: "aside" }, shown),
    page.cursor ? h("a", { class: "button", href: link("messages", { ...filter, cursor: page.cursor }) }, page.messages.length ? "Next page" : "Look further") : null,
  ];
}

function name_cell(message) {
  return h("td", { "data-label": "Message", class: "name" },
    h("a", { href: message_link(message.uid) }, message.id ?? h("span", { class: "mono" }, message.uid)),
    message.id ? h("span", { class: "mono under" }, message.uid) : null);
}

const went = (gone) => h("span", { class: "chip", "data-what": gone.what, title: `at ${exactly(gone.at)}` }, happened(gone.what));

function row(message, gone) {
  return h("tr", { "data-key": message.uid, class: gone ? "gone" : null },
    h("td", { "data-label": "Due" }, when(message.due)),
    h("td", { class: "aside fate", "data-label": "" }, gone ? went(gone) : away(message.due)),
    name_cell(message),
    h("td", { "data-label": "Destination" }, message.destination),
    h("td", { "data-label": "Key", class: "clip" }, message.key ?? "–"),
    h("td", { "data-label": "Size", class: "number" }, size(message.bytes)),
    h("td", { "data-label": "Tries", class: message.attempts ? "number over" : "number none" }, String(message.attempts)));
}

function dead_row(message, gone, parts) {
  const act = (name) => h("button", { type: "button", "data-key": name, class: name === "cancel" ? "danger-quiet" : null, "aria-label": `${STEPS[name].verb} ${message.id ?? message.uid}`,
    onclick: () => step(name, message, () => parts.reload()) }, STEPS[name].verb);
  return h("tr", { "data-key": message.uid, class: gone ? "gone" : null },
    h("td", { "data-label": "Buried" }, when(message.at)),
    name_cell(message),
    h("td", { "data-label": "Destination" }, message.destination),
    h("td", { "data-label": "Key", class: "clip" }, message.key ?? "–"),
    h("td", { "data-label": "Reason", class: "reason" }, message.reason ?? message.fault ?? "–"),
    h("td", { class: "act" }, gone ? went(gone) : house.may_write() ? [act("revive"), act("cancel")] : null));
}

/** What has left the list since it was read says so where it stood. */
function mark(state, parts, events) {
  if (!state.page) return;
  const shown = new Map(state.page.messages.map((message) => [message.uid, message]));
  let changed = false;
  for (const event of events) {
    const message = shown.get(event.uid);
    if (!message) continue;
    if (event.what === "rescheduled") message.due = event.due;
    else state.gone.set(event.uid, event);
    changed = true;
  }
  if (changed) paint(state, parts);
}

function search(signal) {
  const input = h("input", { type: "search", id: "search", placeholder: "uid, or the producer’s id", "aria-label": "Find a message by its uid or its producer’s id", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "search", role: "search" }, icon("search"), input, h("button", { type: "submit" }, "Find"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    try {
      go(message_link((await find(text, signal)).uid));
    } catch (error) {
      complain(error);
    }
  });
  return form;
}

/** Uids look alike; everything else is a producer's id, which every destination may have. */
async function find(text, signal) {
  const tries = house.destinations().map(({ destination, broker }) => ({ destination, broker }));
  if (/^[0-9a-f]{32}$/i.test(text) || /.+\/.+/.test(text)) tries.unshift({});
  let told = new Problem(404, "unknown", "There are no destinations.");
  for (const where of tries) {
    try {
      return await get(message_path(text), where, signal);
    } catch (error) {
      if (![400, 404, 410].includes(error.status)) throw error;
      // That it was released says more than that another destination does not know it.
      if (told.status !== 410) told = error;
    }
  }
  throw told;
}
