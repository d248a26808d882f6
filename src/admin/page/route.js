// What is looked at stands after the `#` of the address, so that a link to it can be shared.

/** The view and its fields: `#/messages?state=dead` is `{ view: "messages", name: "", fields }`. */
export function here() {
  const [path, rest = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...name] = path.split("/");
  return {
    view: view || "overview",
    name: decode(name.join("/")),
    fields: Object.fromEntries(new URLSearchParams(rest)),
  };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a view. */
export function link(view, fields = {}, name = "") {
  const said = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const rest = said.length ? `?${new URLSearchParams(said)}` : "";
  const path = view === "overview" ? "" : view;
  return `#/${path}${name ? `/${encodeURIComponent(name)}` : ""}${rest}`;
}

/** The address of one message. */
export const message_link = (uid) => link("message", {}, uid);

/** Goes there. */
export function go(address) {
  location.hash = address;
}

/** Changes the address without a step in the history: for what is typed. */
export function become(address) {
  history.replaceState(null, "", address);
}
