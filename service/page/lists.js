// Long lists, which are rendered in parts.

import { h } from "./dom.js";
import { number } from "./text.js";

/**
 * Adds the first part of a list to its element. Returns the button that adds the next part; null if there is none.
 * @template T
 * @param {HTMLElement} list
 * @param {T[]} entries
 * @param {(entry: T, place: number) => HTMLElement} draw
 * @param {number} size Number of entries of a part.
 */
export function inParts(list, entries, draw, size) {
  let shown = 0;
  const add = () => {
    const part = entries.slice(shown, shown + size).map((entry, i) => draw(entry, shown + i));
    list.append(...part);
    shown += part.length;
    return part[0];
  };
  const label = () => {
    const rest = entries.length - shown;
    return rest > size ? `Show ${number(size)} more of ${number(rest)}` : `Show ${number(rest)} more`;
  };
  add();
  if (shown === entries.length) return null;
  const more = h("button", { type: "button", class: "more" }, label());
  more.addEventListener("click", () => {
    const first = add();
    more.textContent = label();
    if (shown < entries.length) return;
    more.remove();
    const target = first.querySelector("[data-step], a, summary, button") ?? first;
    if (target === first) target.tabIndex = -1;
    target.focus();
  });
  return more;
}
