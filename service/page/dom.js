// Builders of DOM nodes. Strings from the store become text nodes here, never markup.

import { IN_NAME, IN_TEXT, partsOf } from "./hidden.js";

/** Attributes that `h` accepts. None of them runs code or loads anything. */
const ATTRIBUTES = new Set([
  "id",
  "class",
  "type",
  "name",
  "list",
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
const LINKS = ["#", "/v1/"];

/**
 * A name as a string in one line, with hidden characters escaped.
 * @param {unknown} text
 */
export function flat(text) {
  return partsOf(String(text ?? ""), IN_NAME)
    .map((part) => part.text)
    .join("");
}

/** Text nodes, and elements for markers of hidden characters. */
function revealed(parts) {
  const fragment = document.createDocumentFragment();
  for (const { text, isMarker } of parts) {
    if (!isMarker) {
      fragment.append(text);
      continue;
    }
    const marker = document.createElement("span");
    marker.className = "escape";
    marker.textContent = text;
    fragment.append(marker);
  }
  return fragment;
}

/**
 * Text of several lines, such as a message or the content of a file.
 * @param {unknown} text
 * @param {{left: number}} [budget] Number of markers of hidden characters that may still be made.
 */
export function prose(text, budget) {
  return revealed(partsOf(String(text ?? "").replaceAll("\r\n", "\n"), IN_TEXT, budget));
}

/**
 * A name in a `bdi` element, which isolates its direction.
 * @param {unknown} text
 */
export function named(text) {
  const element = document.createElement("bdi");
  element.append(revealed(partsOf(String(text ?? ""), IN_NAME)));
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
