// The graph beside a timeline: lanes of checkpoints by their parents, and rollbacks.

import { drawn } from "./dom.js";

const LANE_WIDTH = 16;
const MARGIN = 14;
/** More lanes share the last one. */
const LANES_MAX = 8;
const LANE_COLOURS = 6;
/** Height of the curve from a lane to that of the parent. */
const BEND = 26;

/**
 * A checkpoint's place in the graph.
 * @typedef {{id: string, parent: string | null, lane: number}} Placed
 */

/**
 * Lanes for checkpoints, newest first. The chain of the head has the first one.
 * @param {Array<{id: string, parent: string | null}>} checkpoints
 * @param {string | null} head
 * @returns {Placed[]}
 */
export function lanes(checkpoints, head) {
  /** The checkpoint that comes next in each lane; null of a lane that is free. */
  const next = [checkpoints.some(({ id }) => id === head) ? head : null];
  return checkpoints.map(({ id, parent }) => {
    let lane = next.indexOf(id);
    if (lane < 0) lane = next.indexOf(null);
    if (lane < 0) lane = next.length;
    // Branches that part here end here.
    next.forEach((expected, other) => expected === id && (next[other] = null));
    next[lane] = parent;
    return { id, parent, lane: Math.min(lane, LANES_MAX - 1) };
  });
}

/** Checkpoint that a rollback went back to, by the safety checkpoint that was made before it. */
export function rolledBackTo(checkpoint) {
  if (checkpoint.trigger_detail !== "safety") return null;
  return /^before the rollback to ([0-9A-HJKMNP-TV-Z]{26})$/.exec(checkpoint.message ?? "")?.[1] ?? null;
}

/** @param {number} lane */
function across(lane) {
  return MARGIN + lane * LANE_WIDTH;
}

function colour(lane) {
  return `lane-${lane % LANE_COLOURS}`;
}

/**
 * The line from a checkpoint to its parent.
 * @param {Placed} child
 * @param {number} y
 * @param {{lane: number, y: number} | null} parent Null if it is not shown.
 * @param {number} end
 * @param {boolean} isFenced
 */
function edge(child, y, parent, end, isFenced) {
  const x = across(child.lane);
  const className = `edge ${colour(child.lane)}${isFenced ? " fenced" : ""}`;
  if (!parent) return drawn("path", { class: `${className} beyond`, d: `M${x} ${y}V${end}` });
  const to = across(parent.lane);
  if (to === x) return drawn("path", { class: className, d: `M${x} ${y}V${parent.y}` });
  const bend = Math.max(parent.y - BEND, y);
  const middle = (bend + parent.y) / 2;
  return drawn("path", { class: className, d: `M${x} ${y}V${bend}C${x} ${middle} ${to} ${middle} ${to} ${parent.y}` });
}

/** The way of a rollback, from the safety checkpoint to the one that it went back to. */
function rollback(from, to, lane) {
  const [x, target, side] = [across(from.lane), across(to.lane), across(lane)];
  const bend = Math.min(BEND, Math.abs(to.y - from.y) / 2);
  const d = `M${x + 6} ${from.y}C${side} ${from.y} ${side} ${from.y} ${side} ${from.y + bend}V${to.y - bend}C${side} ${to.y} ${side} ${to.y} ${target + 10} ${to.y}`;
  const arrow = `M${target + 8} ${to.y}l6 -3.6v7.2z`;
  return [drawn("path", { class: "rollback", d }), drawn("path", { class: "rollback-end", d: arrow })];
}

/** The mark of a checkpoint: its form says what was decided. */
function node(checkpoint, lane, y, isHead) {
  const x = across(lane);
  const status = checkpoint.approval?.status ?? "none";
  const className = `node ${colour(lane)} ${status}`;
  const marks = [];
  if (isHead) marks.push(drawn("circle", { class: `head-ring ${colour(lane)}`, cx: x, cy: y, r: 9.5 }));
  if (checkpoint.fenced) marks.push(drawn("rect", { class: `${className} fenced`, x: x - 5, y: y - 5, width: 10, height: 10, rx: 1 }));
  else marks.push(drawn("circle", { class: className, cx: x, cy: y, r: 5.5 }));
  if (status === "rejected") marks.push(drawn("path", { class: "cross", d: `M${x - 2.6} ${y - 2.6}l5.2 5.2m0 -5.2l-5.2 5.2` }));
  return marks;
}

/**
 * Draws the graph beside the rows of a timeline.
 * @param {HTMLElement} timeline
 * @param {Array<any>} checkpoints
 * @param {string | null} head
 */
export function draw(timeline, checkpoints, head) {
  timeline.querySelector(":scope > .graph")?.remove();
  const placed = lanes(checkpoints, head);
  const places = new Map(placed.map((one) => [one.id, one]));
  const rows = new Map([...timeline.querySelectorAll(".row")].map((row) => [row.dataset.id, row]));
  const rollbacks = checkpoints.map((one) => [one.id, rolledBackTo(one)]).filter(([, to]) => to && places.has(to));
  const laneCount = 1 + Math.max(0, ...placed.map(({ lane }) => lane));
  const width = across(laneCount - 1 + (rollbacks.length ? 1 : 0)) + MARGIN;
  timeline.style.setProperty("--graph", `${width}px`);
  const height = timeline.offsetHeight;
  const heightOf = (id) => (rows.get(id)?.offsetTop ?? 0) + 26;
  const at = (id) => ({ lane: places.get(id).lane, y: heightOf(id) });
  const edges = [...placed].reverse().filter(({ parent }) => parent);
  const svg = drawn("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
  const isFenced = new Map(checkpoints.map((one) => [one.id, one.fenced]));
  for (const one of edges) {
    svg.append(edge(one, heightOf(one.id), places.has(one.parent) ? at(one.parent) : null, height, isFenced.get(one.id)));
  }
  rollbacks.forEach(([from, to]) => svg.append(...rollback(at(from), at(to), laneCount)));
  checkpoints.forEach((one, i) => svg.append(...node(one, placed[i].lane, heightOf(one.id), one.id === head)));
  timeline.append(svg);
}
