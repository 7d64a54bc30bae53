// Keyboard shortcuts, which can be switched off, and their help.

import { h } from "./dom.js";
import { open } from "./dialog.js";

const SWITCH = "parhelia.keys";

const HELP = [
  ["j, ↓", "to the next entry of a list: sessions, checkpoints, changes, results"],
  ["k, ↑", "to the entry before"],
  ["Enter", "open the entry"],
  ["x", "choose the checkpoint for a comparison"],
  ["c", "compare the two that are chosen"],
  ["a", "approve the checkpoint that is shown"],
  ["r", "reject it"],
  ["n", "begin a session, in the list of sessions"],
  ["u", "up: from a checkpoint to its session, from a session to all of them"],
  ["/", "search"],
  ["?", "these keys"],
  ["Esc", "close a dialog, or leave the search"],
];

/** True unless the user has switched shortcuts off. */
function isOn() {
  try {
    return localStorage.getItem(SWITCH) !== "off";
  } catch {
    return true;
  }
}

/** @param {boolean} on */
function turn(on) {
  try {
    localStorage.setItem(SWITCH, on ? "on" : "off");
  } catch {
    // Storage may be blocked.
  }
}

export function showHelp() {
  if (document.querySelector("dialog[open]")) return;
  const box = h("input", { id: "keys-on", type: "checkbox", checked: isOn(), onchange: () => turn(box.checked) });
  const rows = HELP.map(([key, effect]) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        key.split(", ").map((one, i) => [i ? " " : null, h("kbd", {}, one)]),
      ),
      h("td", {}, effect),
    ),
  );
  const dialog = h(
    "dialog",
    { "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keys"),
    h("table", { class: "keys" }, h("tbody", {}, rows)),
    h("p", { class: "field tick" }, box, h("label", { for: "keys-on" }, "Use single-key shortcuts")),
    h("p", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close")),
  );
  open(dialog);
}

/**
 * Moves the focus within the list of the view.
 * @param {number} by
 */
function step(by) {
  const entries = [...document.querySelectorAll("main [data-step]")].filter((entry) => entry.offsetParent !== null);
  if (entries.length === 0) return;
  const now = entries.findIndex(
    (entry) => entry === document.activeElement || entry.closest(".row")?.contains(document.activeElement),
  );
  const next = now < 0 ? (by > 0 ? 0 : entries.length - 1) : Math.min(Math.max(now + by, 0), entries.length - 1);
  entries[next].focus();
  entries[next].scrollIntoView({ block: "nearest" });
}

/** True for elements that use keys themselves. */
function isField(element) {
  return (
    element instanceof HTMLElement &&
    (element.isContentEditable || element.matches("input:not([type=checkbox]), textarea, select"))
  );
}

/**
 * Listens to keys.
 * @param {(name: string) => void} act Called with a key of the view: x, c, a, r, n, u.
 */
export function listen(act) {
  const search = document.getElementById("search-words");
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.activeElement === search) search.blur();
    const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing;
    if (!isPlain || isField(event.target) || document.querySelector("dialog[open]")) return;
    const isArrow = event.key === "ArrowDown" || event.key === "ArrowUp";
    // Outside of lists, arrows scroll.
    if (isArrow && !document.activeElement?.matches("[data-step]")) return;
    if (!isArrow && !isOn()) return;
    const does = {
      j: () => step(1),
      ArrowDown: () => step(1),
      k: () => step(-1),
      ArrowUp: () => step(-1),
      "/": () => search.offsetParent && search.focus(),
      "?": showHelp,
      x: () => act("x"),
      c: () => act("c"),
      a: () => act("a"),
      r: () => act("r"),
      n: () => act("n"),
      u: () => act("u"),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  });
}
