// The backlog by time to due: how much becomes due when, and where it heaps up.

import { get } from "./api.js";
import { fill, h, say } from "./element.js";
import { amount_axis, colour, draw, on_theme, time_axis } from "./chart.js";
import { house, on_stats } from "./live.js";
import { complain } from "./notice.js";
import { go, link } from "./route.js";
import { SPANS, begin, heaped, name_of, slots_of } from "./spans.js";
import { count, messages } from "./words.js";

const HEIGHT = 260;
/** A bar that is not empty can be seen, however high the highest is. */
const LEAST = 2;

/** The whole figure. `chosen` is a span's name, `choose` is told of another one. */
export function backlog(chosen, choose, signal) {
  const readout = h("p", { class: "readout" });
  const holder = h("div", {
    class: "plot bars", tabindex: 0, role: "slider", "aria-label": "Backlog by time to due: left and right to move, Enter to list",
    "aria-valuemin": 0, "aria-valuenow": 0, "aria-valuetext": "loading",
  });
  const sum = h("p", { class: "sum" }, "\u00a0");
  const table = h("tbody");
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "Span" }, Object.keys(SPANS).map((name) =>
    h("button", { type: "button", id: `span-${name}`, "aria-pressed": name === chosen ? "true" : "false", onclick: () => choose(name) }, name)));
  const state = { seen: null, hovered: null, chart: null, chosen, signal, holder, readout, sum, table };

  connect(state);
  on_theme(() => { state.chart?.destroy(); state.chart = null; paint(state); }, signal);
  let [last, asked] = [0, false];
  const look = async () => {
    const every = SPANS[chosen].every_ms;
    if (asked || Date.now() - last < every) return;
    asked = true;
    try {
      const { slot_ms, slots } = slots_of(chosen, holder.clientWidth);
      state.seen = await get("/v1/backlog", { from: begin(house.now(), slot_ms), slot_ms, slots }, signal);
      last = Date.now();
      paint(state);
    } catch (error) {
      if (error.status) complain(error);
      last = Date.now();
    }
    asked = false;
  };
  // Once it stands on the page and has a width.
  requestAnimationFrame(() => {
    if (!signal.aborted) on_stats(look, signal);
  });

  return h("section", { class: "card hero", "aria-labelledby": "backlog-title" },
    h("div", { class: "card-head" }, h("h2", { id: "backlog-title" }, "Backlog by time to due"), tabs),
    h("div", { class: "card-sub" }, sum, readout),
    holder,
    h("details", { class: "as-table" }, h("summary", {}, "As a table"),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Backlog as a table" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Due"), h("th", { class: "number" }, "Messages"))), table))));
}

function paint(state) {
  const { seen, holder } = state;
  if (!seen) return;
  const { from, slot_ms, counts } = seen;
  const middles = counts.map((_, slot) => (from + (slot + 0.5) * slot_ms) / 1_000);
  state.heaps = heaped(counts);
  const data = [middles, counts];
  const range = [from / 1_000, (from + counts.length * slot_ms) / 1_000];
  if (state.chart && state.slot_ms === slot_ms) {
    state.range = range;
    state.chart.setData(data, true);
  } else {
    state.chart?.destroy();
    Object.assign(state, { range, slot_ms });
    state.chart = draw(holder, HEIGHT, options(state), data, state.signal);
  }
  holder.setAttribute("aria-valuemax", counts.length - 1);
  describe(state);
}

function options(state) {
  return {
    padding: [26, 20, 0, 0],
    // A click is ours, however much the hand trembled.
    cursor: { x: false, y: false, drag: { x: false, y: false, click: () => {} }, points: { show: false } },
    scales: {
      x: { time: true, range: () => state.range },
      y: { range: (_, least, most) => [0, Math.max(4, most * 1.05)] },
    },
    axes: [time_axis(), amount_axis(undefined, true)],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [(chart) => bars(chart, state)] },
  };
}

function bars(chart, { seen, heaps, hovered }) {
  const { ctx } = chart;
  const ratio = devicePixelRatio || 1;
  const { left, top, width, height } = chart.bbox;
  const wide = width / seen.counts.length;
  const gap = wide > 4 * ratio ? Math.max(ratio, wide * 0.16) : wide > 2 * ratio ? ratio * 0.5 : 0;
  const [plain, heap, mark] = [colour("accent"), colour("heap"), colour("hover")];
  ctx.save();
  if (hovered !== null) {
    ctx.fillStyle = mark;
    ctx.fillRect(left + hovered * wide, top, wide, height);
  }
  seen.counts.forEach((amount, slot) => {
    if (!amount) return;
    const above = chart.valToPos(amount, "y", true);
    const high = Math.max(top + height - above, LEAST * ratio);
    ctx.fillStyle = heaps.has(slot) ? heap : plain;
    ctx.globalAlpha = hovered === null || hovered === slot ? 1 : 0.72;
    ctx.beginPath();
    const round = Math.min(3 * ratio, (wide - gap) / 2);
    ctx.roundRect(left + slot * wide + gap / 2, top + height - high, Math.max(wide - gap, ratio * 0.75), high, [round, round, 0, 0]);
    ctx.fill();
  });
  ctx.globalAlpha = 1;
  crown(chart, seen, heaps, wide, ratio);
  ctx.restore();
}

