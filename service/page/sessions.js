// The list of sessions.

import { allSessions } from "./api.js";
import { h, keepingFocus, named } from "./dom.js";
import { count, number, pill, since, statePill } from "./text.js";

const SWITCH_ID = "show-ended";

/** Kept as long as the page is open. */
let showsEnded = false;
let filter = "";
let order = "needs";

/** Warnings about a session: kind, label, reason. */
export function troubles(session) {
  const found = [];
  if (session.needs === "resume_failed") found.push(["bad", "cannot be resumed", session.set_aside]);
  else if (session.needs === "left_alone") found.push(["bad", "left to you", session.set_aside]);
  if (session.needs === "waiting") found.push(["waits", "waits for your answer", session.why]);
  if (session.failing) found.push(["bad", "checkpoints fail", session.failing.reason]);
  if (session.interrupted_rollback) found.push(["bad", "rollback interrupted", "files of two states are in the workspace"]);
  if (!session.workspace_exists && session.status !== "ended") found.push(["waits", "folder gone", `nothing is at ${session.workspace?.path ?? "its folder's path"}`]);
  if (session.another_folder) found.push(["waits", "another folder", session.another_folder]);
  if (session.hooks_silent) found.push(["waits", "no hooks", session.hooks_silent]);
  if (session.unsupervised) found.push(["waits", "no supervisor", `its supervisor is gone; ${makers(session.unsupervised)}`]);
  if (session.needs === "cut_off") found.push(["waits", "turn cut off", session.attention?.why]);
  if (session.store_is_full) found.push(["bad", "store is full", "checkpoints fail"]);
  if (session.store_is_read_only) found.push(["bad", "store is read-only", "no checkpoints are made"]);
  if (session.open_in) {
    const label = session.observed === "unknown" ? "maybe open" : "open elsewhere";
    found.push(["waits", label, `process ${session.open_in} has its conversation open`]);
  }
  if (session.unseen) found.push(["waits", "maybe open elsewhere", session.unseen]);
  return found;
}

/** Says who makes the checkpoints of an agent without a supervisor. */
function makers({ has_hooks: hasHooks, service_interval_seconds: seconds }) {
  const by = [hasHooks && "its hooks", seconds && `the service (every ${number(seconds)} s)`].filter(Boolean);
  return by.length ? `its checkpoints are made by ${by.join(" and ")}` : "no checkpoints of it are made any more";
}

export function reviewPill(session) {
  if (session.review === "pending") return pill("waits", "waits for review");
  if (session.review === "rejected") return pill("bad", "rejected");
  return null;
}

/** The wanted state of a session that has not ended. */
export function wantedText(session) {
  if (!session.wanted || session.status === "ended") return null;
  return h("span", { class: "wanted" }, `wanted ${session.wanted}`);
}

/** Needs of a person, the most urgent first. */
const NEEDS = ["resume_failed", "left_alone", "failing", "waiting", "cut_off", "review"];

/** Sessions that need a person first; the order is kept among the others. */
export function neediestFirst(sessions) {
  const place = (session) => (session.needs ? NEEDS.indexOf(session.needs) : NEEDS.length);
  return sessions.toSorted((a, b) => place(a) - place(b));
}

const time = (session) => Date.parse(session.last_checkpoint?.created_at ?? "") || 0;

/** Orders of the list, by the value of the choice. The order of the service is that of changes. */
const ORDERS = {
  needs: ["Needs you, then changed last", neediestFirst],
  changed: ["Changed last", (sessions) => sessions],
  name: ["Name", (sessions) => sessions.toSorted((a, b) => a.name.localeCompare(b.name))],
  checkpoint: ["Newest checkpoint", (sessions) => sessions.toSorted((a, b) => time(b) - time(a))],
  checkpoints: ["Most checkpoints", (sessions) => sessions.toSorted((a, b) => b.checkpoints - a.checkpoints)],
};

