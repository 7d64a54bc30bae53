// Formatting of times, sizes and states.

import { h, named } from "./dom.js";

const NUMBER = new Intl.NumberFormat("en");
const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric" });
const EXACT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });

/** @param {number} value */
export function number(value) {
  return NUMBER.format(value);
}

/**
 * A number with its noun.
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/** @param {number} value */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.floor(Math.log2(Math.max(value, 1)) / 10), units.length - 1);
  const scaled = value / 1024 ** power;
  return `${power === 0 || scaled >= 100 ? number(Math.round(scaled)) : scaled.toFixed(1)} ${units[power]}`;
}

/**
 * The time since a timestamp.
 * @param {string} at
 */
export function age(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (seconds < 10) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 30 * 86400) return count(Math.floor(seconds / 86400), "day ago", "days ago");
  return DAY.format(new Date(at));
}

/** @param {string} at */
export function exact(at) {
  const moment = new Date(at);
  return Number.isNaN(moment.getTime()) ? String(at) : EXACT.format(moment);
}

/**
 * A `time` element that shows its age.
 * @param {string | null | undefined} at
 */
export function since(at) {
  return at ? h("time", { datetime: at, title: exact(at), "data-age": at }, age(at)) : "–";
}

/** Updates all ages on the page. */
export function refreshAges() {
  for (const time of document.querySelectorAll("time[data-age]")) {
    const text = age(time.getAttribute("data-age") ?? "");
    if (time.textContent !== text) time.textContent = text;
  }
}

/**
 * The end of an id. The command line accepts it as a selector.
 * @param {string} id
 */
export function short(id) {
  return id.length > 10 ? `…${id.slice(-6)}` : id;
}

/**
 * A small label. Its kind (good, waits, bad, info, plain) sets the colour, which repeats what the text says.
 * @param {string} kind
 * @param {unknown} text
 * @param {string} [title]
 */
export function pill(kind, text, title) {
  return h("span", { class: `pill ${kind}`, title }, text);
}

/** @param {string} tag */
export function tagPill(tag) {
  return h("span", { class: "pill tag" }, h("span", { class: "sr" }, "tag "), named(tag));
}

/**
 * The entry of a table; undefined if it has none of its own. Names from the store may be `constructor` or `__proto__`.
 * @template T
 * @param {Record<string, T>} table
 * @param {string} name
 * @returns {T | undefined}
 */
export function entryOf(table, name) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

const APPROVALS = {
  approved: ["good", "approved"],
  auto_approved: ["plain", "auto-approved"],
  pending: ["waits", "waits for review"],
  rejected: ["bad", "rejected"],
};

/**
 * Whoever decided: a person, or an agent in the name of one; none for a program.
 * @param {{user?: string | null, by_agent?: boolean}} approval
 */
export function whoDecided(approval) {
  return approval.user && approval.by_agent ? `an agent for ${approval.user}` : approval.user;
}

/** @param {{status: string, user?: string | null, by_agent?: boolean} | null | undefined} approval */
export function approvalPill(approval) {
  if (!approval) return null;
  const [kind, text] = entryOf(APPROVALS, approval.status) ?? ["plain", approval.status];
  return pill(kind, text, approval.user ? `by ${whoDecided(approval)}` : undefined);
}

const OBSERVED = {
  none: ["plain", "no agent"],
  starting: ["info", "starting"],
  live: ["good", "live"],
  idle: ["good", "idle"],
  waiting: ["waits", "waiting"],
  elsewhere: ["info", "elsewhere"],
  unknown: ["info", "not known"],
};

/**
 * The observed state of a session.
 * @param {{status: string, observed: string, wanted: string | null, why: string | null}} session
 */
export function statePill(session) {
  if (session.status === "ended") return pill("plain", "ended");
  if (session.observed === "dead") {
    const isWanted = session.wanted === "running";
    return pill(isWanted ? "bad" : "plain", session.wanted === "paused" ? "paused" : "dead", session.why ?? undefined);
  }
  const [kind, text] = entryOf(OBSERVED, session.observed) ?? ["plain", session.observed];
  return pill(kind, text, session.why ?? undefined);
}

/** @param {number} seconds */
export function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/**
 * A description list. Pairs without a value are left out.
 * @param {Array<[string, unknown] | null | false>} pairs
 */
export function facts(pairs) {
  const isShown = (value) => value !== null && value !== undefined && value !== false && value !== "";
  const shown = pairs.filter((pair) => pair && isShown(pair[1]));
  return h(
    "dl",
    { class: "facts" },
    shown.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))),
  );
}
