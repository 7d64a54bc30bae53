// The view that compares two checkpoints: files, conversation, environment.

import { collect, get, path } from "./api.js";
import { binaryDiff } from "./binary.js";
import { decisionButtons, sectionNav, sessionOf, unseenOf } from "./checkpoint.js";
import { compareConversations } from "./conversation.js";
import { flat, h, keepingFocus, named } from "./dom.js";
import { compareEnvironments } from "./environment.js";
import { address as fileAddress } from "./files.js";
import { diffTable } from "./hunks.js";
import { inParts } from "./lists.js";
import { alertProblem } from "./notices.js";
import { age, bytes, entryOf, number, pill, short } from "./text.js";

const SECTIONS = [
  ["files", "Files"],
  ["conversation", "Conversation"],
  ["environment", "Environment"],
];
/** About so many changes, and checkpoints to choose from, are loaded at once. */
const LOADED = 10_000;
/** Number of changes that are rendered at once. */
const DRAWN = 300;
/** Number of files that "Open all" opens at most. */
const OPENED_MAX = 20;

const KINDS = {
  added: ["good", "added"],
  deleted: ["bad", "deleted"],
  modified: ["info", "modified"],
  renamed: ["plain", "renamed"],
  type_changed: ["waits", "another type"],
  metadata: ["plain", "metadata"],
};

function address(older, newer, section) {
  return `#/diff/${encodeURIComponent(older)}/${encodeURIComponent(newer)}${section === "files" ? "" : `/${section}`}`;
}

function sizes({ old, new: now }) {
  const text = (entry) => (typeof entry?.size === "number" ? bytes(entry.size) : null);
  const [before, after] = [text(old), text(now)];
  return before && after && before !== after ? `${before} → ${after}` : (after ?? before ?? "");
}

/** Differing metadata of an entry. */
function properties({ old, new: now, metadata }) {
  const names = [
    ["kind", "Kind"],
    ["mode", "Mode"],
    ["uid", "Owner"],
    ["gid", "Group"],
    ["target", "Target"],
    ["size", "Bytes"],
    ["mtime", "Changed"],
  ];
  const rows = names
    .filter(([name]) => old && now && old[name] !== now[name])
    .map(([name, text]) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, text),
        h("td", { class: "del" }, named(old[name] ?? "–")),
        h("td", { class: "add" }, named(now[name] ?? "–")),
      ),
    );
  const others = metadata.filter((name) => !names.some(([known]) => known === name));
  return [
    rows.length > 0 &&
      h(
        "table",
        { class: "plain-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["", "Before", "After"].map((text) => h("th", { scope: "col" }, text || h("span", { class: "sr" }, "Property"))),
          ),
        ),
        h("tbody", {}, rows),
      ),
    others.length > 0 && h("p", { class: "hint" }, `Differs: ${others.map(flat).join(", ")}`),
  ];
}

/** Links to a file as it was and as it is. */
function wholeFiles(older, newer, { path: file, from, old, new: now }) {
  const link = (checkpoint, one, text) => h("a", { href: fileAddress(checkpoint, "file", one) }, text);
  const links = [old && link(older, from ?? file, "the older file"), now && link(newer, file, "the newer file")].filter(Boolean);
  return links.length === 2 ? [links[0], " and ", links[1]] : links;
}

const NO_LINES = { binary: "The content is no text.", too_large: "The content is too long to be compared by line." };

/** An element that is filled with what is loaded. */
function binaryDetail(load) {
  const box = h("div", { "aria-busy": "true" });
  const fill = async () => {
    try {
      box.replaceChildren((await load()) ?? h("p", { class: "hint" }, NO_LINES.binary));
    } catch (problem) {
      alertProblem(problem, { again: () => void fill() });
    } finally {
      box.removeAttribute("aria-busy");
    }
  };
  void fill();
  return box;
}

function detail(older, newer, change) {
  if (change.diff)
    return [diffTable(change.diff, change.path, () => wholeFiles(older, newer, change)), change.metadata.some((name) => name !== "mtime") && properties(change)];
  const links = () => wholeFiles(older, newer, change);
  if (change.content === "binary") return [binaryDetail(() => binaryDiff(older, newer, change, links)), properties(change)];
  const why =
    entryOf(NO_LINES, change.content) ?? (change.old?.blob && change.old.blob === change.new?.blob && "The content is the same.");
  return [why && h("p", { class: "hint" }, why), properties(change)];
}

/** A changed entry. Its diff is fetched when it is opened. */
function changeOf(older, newer, change, index) {
  const [kind, text] = entryOf(KINDS, change.change) ?? ["plain", change.change];
  const box = h("div", { class: "change-body" });
  const load = async () => {
    box.setAttribute("aria-busy", "true");
    try {
      const found = await get(path("v1", "checkpoints", older, "diff"), { to: newer, path: change.path });
      const same = found.changes.find((one) => one.path === change.path) ?? change;
      box.replaceChildren(h("div", {}, detail(older, newer, same)));
    } catch (problem) {
      isLoaded = false;
      details.open = false;
      alertProblem(problem);
    } finally {
      box.removeAttribute("aria-busy");
    }
  };
  let isLoaded = false;
  const toggle = () => {
    if (!details.open || isLoaded) return;
    isLoaded = true;
    void load();
  };
  const details = h(
    "details",
    { class: "change row", ontoggle: toggle },
    h(
      "summary",
      { id: `change-${index}`, "data-step": "" },
      pill(kind, text),
      h(
        "span",
        { class: "path" },
        change.from && [named(change.from), " → "],
        change.path ? named(change.path) : "(the folder itself)",
      ),
      h("span", { class: "hint" }, sizes(change)),
    ),
    box,
  );
  return details;
}