/** True of a session that has all words of a filter, in its name, folder, state, labels or last prompt. */
export function fits(session, words) {
  const labels = Object.entries(session.labels).map(([key, value]) => `${key}=${value}`);
  const state = [session.observed, session.status, session.needs, session.review];
  const text = [session.name, session.id, session.workspace?.path, session.last_prompt, ...state, ...labels].join("\n").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function row(session) {
  const isNamed = session.name !== session.id;
  const cell = (label, ...children) => h("td", { role: "cell", "data-label": label }, children);
  return h(
    "tr",
    { role: "row" },
    h(
      "th",
      { role: "rowheader", scope: "row" },
      h(
        "a",
        { id: `session-${session.id}`, href: `#/session/${encodeURIComponent(session.id)}`, "data-step": "" },
        named(session.name),
      ),
      isNamed && h("span", { class: "id" }, named(session.id)),
      Object.entries(session.labels).map(([key, value]) => h("span", { class: "label" }, named(`${key}=${value}`))),
      h("span", { class: "path" }, session.workspace ? named(session.workspace.path) : null),
      session.last_prompt &&
        h("span", { class: "prompt" }, h("span", { class: "sr" }, "last prompt: "), named(session.last_prompt)),
    ),
    cell(
      "State",
      statePill(session),
      wantedText(session),
      troubles(session).map(([kind, text, why]) => [" ", pill(kind, text, why)]),
    ),
    cell("Review", reviewPill(session) ?? h("span", { class: "none" }, "–")),
    cell("Last checkpoint", session.last_checkpoint ? since(session.last_checkpoint.created_at) : "none"),
    cell("Checkpoints", h("span", { class: "number" }, number(session.checkpoints))),
  );
}

function table(sessions) {
  const head = ["Session", "State", "Review", "Last checkpoint", "Checkpoints"];
  return h(
    "table",
    { class: "list", role: "table", "aria-labelledby": "view-title" },
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        head.map((text) => h("th", { role: "columnheader", scope: "col" }, text)),
      ),
    ),
    h("tbody", { role: "rowgroup" }, sessions.map(row)),
  );
}

function summary(sessions) {
  const waiting = sessions.filter((session) => session.review === "pending").length;
  const dead = sessions.filter(
    (session) => session.status !== "ended" && session.observed === "dead" && session.wanted === "running",
  ).length;
  const alive = sessions.filter((session) => ["live", "idle", "waiting"].includes(session.observed)).length;
  const troubled = sessions.filter((session) => troubles(session).length > 0).length;
  const parts = [
    count(sessions.length, "session"),
    `${number(alive)} with a live agent`,
    waiting && `${number(waiting)} to review`,
    dead && `${number(dead)} dead`,
    troubled && `${number(troubled)} in trouble`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** A few words about messages that were not delivered. */
function backlog({ waiting, failed }) {
  const parts = [
    waiting > 0 && `${count(waiting, "message")} to be delivered`,
    failed > 0 && `${count(failed, "message")} not delivered (parhelia outbox list)`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** @returns {Promise<import("./app.js").View>} */
export async function showSessions() {
  const body = h("div", {});
  const line = h("p", { class: "lead" });
  let sessions = [];
  let outbox = { waiting: 0, failed: 0 };
  let sequence = null;
  const draw = () => {
    const open = sessions.filter((session) => showsEnded || session.status !== "ended");
    const shown = ORDERS[order][1](open.filter((session) => fits(session, filter)));
    box.parentElement.hidden = !showsEnded && open.length === sessions.length;
    const left = open.length - shown.length;
    line.textContent = [summary(shown), left > 0 && `${number(left)} not shown`, backlog(outbox)].filter(Boolean).join(" · ");
    const empty = () => {
      if (left > 0) return "No session has these words.";
      if (sessions.length) return "All sessions have ended.";
      return ["There are no sessions yet. “New session” starts one, and so does ", h("code", {}, "parhelia session run -- AGENT"), "."];
    };
    keepingFocus(() => body.replaceChildren(shown.length ? table(shown) : h("p", { class: "empty" }, empty())));
  };
  const load = async () => {
    ({ sessions, outbox, sequence } = await allSessions());
    draw();
  };
  // What changed comes alone; states of processes change without an event, and are read from time to time.
  const refresh = async (changes) => {
    if (changes.length === 0 || sequence === null) return load();
    const answer = await allSessions(sequence);
    ({ outbox, sequence } = answer);
    const changed = new Map(answer.sessions.map((session) => [session.id, session]));
    const others = sessions.filter((session) => !changed.has(session.id));
    sessions = [...changed.values()].sort((a, b) => b.changed_sequence - a.changed_sequence).concat(others);
    draw();
  };
  const toggle = () => {
    showsEnded = box.checked;
    draw();
  };
  const box = h("input", { id: SWITCH_ID, type: "checkbox", checked: showsEnded, onchange: toggle });
  const words = h("input", {
    id: "filter-sessions",
    type: "search",
    value: filter,
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      filter = words.value.trim();
      draw();
    },
  });
  const choice = h(
    "select",
    {
      id: "order-sessions",
      onchange: () => {
        order = choice.value;
        draw();
      },
    },
    Object.entries(ORDERS).map(([value, [text]]) => h("option", { value, selected: value === order }, text)),
  );
  const element = h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      h("h1", { id: "view-title", tabindex: "-1" }, "Sessions"),
      h("a", { id: "new-session", class: "button", href: "#/new" }, "New session"),
      h("p", { class: "tick" }, h("label", { for: "filter-sessions" }, "Filter"), words),
      h("p", { class: "tick" }, h("label", { for: "order-sessions" }, "Order"), choice),
      h("p", { class: "tick" }, box, h("label", { for: SWITCH_ID }, "Show ended sessions")),
    ),
    line,
    body,
  );
  await load();
  return { title: "Sessions", element, refresh, keys: { n: () => (location.hash = "#/new") } };
}
