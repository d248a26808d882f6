// The fields above the list: which messages are meant.

import { h } from "./element.js";
import { for_input, from_input } from "./due.js";
import { house } from "./live.js";
import { range_of } from "./spans.js";

const STATES = ["parked", "leased", "dead"];
/** What of the address is a filter. */
const NAMES = ["destination", "broker", "state", "id", "key", "due_from", "due_to"];

/** The filter in an address: only what it knows, numbers as numbers. */
export function filter_of(fields) {
  const filter = {};
  for (const name of NAMES) if (fields[name]) filter[name] = fields[name];
  for (const name of ["due_from", "due_to"]) if (filter[name]) filter[name] = Number(filter[name]);
  return filter;
}

/** The filter as a sentence. */
export function in_words(filter) {
  const { destination, broker, state = "parked", id, key, due_from, due_to } = filter;
  const parts = [state, destination ? `for ${destination}${broker ? ` (${broker})` : ""}` : "for any destination"];
  if (id) parts.push(`with an id that begins with “${id}”`);
  if (key) parts.push(`with the key “${key}”`);
  if (due_from || due_to) parts.push(`due ${range_of(due_from, due_to, house.now())}`);
  return parts.join(", ");
}

/** The form; `change` gets the new filter. */
export function filter_form(filter, change) {
  const state = filter.state ?? "parked";
  const input = (name, type, more = {}) => h("input", { id: `filter-${name}`, name, type, autocomplete: "off", spellcheck: "false", ...more });
  const destination = h("select", { id: "filter-destination", name: "destination" }, options(filter));
  const states = h("fieldset", { class: "tabs" }, h("legend", { class: "hidden" }, "State"), ...STATES.map((name) =>
    h("label", {}, h("input", { type: "radio", id: `state-${name}`, name: "state", value: name, checked: name === state }), h("span", {}, name))));
  const id = input("id", "text", { value: filter.id ?? "", placeholder: "any" });
  const key = input("key", "text", { value: filter.key ?? "", placeholder: "any" });
  const moment = (name) => input(name, "datetime-local", { step: 1, value: filter[name] ? for_input(filter[name]) : "" });
  const [from, to] = [moment("due_from"), moment("due_to")];
  const labelled = (label, field, kind = "field") => h("div", { class: kind }, h("label", { for: field.id }, label), field);
  const clear = h("button", { type: "button", class: "quiet", hidden: NAMES.every((it) => it === "state" || filter[it] === undefined),
    onclick: () => change({ state: filter.state }) }, "Clear");

  const read = () => {
    const [name, broker] = destination.value.split("\n");
    const chosen = form.querySelector("input[name=state]:checked").value;
    const at = (field, name) => (field.value === (filter[name] ? for_input(filter[name]) : "") ? filter[name] : from_input(field.value));
    return filter_of({ destination: name, broker, state: chosen === "parked" ? "" : chosen, id: id.value, key: key.value, due_from: at(from, "due_from"), due_to: at(to, "due_to") });
  };
  const some = NAMES.some((it) => it !== "state" && filter[it] !== undefined);
  const more = h("button", { type: "button", class: "more", "aria-expanded": String(some) }, "Filter");
  const form = h("form", { class: "filter", "aria-label": "Filter", "data-folded": !some }, states, more,
    labelled("Destination", destination), labelled("Id begins with", id), labelled("Key", key), labelled("Due from", from, "field wide"), labelled("Due before", to, "field wide"),
    h("div", { class: "field last" }, h("button", { type: "submit", class: "hidden" }, "Apply"), clear));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change(read());
  });
  form.addEventListener("change", () => change(read()));
  more.addEventListener("click", () => more.setAttribute("aria-expanded", String(!form.toggleAttribute("data-folded"))));
  return form;
}

/** Where two brokers have a destination of the same name, the choice says which. */
function options(filter) {
  const all = house.destinations();
  const twice = (name) => all.filter((it) => it.destination === name).length > 1;
  const known = all.map((it) => (twice(it.destination) ? [it.destination, it.broker] : [it.destination, ""]));
  const wanted = [filter.destination ?? "", filter.broker ?? ""];
  if (wanted[0] && !known.some(([name, broker]) => name === wanted[0] && broker === wanted[1])) known.push(wanted);
  return [h("option", { value: "" }, "any"), ...known.map(([name, broker]) =>
    h("option", { value: broker ? `${name}\n${broker}` : name, selected: name === wanted[0] && broker === wanted[1] }, broker ? `${name} (${broker})` : name))];
}
