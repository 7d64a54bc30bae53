// Long lists, which are rendered in parts.

import { h } from "./dom.js";
import { busy } from "./notices.js";
import { number } from "./text.js";

/**
 * Adds the first part of a list to its element. Returns the button that adds the next part; null if there is none.
 * @template T
 * @param {HTMLElement} list
 * @param {T[]} entries
 * @param {(entry: T, place: number) => HTMLElement} draw
 * @param {number} size Number of entries of a part.
 * @param {(() => Promise<{entries: T[], next: any}>) | null} [next] Loads the entries behind these, if there are some.
 */
export function inParts(list, entries, draw, size, next = null) {
  let shown = 0;
  const add = () => {
    const part = entries.slice(shown, shown + size).map((entry, i) => draw(entry, shown + i));
    list.append(...part);
    shown += part.length;
    return part[0];
  };
  const label = () => {
    const rest = entries.length - shown;
    if (next) return rest === 0 ? "Load more" : `Show ${number(Math.min(rest, size))} more of more than ${number(rest)}`;
    return rest > size ? `Show ${number(size)} more of ${number(rest)}` : `Show ${number(rest)} more`;
  };
  add();
  if (shown === entries.length && !next) return null;
  const more = h("button", { type: "button", class: "more" }, label());
  const load = async () => {
    const page = await next();
    entries = [...entries, ...page.entries];
    next = page.next;
    show();
  };
  const show = () => {
    const first = add();
    more.textContent = label();
    if (shown < entries.length || next) return;
    more.remove();
    if (!first) return;
    const target = first.querySelector("[data-step], a, summary, button") ?? first;
    if (target === first) target.tabIndex = -1;
    target.focus();
  };
  more.addEventListener("click", () => (shown === entries.length ? void busy(more, load) : show()));
  return more;
}
