// The last hour: how late, and how many.

import { h, fill } from "./element.js";
import { amount_axis, colour, draw, on_theme, time_axis } from "./chart.js";
import { house, on_stats } from "./live.js";
import { compact, hour_of_day, span } from "./words.js";

const HEIGHT = 170;
const MINUTE = 60_000;
const HOUR_MS = 60 * MINUTE;

const rate = (number) => (number >= 10 || number === 0 ? compact(Math.round(number)) : number.toFixed(number < 1 ? 2 : 1));

/** Both charts. */
export function minutes(signal) {
  return [
    figure("Lateness", "of releases in the last hour", [
      { name: "p50", ink: "accent", of: (minute) => minute.lateness_ms_p50 },
      { name: "p99", ink: "heap", of: (minute) => minute.lateness_ms_p99 },
    ], { text: (ms) => (ms === 0 ? "0" : span(ms)), missing: null, least: 10 }, signal),
    figure("Rate", "messages a second in the last hour", [
      { name: "captured", ink: "second", of: (minute, seconds) => minute.captured / seconds },
      { name: "released", ink: "accent", of: (minute, seconds) => minute.released / seconds },
    ], { text: rate, missing: 0, least: 1 }, signal),
  ];
}

function figure(title, about, lines, how, signal) {
  const legend = h("p", { class: "legend" });
  const holder = h("div", { class: "plot", "aria-hidden": "true" });
  const state = { chart: null, hovered: null, data: null };
  const describe = () => tell(legend, lines, state, how);
  const paint = () => {
    state.data = table(lines, how.missing);
    if (state.chart) state.chart.setData(state.data);
    else state.chart = draw(holder, HEIGHT, options(lines, how, state, describe), state.data, signal);
    describe();
  };
  // Drawn once it stands on the page and has a width.
  requestAnimationFrame(() => {
    if (!signal.aborted) on_stats(paint, signal);
  });
  on_theme(() => {
    state.chart?.destroy();
    state.chart = null;
    if (house.stats) paint();
  }, signal);
  return h("section", { class: "card", "aria-label": `${title} ${about}` },
    h("div", { class: "card-head" }, h("h2", {}, title, " ", h("small", {}, about)), legend), holder);
}

/** One column a minute; of the running minute only the seconds that have passed count. */
function table(lines, missing) {
  const now = house.now();
  const known = new Map(house.stats.minutes.map((minute) => [minute.start, minute]));
  const first = house.stats.minutes[0]?.start ?? Infinity;
  const last = Math.floor(now / MINUTE) * MINUTE;
  const nothing = { captured: 0, released: 0, lateness_ms_p50: null, lateness_ms_p99: null };
  const columns = [];
  for (let start = last - HOUR_MS + MINUTE; start <= last; start += MINUTE) {
    const seconds = start === last ? (now - last) / 1_000 : 60;
    const minute = known.get(start) ?? (start >= first ? nothing : null);
    const young = start === last && seconds < 5;
    columns.push([start / 1_000, ...lines.map(({ of }) => (minute && !young ? of(minute, seconds) ?? missingly(missing, start, first) : null))]);
  }
  return [0, ...lines.map((_, line) => line + 1)].map((row) => columns.map((column) => column[row]));
}

const missingly = (missing, start, first) => (start >= first ? missing : null);

function options(lines, how, state, describe) {
  return {
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { range: () => [(house.now() - HOUR_MS) / 1_000, house.now() / 1_000] },
      y: { range: (_, least, most) => [0, Math.max(how.least, (most || 0) * 1.1)] },
    },
    axes: [time_axis(), { ...amount_axis((_, splits) => splits.map(how.text)), size: 52 }],
    series: [{}, ...lines.map(({ name, ink }) => ({ label: name, stroke: colour(ink), width: 1.75, spanGaps: false, points: { show: alone, size: 5, fill: colour(ink) } }))],
    hooks: {
      setCursor: [(chart) => {
        state.hovered = chart.cursor.left >= 0 ? chart.cursor.idx : null;
        describe();
      }],
    },
  };
}

/** A line of a single minute would not be seen: its points are. */
function alone(chart, line) {
  return chart.data[line].filter((value) => value !== null).length < 8;
}

function tell(legend, lines, { data, hovered }, { text }) {
  if (!data) return;
  const column = hovered ?? latest(data);
  const at = hovered === null ? "now" : hour_of_day(data[0][column] * 1_000);
  fill(legend, h("span", { class: "aside" }, at), ...lines.map(({ name, ink }, line) => {
    const value = data[line + 1][column];
    return h("span", { class: "key" }, h("i", { class: `swatch ink-${ink}` }), `${name} `, h("b", {}, value === null || value === undefined ? "–" : text(value)));
  }));
}

function latest(data) {
  for (let column = data[0].length - 1; column > 0; column -= 1) if (data.slice(1).some((line) => line[column] !== null)) return column;
  return data[0].length - 1;
}
