// The parts of the future that the backlog is shown for, and which of their bars stand out.

import { day_of, hour_of_day, instant, time_of_day } from "./words.js";

const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
/** Where a screen counts as narrow, in pixels. */
const NARROW = 560;
/** A bar stands out when it is so many times as high as those beside it, and no small one. */
const HEAP_TIMES = 4;
const HEAP_LEAST = 10;
const HEAP_SHARE = 0.05;
const BESIDE = 3;

/** Name, bars, and how often it is worth a new look. */
export const SPANS = {
  minute: { slot_ms: SECOND, slots: 60, every_ms: 1_000 },
  hour: { slot_ms: MINUTE, slots: 60, every_ms: 4_000 },
  day: { slot_ms: 15 * MINUTE, slots: 96, every_ms: 8_000 },
  week: { slot_ms: HOUR, slots: 168, narrow: { slot_ms: 2 * HOUR, slots: 84 }, every_ms: 15_000 },
  month: { slot_ms: 6 * HOUR, slots: 120, narrow: { slot_ms: 12 * HOUR, slots: 60 }, every_ms: 15_000 },
  year: { slot_ms: DAY, slots: 365, narrow: { slot_ms: 7 * DAY, slots: 53 }, every_ms: 15_000 },
};

/** The bars that fit. */
export function slots_of(name, width) {
  const { narrow, ...wide } = SPANS[name];
  return width < NARROW && narrow ? narrow : wide;
}

/** Where the first bar begins: bars begin with the hours and days of the one who looks. */
export function begin(now, slot_ms) {
  const offset = new Date(now).getTimezoneOffset() * MINUTE;
  const length = Math.min(slot_ms, DAY);
  return Math.floor((now - offset) / length) * length + offset;
}

/**
 * The bars that stand out from those beside them: what many cron jobs heap up at midnight. The
 * first never does: what is about to be due is always more.
 */
export function heaped(counts) {
  const least = Math.max(HEAP_LEAST, Math.max(...counts) * HEAP_SHARE);
  return new Set(counts.flatMap((amount, slot) => (slot > 0 && amount >= least && amount >= HEAP_TIMES * beside(counts, slot) ? [slot] : [])));
}

function beside(counts, slot) {
  const others = [...counts.slice(Math.max(slot - BESIDE, 0), slot), ...counts.slice(slot + 1, slot + 1 + BESIDE)];
  return others.sort((a, b) => a - b)[Math.floor(others.length / 2)] ?? 0;
}

/** Which part of the future a bar is: "Sun 22 Nov, 00:00–00:15". */
export function name_of({ from, slot_ms }, slot, now) {
  const [start, end] = [from + slot * slot_ms, from + (slot + 1) * slot_ms];
  if (slot_ms >= 7 * DAY) return `${day_of(start)}–${day_of(end - 1)}`;
  if (slot_ms >= DAY) return day_of(start);
  if (slot_ms < MINUTE) return time_of_day(start);
  const today = new Date(start).toDateString() === new Date(now).toDateString();
  const time = `${hour_of_day(start)}–${hour_of_day(end)}`;
  return today ? time : `${day_of(start)}, ${time}`;
}

/** A range of dues, as a filter says it. */
export function range_of(from, to, now) {
  if (from && to) return `${instant(from, now)} to ${instant(to, now)}`;
  return from ? `from ${instant(from, now)}` : `before ${instant(to, now)}`;
}
