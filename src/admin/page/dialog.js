// Questions that are asked before something is done.

import { at, h, icon } from "./element.js";
import { sentence } from "./words.js";

/**
 * Opens a dialog with these parts and an empty foot, and gives it with `close`. Escape closes it,
 * and the focus goes back to where it was, or to the beginning of the view.
 */
export function open(title, { parts = [], wide = false } = {}) {
  const name = `dialog-${Math.random().toString(36).slice(2)}`;
  const close = h("button", { type: "button", class: "quiet square", "aria-label": "Close" }, icon("close"));
  const foot = h("div", { class: "foot-of-dialog" });
  const body = h("div", { class: "body-of-dialog" }, ...parts);
  const form = h("form", { novalidate: true },
    h("header", {}, h("h2", { id: name }, title), close), body, foot);
  const dialog = h("dialog", { "aria-labelledby": name, class: wide ? "wide" : null }, form);
  const gone = new AbortController();
  const end = () => dialog.close();
  const before = document.activeElement;
  close.addEventListener("click", end);
  dialog.addEventListener("close", () => {
    gone.abort();
    dialog.remove();
    // What was pressed may be gone with what was done.
    if (!before?.isConnected) at("main").focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
  return { dialog, form, body, foot, close: end, signal: gone.signal };
}

/**
 * Asks, and does. `act` is called with the signal of the dialog; what it throws is shown in the
 * dialog, which stays open for another try.
 */
export function ask(title, { parts = [], verb, danger = false, wide = false, act }) {
  const opened = open(title, { parts, wide });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const doing = h("button", { type: "submit", class: danger ? "danger" : "primary" }, verb);
  const leave = h("button", { type: "button", onclick: opened.close }, "Leave it");
  opened.body.append(trouble);
  opened.foot.append(leave, doing);
  (opened.body.querySelector("input, select, textarea") ?? (danger ? leave : doing)).focus();
  opened.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    doing.disabled = true;
    trouble.textContent = "";
    try {
      await act(opened.signal);
      opened.close();
    } catch (error) {
      if (error.name !== "AbortError") trouble.textContent = sentence(error.message);
    }
    doing.disabled = false;
  });
  return opened;
}

/** A labelled field. */
export function field(label, input, hint = null) {
  const id = input.id || `field-${Math.random().toString(36).slice(2)}`;
  input.id = id;
  const about = hint ? h("small", { id: `${id}-hint` }, hint) : null;
  if (about) input.setAttribute("aria-describedby", about.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, about);
}