function summary(counts) {
  const parts = Object.keys(KINDS)
    .filter((kind) => counts[kind] > 0)
    .map((kind) => pill(KINDS[kind][0], `${number(counts[kind])} ${KINDS[kind][1]}`));
  const size = [
    counts.bytes_added > 0 && `+${bytes(counts.bytes_added)}`,
    counts.bytes_removed > 0 && `−${bytes(counts.bytes_removed)}`,
  ]
    .filter(Boolean)
    .join(" ");
  return h("p", { class: "pills" }, parts, size && h("span", { class: "hint" }, size));
}

async function compareFiles(older, newer) {
  let counts = null;
  const load = async (after) => {
    const page = await get(path("v1", "checkpoints", older, "diff"), { to: newer, after });
    counts = page.counts;
    return { entries: page.changes, next: page.after };
  };
  const { entries: changes, next } = await collect(load, LOADED);
  if (changes.length === 0) return h("p", { class: "empty" }, "The files do not differ.");
  const list = h("div", { class: "changes" });
  const more = inParts(list, changes, (change, place) => changeOf(older, newer, change, place), DRAWN, next);
  const openAll = () => [...list.children].slice(0, OPENED_MAX).forEach((details) => (details.open = true));
  const label = changes.length > OPENED_MAX ? `Open the first ${OPENED_MAX}` : "Open all";
  if (changes.length === 1) list.firstChild.open = true;
  return h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      summary(counts),
      changes.length > 1 && h("p", { class: "buttons" }, h("button", { type: "button", onclick: openAll }, label)),
    ),
    list,
    more,
  );
}

/** Fields to choose the two checkpoints. */
function chooser(older, newer, checkpoints, hasMore, section) {
  const text = (one) => `${short(one.id)} · ${age(one.created_at)} · ${flat(one.message ?? one.trigger).slice(0, 50)}`;
  const field = (id, label, chosen) => {
    const known = checkpoints.some((one) => one.id === chosen);
    const option = (value, shown) => h("option", { value, selected: value === chosen }, shown);
    const select = h(
      "select",
      { id, onchange: go },
      !known && option(chosen, short(chosen)),
      checkpoints.map((one) => option(one.id, text(one))),
    );
    return h("p", { class: "field" }, h("label", { for: id }, label), select);
  };
  const values = () => ["older", "newer"].map((id) => document.getElementById(id).value);
  function go() {
    location.hash = address(...values(), section);
  }
  const swap = h("button", { type: "button", onclick: () => (location.hash = address(newer, older, section)) }, "Swap");
  return h(
    "div",
    { class: "chooser", role: "group", "aria-label": "Checkpoints to compare" },
    field("older", "Older", older),
    field("newer", "Newer", newer),
    swap,
    hasMore && h("p", { class: "hint" }, `Only the newest ${number(checkpoints.length)} checkpoints are listed; the session's timeline has all.`),
  );
}

/**
 * @param {string} olderSelector
 * @param {string} newerSelector
 * @param {string} section
 * @returns {Promise<import("./app.js").View>}
 */
export async function showComparison(olderSelector, newerSelector, section) {
  let [old, now] = await Promise.all([olderSelector, newerSelector].map((one) => get(path("v1", "checkpoints", one))));
  const [older, newer] = [old.id, now.id];
  const parts = { files: compareFiles, conversation: compareConversations, environment: compareEnvironments };
  const shown = Object.hasOwn(parts, section) ? section : "files";
  const load = async (before) => {
    const page = await get(path("v1", "sessions", now.session_id, "checkpoints"), { before });
    return { entries: page.checkpoints, next: page.before };
  };
  const listed = collect(load, LOADED);
  const asked = [sessionOf(now.session_id), listed, parts[shown](older, newer), unseenOf(newer)];
  const [session, { entries: checkpoints, next }, body, { unseen }] = await Promise.all(asked);
  const link = (id) => h("a", { class: "id", href: `#/checkpoint/${encodeURIComponent(id)}` }, short(id));
  const sessionLink = `#/session/${encodeURIComponent(now.session_id)}`;
  const buttons = h("p", { class: "buttons" });
  const decided = async () => {
    now = await get(path("v1", "checkpoints", newer));
    draw();
  };
  const draw = () => keepingFocus(() => buttons.replaceChildren(...decisionButtons(now, decided)));
  draw();
  const press = (verdict) => () => document.getElementById(`do-${verdict}`)?.click();
  const element = h(
    "div",
    {},
    h(
      "nav",
      { class: "crumbs", "aria-label": "Path" },
      h("a", { href: "#/" }, "Sessions"),
      h("a", { href: sessionLink }, named(session.name)),
    ),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "From ", link(older), " to ", link(newer)), buttons),
    unseen,
    chooser(older, newer, checkpoints, next !== null, shown),
    sectionNav(SECTIONS, shown, (name) => address(older, newer, name)),
    body,
  );
  // Who else decides meanwhile is shown.
  const refresh = async (changes) => {
    if (changes.some((change) => change.kind?.startsWith("checkpoint."))) await decided();
  };
  const keys = { u: () => (location.hash = sessionLink), a: press("approve"), r: press("reject") };
  return { title: `From ${short(older)} to ${short(newer)}`, element, refresh, keys };
}
