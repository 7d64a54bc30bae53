// The list of sessions.

import { get } from "./api.js";
import { h, keepingFocus, named } from "./dom.js";
import { count, number, pill, since, statePill } from "./text.js";

const SWITCH_ID = "show-ended";

/** Kept as long as the page is open. */
let showsEnded = false;

/** Warnings about a session: kind, label, reason. */
export function troubles(session) {
  const found = [];
  if (session.set_aside) found.push(["waits", "set aside", session.set_aside]);
  if (session.failing) found.push(["bad", "checkpoints fail", session.failing.reason]);
  if (session.interrupted_rollback) found.push(["bad", "rollback interrupted", "files of two states are in the workspace"]);
  if (session.another_folder) found.push(["waits", "another folder", session.another_folder]);
  if (session.unsupervised)
    found.push(["waits", "no supervisor", "its agent lives without the process that makes its checkpoints"]);
  if (session.store_is_read_only) found.push(["bad", "store is read-only", "no checkpoints are made"]);
  if (session.open_in) found.push(["waits", "open elsewhere", `process ${session.open_in} has its conversation open`]);
  if (session.unseen) found.push(["waits", "maybe open elsewhere", session.unseen]);
  return found;
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

/** @returns {Promise<import("./app.js").View>} */
export async function showSessions() {
  const body = h("div", {});
  const line = h("p", { class: "lead" });
  let sessions = [];
  const draw = () => {
    const shown = sessions.filter((session) => showsEnded || session.status !== "ended");
    const hidden = sessions.length - shown.length;
    box.parentElement.hidden = !showsEnded && hidden === 0;
    line.textContent = summary(shown);
    const empty = sessions.length
      ? "All sessions have ended."
      : ["There are no sessions yet. ", h("code", {}, "parhelia session run -- AGENT"), " starts one."];
    keepingFocus(() => body.replaceChildren(shown.length ? table(shown) : h("p", { class: "empty" }, empty)));
  };
  const load = async () => {
    ({ sessions } = await get("/api/sessions"));
    draw();
  };
  const toggle = () => {
    showsEnded = box.checked;
    draw();
  };
  const box = h("input", { id: SWITCH_ID, type: "checkbox", checked: showsEnded, onchange: toggle });
  const element = h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      h("h1", { id: "view-title", tabindex: "-1" }, "Sessions"),
      h("p", { class: "tick" }, box, h("label", { for: SWITCH_ID }, "Show ended sessions")),
    ),
    line,
    body,
  );
  await load();
  return { title: "Sessions", element, refresh: load };
}
