// The one way this page makes elements. What comes from messages becomes text, never markup.

/** An element with attributes, listeners (`onclick`) and children (elements, text, or nothing). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Shows exactly these children, changing only what differs: focus, selection and listeners of what
 * stays are left in peace. Rows that may move carry a `data-key`, and listeners know no more than it.
 */
export function fill(parent, ...children) {
  const wanted = children.flat().filter((child) => child !== null && child !== undefined);
  const keyed = new Map();
  for (const child of parent.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let next = parent.firstChild;
  for (let child of wanted) {
    if (typeof child !== "object") child = document.createTextNode(String(child));
    const same = child.dataset?.key ? keyed.get(child.dataset.key) : next;
    if (same && is_alike(same, child)) {
      if (same === next) next = next.nextSibling;
      else parent.insertBefore(same, next);
      adapt(same, child);
    } else {
      parent.insertBefore(child, next);
    }
  }
  while (next) next = drop(next);
}

function drop(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function is_alike(have, want) {
  return have.nodeName === want.nodeName
    && have.dataset?.key === want.dataset?.key
    && have.id === want.id;
}

function adapt(have, want) {
  if (have === want) return;
  if (have.nodeType === Node.TEXT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  // Whether details are open is the reader's affair.
  for (const { name } of [...have.attributes]) if (name !== "open" && !want.hasAttribute(name)) have.removeAttribute(name);
  for (const { name, value } of want.attributes) if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  fill(have, ...want.childNodes);
}

/** Writes text only where it changed, so that screen readers and selections are left in peace. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The element of this id in `index.html`. */
export function at(id) {
  return document.getElementById(id);
}

const SVG = "http://www.w3.org/2000/svg";

/** One of the icons in `index.html`. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}
