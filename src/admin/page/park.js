// A form to park a message without any client of a broker.

import { send } from "./api.js";
import { ask, field } from "./dialog.js";
import { due_fields } from "./due.js";
import { h } from "./element.js";
import { house, refresh } from "./live.js";
import { tell } from "./notice.js";
import { message_link } from "./route.js";
import { exactly, result } from "./words.js";

/** Opens it. */
export function park() {
  const open_to = house.destinations().filter((it) => it.configured);
  const destination = h("select", {}, open_to.map((it) => h("option", { value: `${it.destination}\n${it.broker}` }, `${it.destination} (${it.broker})`)));
  const text = (more = {}) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...more });
  const key = text();
  const id = text({ maxlength: 255 });
  const kind = text({ value: "application/json" });
  const body = h("textarea", { rows: 5, spellcheck: "false", class: "mono" });
  const headers = h("textarea", { rows: 3, spellcheck: "false", class: "mono", placeholder: '{"source": "console"}' });
  const properties = h("textarea", { rows: 3, spellcheck: "false", class: "mono", placeholder: '{"priority": 5}' });
  const due = due_fields();
  const amqp = () => destination.value.endsWith("\namqp");
  const type = field("Content type", kind);
  const tell_kind = () => { type.hidden = !amqp(); };
  destination.addEventListener("change", tell_kind);
  tell_kind();

  ask("Park a message", {
    wide: true,
    parts: [
      h("div", { class: "pair" }, field("Destination", destination), field("Routing key or record key", key)),
      due.fields,
      field("Body", body),
      h("div", { class: "pair" }, field("Its own id", id, "Optional. A parked message with the same id is replaced."), type),
      h("details", {}, h("summary", {}, "Headers and properties"), field("Headers", headers, "A JSON object."), field("Properties", properties, "A JSON object, by their names in the protocol.")),
    ],
    verb: "Park it",
    act: async (signal) => {
      const [name, broker] = destination.value.split("\n");
      if (!name) throw new Error("No destination is configured.");
      const given = { ...(amqp() && kind.value.trim() ? { content_type: kind.value.trim() } : {}), ...object(properties, "Properties") };
      const sketch = { destination: name, broker, key: key.value, body: body.value, headers: object(headers, "Headers"), properties: given, ...due.read() };
      if (id.value) sketch.id = id.value;
      const parked = await send("POST", "/v1/messages", sketch, signal);
      const words = parked.result === "parked" ? "Parked" : `It is ${result(parked.result)}`;
      tell(`${words}, due at ${exactly(parked.due).slice(0, 19)}.`, { href: message_link(parked.uid), text: "Show it" });
      refresh();
    },
  });
}

function object(area, name) {
  if (!area.value.trim()) return {};
  let read = null;
  try {
    read = JSON.parse(area.value);
  } catch (error) {
    throw new Error(`${name}: ${error.message}`);
  }
  if (read === null || typeof read !== "object" || Array.isArray(read)) throw new Error(`${name}: a JSON object, such as {"source": "console"}`);
  return read;
}
