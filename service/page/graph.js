// The graph beside a timeline: lanes of checkpoints by their parents, and rollbacks.

import { drawn } from "./dom.js";

/** Widths of a lane in a wide and in a narrow timeline, in pixels. */
const LANE_WIDTHS = [16, 12];
const NARROW = 520;
const MARGIN = 14;
/** Further lanes share the last one. */
const LANES_MAX = 8;
const LANE_COLOURS = 6;
/** Width of the track of a rollback, and the number of tracks beside each other. */
const TRACK_WIDTH = 8;
const TRACKS_MAX = 4;
/** Height of the curve from a lane to that of the parent. */
const BEND = 26;
/** Distance of a mark from the upper edge of its row. */
const MARK_TOP = 25;

/** @typedef {{x: number, y: number, lane: number}} Point */

/**
 * Lanes for checkpoints, newest first. The chain of the head has the first one.
 * @param {Array<{id: string, parent: string | null}>} checkpoints
 * @param {string | null} head
 * @returns {Map<string, number>}
 */
export function lanes(checkpoints, head) {
  /** The checkpoint that each lane expects next; null for a free lane. */
  const next = [checkpoints.some(({ id }) => id === head) ? head : null];
  const found = new Map();
  for (const { id, parent } of checkpoints) {
    let lane = next.indexOf(id);
    if (lane < 0) lane = next.indexOf(null);
    if (lane < 0) lane = next.length;
    // The lanes of all branches that start at this checkpoint become free.
    next.forEach((expected, other) => expected === id && (next[other] = null));
    next[lane] = parent;
    found.set(id, Math.min(lane, LANES_MAX - 1));
  }
  return found;
}

/** Target of the rollback before which a safety checkpoint was made; null for other checkpoints. */
export function rolledBackTo(checkpoint) {
  if (checkpoint.trigger_detail !== "safety") return null;
  return /^before the rollback to ([0-9A-HJKMNP-TV-Z]{26})$/.exec(checkpoint.message ?? "")?.[1] ?? null;
}

function colour(lane) {
  return `lane-${lane % LANE_COLOURS}`;
}

/**
 * The line from a checkpoint to its parent.
 * @param {Point} child
 * @param {Point | undefined} parent None if it is not shown.
 * @param {number} end Height of the graph.
 * @param {boolean} isFenced
 */
function edge(child, parent, end, isFenced) {
  const { x, y, lane } = child;
  const className = `edge ${colour(lane)}${isFenced ? " fenced" : ""}`;
  if (!parent) return drawn("path", { class: `${className} beyond`, d: `M${x} ${y}V${end}` });
  if (parent.x === x) return drawn("path", { class: className, d: `M${x} ${y}V${parent.y}` });
  const bend = Math.max(parent.y - BEND, y);
  const middle = (bend + parent.y) / 2;
  return drawn("path", {
    class: className,
    d: `M${x} ${y}V${bend}C${x} ${middle} ${parent.x} ${middle} ${parent.x} ${parent.y}`,
  });
}

/**
 * The arrow of a rollback, from the safety checkpoint to the one that it went back to.
 * @param {Point} from
 * @param {Point} to
 * @param {number} side Its place beside the lanes.
 */
function rollback(from, to, side) {
  const bend = Math.min(BEND, Math.abs(to.y - from.y) / 2);
  const down = `M${from.x + 6} ${from.y}C${side} ${from.y} ${side} ${from.y} ${side} ${from.y + bend}V${to.y - bend}`;
  const back = `C${side} ${to.y} ${side} ${to.y} ${to.x + 12} ${to.y}`;
  const arrow = `M${to.x + 8} ${to.y}l7 -4v8z`;
  return [drawn("path", { class: "rollback", d: down + back }), drawn("path", { class: "rollback-end", d: arrow })];
}

/**
 * The mark of a checkpoint. Its row says the same in words.
 * @param {any} checkpoint
 * @param {Point} at
 * @param {boolean} isHead
 */
