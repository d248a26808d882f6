// What can be done with a message, one by one: asked first where it destroys, answered in words.

import { message_path, query, send } from "./api.js";
import { ask, field } from "./dialog.js";
import { due_fields } from "./due.js";
import { h } from "./element.js";
import { refresh } from "./live.js";
import { tell } from "./notice.js";
import { exactly, messages, result } from "./words.js";

/** Each step: its verb, how it is said of many, and the states of a message that it is for. */
export const STEPS = {
  release: { verb: "Release now", many: (number) => `Release ${messages(number)} now`, of: ["parked"], kind: "primary" },
  reschedule: { verb: "Reschedule", many: (number) => `Reschedule ${messages(number)}`, of: ["parked"] },
  revive: { verb: "Revive", many: (number) => `Revive ${messages(number)}`, of: ["dead"], kind: "primary" },
  bury: { verb: "Bury", many: (number) => `Bury ${messages(number)}`, of: ["parked"] },
  cancel: { verb: "Cancel", many: (number) => `Cancel ${messages(number)}`, of: ["parked", "leased", "dead"], kind: "danger" },
};

/** The steps that a state allows. */
export const steps_of = (state) => Object.keys(STEPS).filter((name) => STEPS[name].of.includes(state));

/** How a message is called: by its producer, else by xdelay. */
export const called = (message) => message.id ?? message.uid;

/** Asks, takes the step, says what came of it, and then calls `done`. */
export function step(name, message, done) {
  const { verb, danger = false, parts, body } = QUESTIONS[name](message);
  ask(`${STEPS[name].verb}: ${called(message)}`, {
    parts,
    verb,
    danger,
    act: async (signal) => {
      const where = { destination: null, broker: message.broker };
      const method = name === "cancel" ? "DELETE" : "POST";
      const path = message_path(message.uid, name === "cancel" ? null : name) + query(where);
      const answer = await send(method, path, body?.(), signal);
      const due = answer.due && name !== "release" ? `, due at ${exactly(answer.due).slice(0, 19)}` : "";
      const words = name === "release" ? "due now: it goes out at once" : result(answer.result);
      tell(`${called(message)}: ${words}${due}.`);
      refresh();
      done?.(answer, name);
    },
  });
}

const p = (...words) => h("p", {}, ...words);

const QUESTIONS = {
  release: (message) => ({
    verb: "Release it now",
    parts: [p("It becomes due at once and is published to ", h("b", {}, message.destination), ".")],
  }),
  reschedule: (message) => {
    const due = due_fields({ at: message.due });
    return { verb: "Reschedule it", parts: [due.fields], body: due.read };
  },
  revive: () => {
    const due = due_fields({ own: true });
    return {
      verb: "Revive it",
      parts: [p("It is parked again, with its attempts at zero. If what it died of still stands, it will die of it again."), due.fields],
      body: due.read,
    };
  },
  bury: () => {
    const reason = reason_field();
    return {
      verb: "Bury it",
      danger: true,
      parts: [p("It is kept as dead and not delivered, until somebody revives it."), reason.field],
      body: reason.read,
    };
  },
  cancel: (message) => ({ verb: "Cancel it", danger: true, parts: [p(END_OF[message.state])] }),
};

const END_OF = {
  parked: "It is ended and will not be delivered. This cannot be undone.",
  leased: "A replica is releasing it right now: it is ended, but it may be delivered all the same. This cannot be undone.",
  dead: "It is thrown away for good. This cannot be undone.",
};

/** Asks why something is buried. */
export function reason_field() {
  const input = h("input", { type: "text", maxlength: 200, autocomplete: "off" });
  return {
    field: field("Reason", input, "For whoever finds it among the dead."),
    read: () => (input.value.trim() ? { reason: input.value.trim() } : {}),
  };
}
