// Asks when something is to be due: in so long, or at an instant.

import { h, say } from "./element.js";
import { house } from "./live.js";
import { exactly, in_utc, span, zone } from "./words.js";

const UNITS = [["seconds", 1_000], ["minutes", 60_000], ["hours", 3_600_000], ["days", 86_400_000]];

/** An instant as the field for dates and times wants it. */
export function for_input(at) {
  const local = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

/** The instant that such a field holds, or `null`. */
export function from_input(text) {
  const at = new Date(text).getTime();
  return Number.isNaN(at) ? null : at;
}

/**
 * The fields, and `read()` that gives `{ delay_ms }` or `{ deliver_at }`, or throws what is wrong.
 * With `own` there is a third way: to keep the due it has.
 */
export function due_fields({ own = false, at = null } = {}) {
  const amount = h("input", { type: "number", min: 0, step: "any", value: "10", inputmode: "decimal", "aria-label": "How long" });
  const unit = h("select", { "aria-label": "Unit" }, UNITS.map(([name, ms]) => h("option", { value: ms, selected: ms === 60_000 }, name)));
  const moment = h("input", { type: "datetime-local", step: 1, "aria-label": "Date and time", value: for_input(at ?? house.now() + 3_600_000) });
  const told = h("p", { class: "told", "aria-live": "polite" });
  const name = `due-${Math.random().toString(36).slice(2)}`;
  const way = (value, label, ...inputs) => h("div", { class: "way" },
    h("label", {}, h("input", { type: "radio", name, value, checked: value === (own ? "own" : "in") }), label), ...inputs);
  const ways = [
    own ? way("own", "keep the due it has") : null,
    way("in", "in", h("span", { class: "joined" }, amount, unit)),
    way("at", "at", moment),
  ];
  const fields = h("fieldset", { class: "due" }, h("legend", {}, "Due"), ...ways.filter(Boolean), told);
  const chosen = () => fields.querySelector(`input[name="${name}"]:checked`).value;
  const choose = (value) => () => { fields.querySelector(`input[value="${value}"]`).checked = true; };
  for (const input of [amount, unit]) input.addEventListener("focus", choose("in"));
  moment.addEventListener("focus", choose("at"));

  const read = () => {
    if (chosen() === "own") return {};
    if (chosen() === "in") {
      const ms = Math.ceil(Number(amount.value) * Number(unit.value));
      if (amount.value === "" || !Number.isSafeInteger(ms) || ms < 0) throw new Error("Say how long: a number, 0 or more.");
      return { delay_ms: ms };
    }
    const deliver_at = from_input(moment.value);
    if (deliver_at === null) throw new Error("Say when: a date and a time.");
    return { deliver_at };
  };

  const tell = () => {
    try {
      const { delay_ms, deliver_at } = read();
      if (delay_ms === undefined && deliver_at === undefined) return say(told, "What is overdue by then is released at once.");
      const due = deliver_at ?? house.now() + delay_ms;
      if (due <= house.now()) return say(told, "That is now: it is released at once.");
      const utc = zone(due) === "UTC" ? "UTC" : `(${in_utc(due).slice(11, 19)} UTC)`;
      say(told, `That is in ${span(Math.ceil((due - house.now()) / 1_000) * 1_000)}, at ${exactly(due).slice(0, 19)} ${utc}.`);
    } catch (error) {
      say(told, error.message);
    }
  };
  fields.addEventListener("input", tell);
  fields.addEventListener("focusin", tell);
  tell();
  return { fields, read };
}