/** Names the highest bar, if it stands out. */
function crown(chart, seen, heaps, wide, ratio) {
  const most = Math.max(...seen.counts);
  const slot = seen.counts.indexOf(most);
  if (!heaps.has(slot)) return;
  const { ctx } = chart;
  const { left, width } = chart.bbox;
  const text = `${count(most)} · ${name_of(seen, slot, house.now()).split("–")[0]}`;
  ctx.font = `600 ${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.fillStyle = colour("heap");
  ctx.textBaseline = "bottom";
  const half = ctx.measureText(text).width / 2;
  const middle = Math.min(Math.max(left + (slot + 0.5) * wide, left + half), left + width - half);
  ctx.textAlign = "center";
  ctx.fillText(text, middle, chart.valToPos(most, "y", true) - 5 * ratio);
}

function point(state, slot) {
  if (state.hovered === slot) return;
  state.hovered = slot;
  state.chart?.redraw(false, false);
  describe(state);
}

function describe({ seen, hovered, chosen, heaps, holder, readout, sum, table }) {
  const now = house.now();
  const told = (slot) => `${messages(seen.counts[slot])} due ${name_of(seen, slot, now)}`;
  const within = seen.counts.reduce((all, one) => all + one, 0);
  const overdue = house.destinations().reduce((all, one) => all + one.overdue, 0);
  fill(sum,
    h("strong", {}, within ? count(within) : "Nothing"), ` due within the next ${chosen}`,
    seen.after ? h("span", { class: "aside" }, `${count(seen.after)} later`) : null,
    overdue ? h("a", { class: "over", href: link("messages", { due_to: Math.floor(now / 1_000) * 1_000 }) }, `${count(overdue)} overdue`) : null);
  say(readout, hovered === null ? "" : told(hovered));
  const slot = hovered ?? Math.max(seen.counts.findIndex((amount) => amount > 0), 0);
  holder.setAttribute("aria-valuenow", slot);
  holder.setAttribute("aria-valuetext", told(slot));
  const rows = seen.counts.map((amount, at) => [amount, at]).filter(([amount]) => amount);
  fill(table, rows.map(([amount, at]) => h("tr", { class: heaps.has(at) ? "heap" : null },
    h("td", {}, h("a", { href: listing(seen, at) }, name_of(seen, at, now))), h("td", { class: "number" }, count(amount)))));
}

function listing(seen, slot) {
  const from = seen.from + slot * seen.slot_ms;
  return link("messages", { due_from: from, due_to: from + seen.slot_ms });
}

function connect(state) {
  const { holder, signal } = state;
  const list = (slot) => {
    if (slot !== null && state.seen) go(listing(state.seen, slot));
  };
  const under = (event) => {
    const over = state.chart?.over.getBoundingClientRect();
    if (!over || event.clientX < over.left || event.clientX >= over.right) return null;
    return Math.floor(((event.clientX - over.left) / over.width) * state.seen.counts.length);
  };
  holder.addEventListener("mousemove", (event) => point(state, under(event)), { signal });
  holder.addEventListener("mouseleave", () => point(state, null), { signal });
  holder.addEventListener("click", (event) => list(under(event)), { signal });
  holder.addEventListener("keydown", (event) => {
    if (!state.seen) return;
    const last = state.seen.counts.length - 1;
    const now = Number(holder.getAttribute("aria-valuenow"));
    const next = (step) => {
      for (let slot = now + step; slot >= 0 && slot <= last; slot += step) if (state.seen.counts[slot]) return slot;
      return now;
    };
    const steps = { ArrowRight: () => next(1), ArrowLeft: () => next(-1), ArrowUp: () => next(1), ArrowDown: () => next(-1), Home: () => 0, End: () => last };
    if (event.key === "Enter") list(now);
    else if (event.key === "Escape") point(state, null);
    else if (steps[event.key]) point(state, steps[event.key]());
    else return;
    event.preventDefault();
  }, { signal });
  holder.addEventListener("focus", () => {
    if (holder.matches(":focus-visible") && state.seen) point(state, Number(holder.getAttribute("aria-valuenow")));
  }, { signal });
  holder.addEventListener("blur", () => point(state, null), { signal });
}
