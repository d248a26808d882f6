// Asks for the token where xdelay wants one. It is kept in this tab only.

import { get, token } from "./api.js";
import { at, h } from "./element.js";
import { ask, field } from "./dialog.js";
import { house, start, stop } from "./live.js";

let asking = false;

/** Asks, unless it is asking already. `why` says what was wrong with the last one. */
export function ask_for_token(entered, why = "") {
  if (asking) return;
  asking = true;
  stop();
  house.unlink("token");
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const opened = ask("This xdelay asks for a token", {
    parts: [
      h("p", {}, "It is the content of the file that ", h("code", {}, "admin.token_file"), " names; that of ",
        h("code", {}, "admin.read_token_file"), " lets you look, but change nothing."),
      field("Token", input, "Kept in this tab until you close it, and sent nowhere but to this xdelay."),
      why ? h("p", { class: "trouble" }, why) : null,
    ].filter(Boolean),
    verb: "Enter",
    act: async (signal) => {
      const given = input.value.trim();
      if (!given) throw new Error("Enter the token.");
      if (!/^[\x21-\x7e]+$/.test(given)) throw new Error("That is no token: it is one line of visible ASCII.");
      token.set(given);
      try {
        house.learn(await get("/v1/stats", {}, signal));
      } catch (error) {
        token.forget();
        throw error.status === 401 ? new Error("xdelay does not know this token.") : error;
      }
    },
  });
  opened.dialog.addEventListener("close", () => {
    asking = false;
    show_forget();
    if (token.get()) {
      start();
      entered();
    }
  });
}

/** The button that forgets the token stands where there is one. */
export function show_forget() {
  at("forget").hidden = token.get() === null;
}
