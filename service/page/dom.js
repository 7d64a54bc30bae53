// Builders of DOM nodes. Strings from the store become text nodes here, never markup.

/** Control, bidi and invisible characters. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
/** The same, and newline, tab and joiners, which are allowed in texts only. */
const HIDDEN_IN_NAME = new RegExp(`${HIDDEN.source}|[\\t\\n\\u200c\\u200d]`, "gu");

/** Attributes that `h` accepts. None of them runs code or loads anything. */
const ATTRIBUTES = new Set([
  "id",
  "class",
  "type",
  "name",
  "value",
  "for",
  "placeholder",
  "title",
  "role",
  "tabindex",
  "rows",
  "cols",
  "colspan",
  "scope",
  "datetime",
  "autocomplete",
  "spellcheck",
  "required",
  "maxlength",
  "disabled",
  "checked",
  "selected",
  "open",
  "hidden",
  "download",
  "dir",
  "lang",
  "aria-label",
  "aria-labelledby",
  "aria-describedby",
  "aria-current",
  "aria-live",
  "aria-hidden",
  "aria-expanded",
  "aria-haspopup",
  "aria-controls",
  "aria-invalid",
  "aria-busy",
  "data-step",
  "data-id",
  "data-label",
  "data-age",
]);
/** Attributes with text for people. */
const SPOKEN = new Set(["title", "aria-label", "placeholder"]);
/** Prefixes that `href` accepts: views of this page, and the API. */
const LINKS = ["#", "/api/"];

function escape(character) {
  const names = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };
  return names[character] ?? `\\u{${character.codePointAt(0).toString(16)}}`;
}

/**
 * A name as a string in one line, with hidden characters escaped.
 * @param {unknown} text
 */
export function flat(text) {
  return String(text ?? "").replace(HIDDEN_IN_NAME, escape);
}

/**
 * Text nodes, with hidden characters escaped and marked.
 * @param {string} text
 * @param {RegExp} hidden
 */
function revealed(text, hidden) {
  const fragment = document.createDocumentFragment();
  let end = 0;
  for (const match of text.matchAll(hidden)) {
    if (match.index > end) fragment.append(document.createTextNode(text.slice(end, match.index)));
    const mark = document.createElement("span");
    mark.className = "escape";
    mark.textContent = escape(match[0]);
    fragment.append(mark);
    end = match.index + match[0].length;
  }
  if (end < text.length) fragment.append(document.createTextNode(text.slice(end)));
  return fragment;
}

/**
 * Text of several lines, such as a message or the content of a file.
 * @param {unknown} text
 */
export function prose(text) {
  return revealed(String(text ?? ""), HIDDEN);
}

/**
 * A name in a `bdi` element, which isolates its direction.
 * @param {unknown} text
 */
export function named(text) {
  const element = document.createElement("bdi");
  element.append(revealed(String(text ?? ""), HIDDEN_IN_NAME));
  return element;
}

function add(parent, child) {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach((one) => add(parent, one));
  else parent.append(child instanceof Node ? child : prose(child));
}

function setLink(element, address) {
  if (!LINKS.some((start) => address.startsWith(start))) throw new Error(`no link of this page: ${address}`);
  element.setAttribute("href", address);
}

/**
 * An element. An attribute `onNAME` with a function adds a listener for the event NAME.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...unknown} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function" && name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href") setLink(element, String(value));
    else if (!ATTRIBUTES.has(name)) throw new Error(`no attribute of this page: ${name}`);
    else element.setAttribute(name, value === true ? "" : SPOKEN.has(name) ? flat(value) : String(value));
  }
  children.forEach((child) => add(element, child));
  return element;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...Node} children
 */
export function drawn(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * Runs a change of the page, then restores the focus to the element of the same id.
 * @param {() => void} change
 */
export function keepingFocus(change) {
  const { activeElement } = document;
  const id = activeElement?.id;
  change();
  if (!id || document.activeElement === activeElement) return;
  document.getElementById(id)?.focus({ preventScroll: true });
}