function mark(checkpoint, { x, y, lane }, isHead) {
  const status = checkpoint.approval?.status ?? "none";
  const className = `node ${colour(lane)} ${status}${checkpoint.fenced ? " fenced" : ""}`;
  const shapes = [];
  if (isHead) shapes.push(drawn("circle", { class: `head-ring ${colour(lane)}`, cx: x, cy: y, r: 9.5 }));
  if (checkpoint.fenced) shapes.push(drawn("rect", { class: className, x: x - 5, y: y - 5, width: 10, height: 10, rx: 1 }));
  else shapes.push(drawn("circle", { class: className, cx: x, cy: y, r: 5.5 }));
  if (status === "rejected") shapes.push(drawn("path", { class: "cross", d: `M${x - 2.6} ${y - 2.6}l5.2 5.2m0 -5.2l-5.2 5.2` }));
  return shapes;
}

/**
 * Points of the marks, by checkpoint.
 * @param {HTMLElement} timeline
 * @param {Array<any>} checkpoints
 * @param {string | null} head
 * @param {(lane: number) => number} across
 */
function points(timeline, checkpoints, head, across) {
  const tops = new Map([...timeline.querySelectorAll(".row")].map((row) => [row.dataset.id, row.offsetTop]));
  const entries = [...lanes(checkpoints, head)].map(([id, lane]) => [
    id,
    { lane, x: across(lane), y: (tops.get(id) ?? 0) + MARK_TOP },
  ]);
  return new Map(entries);
}

/**
 * Rollbacks, each with its track: two that overlap are drawn beside each other.
 * @param {Array<any>} checkpoints
 * @returns {Array<{from: string, to: string, track: number}>}
 */
function tracked(checkpoints) {
  const places = new Map(checkpoints.map(({ id }, place) => [id, place]));
  /** The end of the last rollback of each track. */
  const ends = [];
  const found = [];
  checkpoints.forEach((one, place) => {
    const to = rolledBackTo(one);
    if (!places.has(to)) return;
    const free = ends.findIndex((end) => end < place);
    const track = free < 0 ? ends.length : free;
    ends[track] = places.get(to);
    found.push({ from: one.id, to, track: Math.min(track, TRACKS_MAX - 1) });
  });
  return found;
}

/**
 * Draws the graph beside the rows of a timeline.
 * @param {HTMLElement} timeline
 * @param {Array<any>} checkpoints
 * @param {string | null} head
 */
export function draw(timeline, checkpoints, head) {
  timeline.querySelector(":scope > .graph")?.remove();
  const laneWidth = LANE_WIDTHS[Number(timeline.clientWidth < NARROW)];
  const across = (lane) => MARGIN + lane * laneWidth;
  const laneCount = 1 + Math.max(0, ...lanes(checkpoints, head).values());
  const rollbacks = tracked(checkpoints);
  const side = (track) => across(laneCount) + track * TRACK_WIDTH;
  const tracks = Math.max(-1, ...rollbacks.map(({ track }) => track));
  const width = (tracks < 0 ? across(laneCount - 1) : side(tracks)) + MARGIN - 2;
  // Set before measuring: the width changes how rows wrap.
  timeline.style.setProperty("--graph", `${width}px`);
  const at = points(timeline, checkpoints, head, across);
  const height = timeline.clientHeight;
  const svg = drawn("svg", {
    class: "graph",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "aria-hidden": "true",
    focusable: "false",
  });
  for (const one of [...checkpoints].reverse()) {
    if (one.parent) svg.append(edge(at.get(one.id), at.get(one.parent), height, one.fenced));
  }
  rollbacks.forEach(({ from, to, track }) => svg.append(...rollback(at.get(from), at.get(to), side(track))));
  checkpoints.forEach((one) => svg.append(...mark(one, at.get(one.id), one.id === head)));
  timeline.append(svg);
}
