// What the charts share: colours of the page, axes, and a size that follows the page.

import { compact, day_of, hour_of_day, time_of_day } from "./words.js";

const uPlot = globalThis.uPlot;

/** A colour of the style sheet as a canvas understands it. */
export function colour(name) {
  const probe = document.createElement("i");
  probe.className = `ink-${name}`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

const month = new Intl.DateTimeFormat("en-GB", { month: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Ticks of a time axis: the day where a day begins, else the time. */
function ticks(chart, splits, axis, space, step) {
  return splits.map((seconds) => {
    const date = new Date(seconds * 1_000);
    const midnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
    if (step >= 28 * 86_400) return month.format(date);
    if (step >= 86_400) return day.format(date);
    if (midnight) return day_of(date);
    return step < 60 ? time_of_day(date) : hour_of_day(date);
  });
}

const font = () => `11px ${getComputedStyle(document.body).fontFamily}`;

/** The axis along the bottom. */
export function time_axis() {
  return { stroke: colour("faint"), font: font(), grid: { show: false }, ticks: { stroke: colour("line"), size: 4, width: 1 }, gap: 4, size: 28, values: ticks, space: 76 };
}

/** The axis up the side; whole numbers only where `whole` says so. */
export function amount_axis(values = (_, splits) => splits.map(compact), whole = false) {
  const steps = [1, 2, 5].flatMap((digit) => Array.from({ length: 13 }, (_, power) => digit * 10 ** power)).sort((a, b) => a - b);
  const axis = { stroke: colour("faint"), font: font(), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, gap: 6, size: 46, values, space: 34 };
  return whole ? { ...axis, incrs: steps } : axis;
}

/** Draws a chart into `holder`, as wide as that, until the signal says enough. */
export function draw(holder, height, options, data, signal) {
  const width = () => Math.max(holder.clientWidth, 120);
  const chart = new uPlot({ width: width(), height, legend: { show: false }, padding: [12, 20, 0, 0], ...options }, data, holder);
  const watcher = new ResizeObserver(() => {
    if (width() !== chart.width) chart.setSize({ width: width(), height });
  });
  watcher.observe(holder);
  signal.addEventListener("abort", () => {
    watcher.disconnect();
    chart.destroy();
  });
  return chart;
}

/** Calls `then` when light becomes dark or the other way round, because a canvas keeps its colours. */
export function on_theme(then, signal) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", then, { signal });
  document.addEventListener("theme", then, { signal });
}
