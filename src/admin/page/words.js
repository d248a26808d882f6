// Numbers, times and answers as people say them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1234567 as 1,234,567. */
export const count = (number) => whole.format(number);

/** 1234567 as 1.2M, where there is little room. */
export const compact = (number) => (number < 10_000 ? whole.format(number) : short.format(number));

/** "1 message", "2 messages". */
export const messages = (number) => `${count(number)} ${number === 1 ? "message" : "messages"}`;

/** How many bytes. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB"];
  let [value, unit] = [bytes / 1024, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const UNITS = [["y", 31_536_000_000], ["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];

/** A length of time in its two largest units: "3 h 12 min". */
export function span(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000 && ms % 1_000) return `${(ms / 1_000).toFixed(1)} s`;
  const first = UNITS.findIndex(([, length]) => ms >= length);
  const parts = [];
  let rest = ms;
  for (const [name, length] of UNITS.slice(first, first + 2)) {
    const amount = Math.floor(rest / length);
    if (amount) parts.push(`${amount} ${name}`);
    rest -= amount * length;
  }
  return parts.join(" ");
}

/** An instant as seen from now: "in 5 min", "2 s ago". */
export function from_now(at, now) {
  const away = at - now;
  if (Math.abs(away) < 1_000) return "now";
  const rounded = Math.floor(Math.abs(away) / 1_000) * 1_000;
  return away > 0 ? `in ${span(rounded)}` : `${span(rounded)} ago`;
}

const parts_of = (options) => new Intl.DateTimeFormat("en-GB", options);
const clock = parts_of({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = parts_of({ hour: "2-digit", minute: "2-digit" });
const day = parts_of({ weekday: "short", day: "numeric", month: "short" });
const day_of_year = parts_of({ day: "numeric", month: "short", year: "numeric" });

export const time_of_day = (at) => clock.format(at);
export const hour_of_day = (at) => minutes.format(at);
export const day_of = (at) => day.format(at);

/** Date and time, as short as can be understood today. */
export function instant(at, now) {
  if (!(at <= 8.64e15)) return String(at);
  const same_day = new Date(at).toDateString() === new Date(now).toDateString();
  if (same_day) return clock.format(at);
  const near = Math.abs(at - now) < 300 * 86_400_000;
  return `${near ? day.format(at) : day_of_year.format(at)}, ${clock.format(at)}`;
}

/** The whole of it, with milliseconds and offset. */
export function exactly(at) {
  if (!(at <= 8.64e15)) return String(at);
  const local = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return `${local.toISOString().replace("T", " ").slice(0, -1)} ${zone(at)}`;
}

export const in_utc = (at) => (at <= 8.64e15 ? new Date(at).toISOString() : String(at));

/** The offset from UTC at that instant, such as UTC+1. */
export function zone(at) {
  const offset = -new Date(at).getTimezoneOffset();
  if (offset === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  return `UTC${offset < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

const RESULTS = {
  cancelled: "cancelled: it will not be delivered",
  cancelled_possibly_delivered: "cancelled, possibly delivered: a replica was just releasing it",
  rescheduled: "rescheduled",
  revived: "revived: parked again, with its attempts at zero",
  buried: "buried: kept as dead, not delivered",
  leased: "not changed: a replica is releasing it right now",
  dead: "not changed: it is dead, revive it",
  parked: "not changed: it is parked already",
  id_taken: "not changed: a newer message has its producer’s id",
  gone: "not there any more: released or cancelled meanwhile",
  replaced: "parked, in place of the one with the same id",
  replaced_possibly_delivered: "parked; the one with the same id was possibly delivered",
};

/** What came of a step, in a sentence's end. */
export const result = (word) => RESULTS[word] ?? word.replaceAll("_", " ");

const KINDS = {
  released: "released",
  cancelled: "cancelled",
  cancelled_possibly_delivered: "cancelled, possibly delivered",
  buried: "buried",
  rescheduled: "rescheduled",
  revived: "revived",
};

/** What happened to a message. */
export const happened = (what) => KINDS[what] ?? what;

/** The same with a great letter and a full stop, as errors of the API have neither. */
export const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
