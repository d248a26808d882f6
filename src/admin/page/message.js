// One message with all its facts, and what can be done with it.

import { get, message_path } from "./api.js";
import { indented } from "./body.js";
import { fill, h, icon } from "./element.js";
import { house } from "./live.js";
import { tell } from "./notice.js";
import { STEPS, called, step, steps_of } from "./steps.js";
import { away } from "./time.js";
import { exactly, happened, in_utc, sentence, size, span, zone } from "./words.js";

const WHAT_AT_IS = { parked: "Tried next", leased: "Lease ends", dead: "Buried" };
const ENDS = ["released", "cancelled", "cancelled_possibly_delivered"];

/** Shows it. */
export function show(main, uid, signal) {
  const card = h("div", { class: "whole" }, h("p", { class: "empty" }, "Looking…"));
  main.append(h("p", { class: "back" }, h("a", { href: "#/messages", onclick: back }, icon("back"), "Messages")), card);
  const state = { message: null, ended: null };
  const paint = () => fill(card, ...page(state, after));
  const load = async () => {
    try {
      state.message = await get(message_path(uid), {}, signal);
      state.ended = null;
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401) return;
      if (!state.message) return fill(card, h("div", { class: "card lonely" }, h("h1", {}, "Not here"), h("p", {}, sentence(error.message)), h("p", { class: "mono aside" }, uid)));
      state.ended ??= { what: error.status === 410 ? "released" : "gone", words: error.message };
    }
    paint();
  };
  // What was ended is not asked for again; whether it was released, an event will tell.
  const after = (answer, name) => {
    if (!ENDS.includes(answer.result)) return name === "release" ? null : load();
    state.ended = { what: answer.result, at: house.now() };
    paint();
  };
  load();
  house.addEventListener("events", ({ events }) => {
    const ours = events.filter((event) => event.uid === uid);
    const end = ours.findLast((event) => ENDS.includes(event.what));
    if (end && state.message) {
      state.ended = end;
      state.message.due = end.due ?? state.message.due;
      paint();
    } else if (ours.length) {
      load();
    }
  }, { signal });
}

/** Back to the list one came from, with its filter. */
function back(event) {
  if (history.length > 1 && sessionStorage.getItem("xdelay.list") !== null) {
    event.preventDefault();
    location.hash = sessionStorage.getItem("xdelay.list");
  }
}

function page(known, after) {
  const { message, ended } = known;
  const state = ended ? "ended" : message.state;
  const word = ended ? happened(ended.what) : message.state;
  const steps = ended || !house.may_write() ? [] : steps_of(message.state);
  const buttons = steps.map((name) => h("button", { type: "button", "data-key": name, class: name === "cancel" ? "danger-quiet" : STEPS[name].kind,
    onclick: () => step(name, known.message, after) }, STEPS[name].verb));
  return [
    h("div", { class: "title" }, h("h1", { class: message.id ? null : "mono" }, called(message)), h("span", { class: "chip state", "data-state": state }, word), h("span", { class: "grow" }), h("div", { class: "steps" }, ...buttons)),
    ended ? h("p", { class: "ended", role: "status" }, ending(ended)) : null,
    message.reason ? h("p", { class: "ended", "data-kind": "bad" }, h("b", {}, "Why it is dead: "), message.reason) : null,
    message.fault ? h("p", { class: "ended", "data-kind": "bad" }, h("b", {}, "It cannot be read here: "), message.fault) : null,
    h("div", { class: "columns" }, facts(message), content(message)),
  ];
}

function ending(ended) {
  if (ended.words) return sentence(ended.words);
  const late = ended.lateness_ms === undefined ? "" : `, ${span(ended.lateness_ms)} after its due`;
  return `It was ${happened(ended.what)} at ${exactly(ended.at)}${late}. What is shown here is what it was.`;
}

function facts(message) {
  const moment = (at) => [h("span", {}, exactly(at)), h("span", { class: "aside" }, ` · `), h("span", { class: "aside" }, away(at)), zone(at) === "UTC" ? null : h("span", { class: "under aside" }, in_utc(at))];
  const rows = [
    ["Due", moment(message.due)],
    message.at === message.due ? null : [WHAT_AT_IS[message.state], moment(message.at)],
    ["Delay asked for", message.delay_ms === null ? "none" : span(message.delay_ms)],
    ["Destination", [message.destination, h("span", { class: "broker" }, message.broker)]],
    ["Key", message.key || h("span", { class: "aside" }, message.key === null ? "unknown" : "empty")],
    ["Producer’s id", message.id ? copied(message.id) : h("span", { class: "aside" }, "none")],
    ["uid", copied(message.uid)],
    ["Failed tries", String(message.attempts)],
    ["Size in the store", size(message.bytes)],
  ];
  return h("section", { class: "card" }, h("h2", {}, "Facts"), h("dl", { class: "facts" }, rows.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

function copied(text) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell("Copied.");
    } catch {
      tell("The browser does not let this page copy; select the text instead.");
    }
  };
  return [h("span", { class: "mono" }, text), h("button", { type: "button", class: "quiet square small", "aria-label": "Copy", onclick: copy }, icon("copy"))];
}

function content(message) {
  const { content: what } = message;
  if (!what) return h("section", { class: "card" }, h("h2", {}, "Content"), h("p", { class: "empty" }, "It cannot be shown."));
  return h("div", { class: "stack" }, body(what.body), pairs("Headers", what.headers), pairs("Properties", what.properties));
}

function body({ bytes, format, preview, truncated }) {
  const about = h("span", { class: "aside" }, `${format === "hidden" ? "" : `${format} · `}${size(bytes)}${truncated && format !== "hidden" ? " · only its beginning" : ""}`);
  const shown = format === "hidden"
    ? h("p", { class: "empty" }, "Bodies are not shown here: admin.previews is off.")
    : bytes === 0 ? h("p", { class: "empty" }, "It is empty.")
      : h("pre", { tabindex: 0, role: "region", "aria-label": "Body" }, format === "json" ? indented(preview) : format === "hex" ? dump(preview) : preview);
  return h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Body"), about), shown);
}

/** Sixteen bytes a line. */
const dump = (hex) => hex.replace(/(..)/g, "$1 ").replace(/((?:.. ){16})/g, "$1\n").trimEnd();

function pairs(title, all) {
  const names = Object.keys(all);
  const text = (value) => (typeof value === "string" ? value : indented(JSON.stringify(value)));
  return h("section", { class: "card" }, h("h2", {}, title), names.length === 0 ? h("p", { class: "empty" }, "None.")
    : h("table", { class: "pairs" }, h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row", class: "mono" }, name), h("td", { class: "mono" }, text(all[name])))))));
}
