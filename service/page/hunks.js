// Unified diffs as tables, with line numbers and intra-line marks.

import { flat, h, prose } from "./dom.js";
import { MARKERS_MAX } from "./hidden.js";
import { count } from "./text.js";

/** Number of lines that are shown. */
export const LINES_MAX = 5000;
const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

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

function content({ text, marked }, budget) {
  // The end of a line of DOS takes none of the budget, as each line may have one.
  const end = text.endsWith("\r") ? prose("\r") : null;
  const shown = end ? text.slice(0, -1) : text;
  if (!marked || marked[0] >= marked[1]) return [prose(shown, budget), end];
  const [from, to] = marked;
  return [prose(shown.slice(0, from), budget), h("mark", {}, prose(shown.slice(from, to), budget)), prose(shown.slice(to), budget), end];
}

const SIGNS = { add: "+", del: "−" };
const SPOKEN_SIGNS = { add: "added", del: "removed" };

function row(line, budget) {
  if (line.kind === "hunk") return h("tr", { class: "hunk" }, h("td", { colspan: 4 }, prose(line.text, budget)));
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
    h("td", { class: "code", dir: "ltr" }, content(line, budget)),
  );
}

/**
 * A unified diff of a file.
 * @param {string} diff
 * @param {string} path
 * @param {() => unknown} wholeFiles Links to the files, for a difference that is not shown to its end.
 */
export function diffTable(diff, path, wholeFiles) {
  const lines = parse(diff);
  const shown = lines.slice(0, LINES_MAX);
  markWords(shown);
  const budget = { left: MARKERS_MAX };
  const rest = lines.length - shown.length;
  const label = `Differences of ${flat(path)}`;
  const body = h(
    "tbody",
    {},
    shown.map((line) => row(line, budget)),
  );
  return h(
    "div",
    {},
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      h("table", { class: "diff" }, h("caption", { class: "sr" }, label), body),
    ),
    rest > 0 && h("p", { class: "cut" }, `${count(rest, "more line")} ${rest === 1 ? "is" : "are"} not shown. See `, wholeFiles(), "."),
  );
}
