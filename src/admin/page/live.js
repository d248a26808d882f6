// Keeps what the page knows up to date: the figures every few seconds, events as they happen.
// A tab that nobody sees asks for nothing.

import { Problem, get, listen } from "./api.js";

const FIGURES_MS = 2_000;
const EVENTS_MS = 250;
const AGAIN_MS = [1_000, 2_000, 5_000, 10_000];
/** Events between two looks of the page; of more only the last are shown. */
const EVENTS_MAX = 500;

/**
 * What is known of xdelay. Tells: `stats` (new figures), `events` (what happened since),
 * `link` (how the connection is).
 */
class House extends EventTarget {
  stats = null;
  /** `waiting`, `live`, `late` (only events are missing), `lost` or `token`. */
  link = "waiting";
  /** Why it is lost. */
  why = "";
  #ahead = 0;
  #figures = null;
  #events = null;

  /** The store's clock, in Unix milliseconds. */
  now() {
    return Date.now() + this.#ahead;
  }

  may_write() {
    return this.stats?.may_write ?? false;
  }

  destinations() {
    return this.stats?.destinations ?? [];
  }

  learn(stats) {
    this.#ahead = stats.now - Date.now();
    this.stats = stats;
    this.dispatchEvent(new Event("stats"));
  }

  /** Nothing is known of the connection, or that it needs a token. */
  unlink(link = "waiting") {
    [this.#figures, this.#events] = [null, null];
    this.#say(link, "");
  }

  /** Whether figures come, and why not. */
  figures(come, why = "") {
    this.#figures = come;
    this.#connection(why);
  }

  /** Whether events come. */
  events(come) {
    this.#events = come;
    this.#connection(this.why);
  }

  #connection(why) {
    // A proxy on the way may hold back the beginning of a stream; that is no loss.
    if (this.#figures === null) return;
    if (!this.#figures) this.#say("lost", why);
    else this.#say(this.#events === false ? "late" : "live", "");
  }

  #say(link, why) {
    if (this.link === link && this.why === why) return;
    Object.assign(this, { link, why });
    this.dispatchEvent(new Event("link"));
  }

  happened(events, missed) {
    this.dispatchEvent(Object.assign(new Event("events"), { events, missed }));
  }
}

export const house = new House();

/** Calls `then` now, if there are figures already, and whenever there are new ones. */
export function on_stats(then, signal) {
  house.addEventListener("stats", then, { signal });
  if (house.stats) then();
}

let running = null;

/** Starts, or starts anew with another token. */
export function start() {
  stop();
  if (document.hidden) return;
  house.unlink();
  running = new AbortController();
  figures(running.signal);
  events(running.signal);
}

/** Asks for nothing any more. */
export function stop() {
  running?.abort();
  running = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop();
  else if (house.link !== "token") start();
});

/** Looks at the figures at once, because something was changed. */
export async function refresh() {
  try {
    house.learn(await get("/v1/stats"));
  } catch {
    // The next round says so.
  }
}

async function figures(signal) {
  for (let failed = 0; !signal.aborted; ) {
    try {
      house.learn(await get("/v1/stats", {}, signal));
      failed = 0;
      house.figures(true);
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      failed += 1;
      house.figures(false, error.message);
    }
    await pause(failed ? AGAIN_MS[Math.min(failed, AGAIN_MS.length) - 1] : FIGURES_MS, signal);
  }
}

async function events(signal) {
  const gathered = gather(signal);
  for (let failed = 0; !signal.aborted; failed += 1) {
    try {
      const opened = () => {
        failed = -1;
        house.events(true);
      };
      await listen(signal, { opened, ...gathered });
      if (!signal.aborted) throw new Problem(0, "lost", "the stream of events ended");
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      house.events(false);
    }
    await pause(AGAIN_MS[Math.min(failed + 1, AGAIN_MS.length - 1)], signal);
  }
}

/** A thousand events a second are told a few times a second. */
function gather(signal) {
  let [waiting, missed, timer] = [[], 0, null];
  const tell = () => {
    timer = null;
    if (!signal.aborted) house.happened(waiting, missed);
    [waiting, missed] = [[], 0];
  };
  const soon = () => {
    timer ??= setTimeout(tell, EVENTS_MS);
  };
  return {
    event(event) {
      waiting.push(event);
      if (waiting.length > EVENTS_MAX) missed += waiting.splice(0, waiting.length - EVENTS_MAX).length;
      soon();
    },
    missed(number) {
      missed += number;
      soon();
    },
  };
}

function pause(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
