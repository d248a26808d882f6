// Talks to xdelay: with the token where one is needed, and with errors that say what to do.

const KEPT = "xdelay.token";

/** Kept in this tab only, and gone with it. */
export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (text) => sessionStorage.setItem(KEPT, text),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** An answer that is not the one asked for. `detail` is for people. */
export class Problem extends Error {
  constructor(status, kind, detail) {
    super(detail);
    Object.assign(this, { status, kind, detail });
  }
}

const lost = () => new Problem(0, "lost", "xdelay does not answer; is it running, and is the way to it open?");

/** Told when a token is missing or wrong. */
export const refused = new EventTarget();

function headers() {
  const kept = token.get();
  return kept ? { authorization: `Bearer ${kept}` } : {};
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  } catch (error) {
    throw error.name === "AbortError" ? error : lost();
  }
  if (answer.ok) return answer;
  if (answer.status === 401) refused.dispatchEvent(new Event("token"));
  const told = await answer.json().catch(() => ({}));
  const detail = told.detail ?? `xdelay answered ${answer.status} ${answer.statusText}`;
  throw new Problem(answer.status, told.kind ?? "unknown", detail);
}

/** Fields that say something, as a query string with its question mark. */
export function query(fields) {
  const said = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return said.length ? `?${new URLSearchParams(said)}` : "";
}

/** What is at this path. */
export async function get(path, fields = {}, signal) {
  const answer = await ask(path + query(fields), { signal });
  return read(answer);
}

/** Changes something. */
export async function send(method, path, body, signal) {
  const content = body === undefined
    ? {}
    : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  return read(await ask(path, { method, signal, ...content }));
}

async function read(answer) {
  try {
    return await answer.json();
  } catch (error) {
    throw error.name === "AbortError" ? error : lost();
  }
}

/** The path of one message. Its uid is enough: the broker and destination are looked up by it. */
export const message_path = (uid, step) => `/v1/messages/${encodeURIComponent(uid)}${step ? `/${step}` : ""}`;

/** Whether xdelay wants a token from us; asked without one, so that nothing is refused for it. */
export async function wants_token() {
  if (token.get()) return false;
  let answer;
  try {
    answer = await fetch("/ready");
  } catch {
    return false;
  }
  const told = await answer.json().catch(() => ({ parts: [] }));
  return told.parts === undefined;
}

/**
 * Events as they happen, until the signal says enough. By `fetch`, because an `EventSource`
 * cannot carry a token in a header.
 */
export async function listen(signal, { opened, event, missed }) {
  const answer = await ask("/v1/events", { signal });
  opened();
  const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await text.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const { name, data } = parse(block);
      if (name === "missed") missed(Number(data));
      else if (data) event(JSON.parse(data));
    }
  }
}

function parse(block) {
  let [name, data] = ["message", ""];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    if (line.startsWith("data:")) data += line.slice(5).trim();
  }
  return { name, data };
}
