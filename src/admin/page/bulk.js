// One step with all messages that match a filter: counted first, confirmed by number, done in
// portions, and stopped whenever one likes.

import { send } from "./api.js";
import { open } from "./dialog.js";
import { due_fields } from "./due.js";
import { fill, h, say } from "./element.js";
import { refresh } from "./live.js";
import { STEPS, reason_field } from "./steps.js";
import { count, messages, result } from "./words.js";

const PORTION = 500;
const DESTROYS = { cancel: true, bury: true };

const ABOUT = {
  release: "They become due at once and are published.",
  reschedule: "All get the same due.",
  revive: "They are parked again, with their attempts at zero.",
  bury: "They are kept as dead and not delivered, until somebody revives them.",
  cancel: "They are ended and will not be delivered. This cannot be undone.",
};

/** Opens the dialog; `told` says the filter in words. */
export function bulk(name, filter, told, done) {
  const { verb, many } = STEPS[name];
  const extra = name === "reschedule" ? due_fields() : name === "revive" ? due_fields({ own: true }) : null;
  const reason = name === "bury" ? reason_field() : null;
  const counted = h("p", { class: "counted", "aria-live": "polite" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const results = h("ul", { class: "results", "aria-live": "polite" });
  const bar = h("progress", { hidden: true, "aria-label": "Progress" });
  const opened = open(`${verb}: all that match`, {
    parts: [h("p", {}, h("span", { class: "aside" }, "Filter: "), told), counted, h("p", {}, ABOUT[name]), extra?.fields, reason?.field, bar, results, trouble].filter(Boolean),
  });
  const doing = h("button", { type: "submit", class: DESTROYS[name] ? "danger" : "primary", disabled: true }, "Counting…");
  const leave = h("button", { type: "button", onclick: opened.close }, "Leave it");
  opened.foot.append(leave, doing);
  leave.focus();

  const { signal } = opened;
  let [total, busy] = [0, false];
  const failed = (error) => {
    if (error.name !== "AbortError") say(trouble, error.message);
  };

  const look = async () => {
    await portions(name, { filter, all: true, dry_run: true, ...(extra ? { delay_ms: 0 } : {}) }, signal, (answer) => {
      total += answer.matched;
      fill(counted, "Counting… ", h("strong", {}, count(total)));
    });
    fill(counted, h("strong", {}, messages(total)), total === 1 ? " matches." : " match.");
    doing.disabled = total === 0;
    say(doing, total ? many(total) : "Nothing matches");
  };

  opened.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy || !total) return;
    busy = true;
    say(trouble, "");
    const sums = {};
    let seen = 0;
    try {
      const body = { filter, all: true, ...(extra?.read() ?? {}), ...(reason?.read() ?? {}) };
      Object.assign(bar, { hidden: false, max: total, value: 0 });
      doing.disabled = true;
      say(leave, "Stop");
      await portions(name, body, signal, (answer) => {
        seen += answer.matched;
        bar.value = Math.min(seen, total);
        say(doing, `${count(seen)} of ${count(total)}`);
        for (const [word, number] of Object.entries(answer.results)) sums[word] = (sums[word] ?? 0) + number;
        fill(results, Object.entries(sums).map(([word, number]) => h("li", {}, h("strong", {}, count(number)), ` ${name === "release" && word === "rescheduled" ? "due now: they go out at once" : result(word)}`)));
      });
      bar.value = total;
      doing.hidden = true;
      say(leave, "Close");
      leave.focus();
      if (seen === 0) fill(results, h("li", {}, "Nothing matches any more."));
    } catch (error) {
      failed(error);
      busy = false;
      doing.disabled = false;
      say(leave, "Leave it");
      say(doing, `${verb}: try again`);
    }
    refresh();
    done?.();
  });
  opened.dialog.addEventListener("close", () => busy && done?.());
  look().catch((error) => {
    failed(error);
    say(doing, "Not counted");
  });
}

/** Portion after portion, by the cursor of the last. */
async function portions(name, body, signal, each) {
  let next = body;
  for (;;) {
    const answer = await send("POST", `/v1/bulk/${name}`, { limit: PORTION, ...next }, signal);
    each(answer);
    if (!answer.cursor) return;
    next = { ...next, cursor: answer.cursor, since: answer.since };
    if (answer.due && !body.dry_run) {
      // All get the due that the first portion got.
      next.deliver_at = answer.due;
      delete next.delay_ms;
    }
  }
}
