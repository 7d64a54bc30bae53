// Unified diffs as tables, with line numbers and intra-line marks.

import { flat, h, prose } from "./dom.js";

/** Number of lines that are rendered at once. */
const LINES_MAX = 3000;
const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/;

/**
 * A line of a diff.
 * @typedef {{kind: "hunk" | "same" | "del" | "add" | "note", text: string, old?: number, new?: number, marked?: [number, number]}} Line
 */

/**
 * Parses a unified diff of one file. Its `---` and `+++` headers are left out.
 * @param {string} diff
 * @returns {Line[]}
 */
export function parse(diff) {
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const found = [];
  let [old, now, oldLeft, nowLeft] = [0, 0, 0, 0];
  for (const line of lines) {
    const begin = oldLeft <= 0 && nowLeft <= 0 ? HUNK.exec(line) : null;
    if (begin) {
      [old, now] = [Number(begin[1]), Number(begin[3])];
      [oldLeft, nowLeft] = [Number(begin[2] ?? 1), Number(begin[4] ?? 1)];
      found.push({ kind: "hunk", text: line });
      continue;
    }
    const text = line.slice(1);
    if (line.startsWith("\\")) {
      found.push({ kind: "note", text });
      continue;
    }
    if (oldLeft <= 0 && nowLeft <= 0) continue;
    const [isOld, isNew] = [!line.startsWith("+"), !line.startsWith("-")];
    const kind = isOld && isNew ? "same" : isOld ? "del" : "add";
    found.push({ kind, text, old: isOld ? old++ : undefined, new: isNew ? now++ : undefined });
    oldLeft -= Number(isOld);
    nowLeft -= Number(isNew);
  }
  return found;
}

/** Marks the part in which two lines differ, unless they have little in common. */
function markPair(before, after) {
  const [a, b] = [before.text, after.text];
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  if (start + end < shorter / 3) return;
  before.marked = [start, a.length - end];
  after.marked = [start, b.length - end];
}

/**
 * Marks the differing part of lines where a block of lines replaces one of the same length.
 * @param {Line[]} lines
 */
export function markWords(lines) {
  for (let i = 0; i < lines.length; i += 1) {
    if (lines[i].kind !== "del") continue;
    let middle = i;
    while (lines[middle]?.kind === "del") middle += 1;
    let end = middle;
    while (lines[end]?.kind === "add") end += 1;
    if (middle - i === end - middle) {
      for (let k = i; k < middle; k += 1) markPair(lines[k], lines[k + middle - i]);
    }
    i = end - 1;
  }
}

function content({ text, marked }) {
  if (!marked || marked[0] >= marked[1]) return prose(text);
  return [prose(text.slice(0, marked[0])), h("mark", {}, prose(text.slice(...marked))), prose(text.slice(marked[1]))];
}

const SIGNS = { add: "+", del: "−" };
const SPOKEN_SIGNS = { add: "added", del: "removed" };

function row(line) {
  if (line.kind === "hunk") return h("tr", { class: "hunk" }, h("td", { colspan: 4 }, prose(line.text)));
  if (line.kind === "note") return h("tr", { class: "note" }, h("td", { colspan: 4 }, prose(line.text.trim())));
  const sign = SIGNS[line.kind];
  return h(
    "tr",
    { class: line.kind },
    h("td", { class: "line" }, line.old),
    h("td", { class: "line" }, line.new),
    h(
      "td",
      { class: "sign" },
      sign && [h("span", { "aria-hidden": "true" }, sign), h("span", { class: "sr" }, SPOKEN_SIGNS[line.kind])],
    ),
    h("td", { class: "code", dir: "ltr" }, content(line)),
  );
}

/**
 * A unified diff of a file.
 * @param {string} diff
 * @param {string} path
 */
export function diffTable(diff, path) {
  const lines = parse(diff);
  markWords(lines);
  const body = h("tbody", {}, lines.slice(0, LINES_MAX).map(row));
  const table = h("table", { class: "diff" }, h("caption", { class: "sr" }, `Differences of ${flat(path)}`), body);
  const rest = lines.length - LINES_MAX;
  const showRest = () => {
    more.remove();
    body.append(...lines.slice(LINES_MAX).map(row));
  };
  const more = h("button", { type: "button", onclick: showRest }, `Show ${rest} more lines`);
  return h(
    "div",
    {},
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Differences of ${flat(path)}` }, table),
    rest > 0 && more,
  );
}
