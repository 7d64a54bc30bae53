// The view of a checkpoint, with its sections.

import { get, path } from "./api.js";
import { showConversation } from "./conversation.js";
import { decide } from "./decide.js";
import { h, keepingFocus, named, prose } from "./dom.js";
import { showEnvironment } from "./environment.js";
import { showFile, showFolder } from "./files.js";
import { Marks } from "./marks.js";
import { announce, busy } from "./notices.js";
import { showRollback } from "./rollback.js";
import { approvalPill, bytes, count, exact, facts, number, pill, short, since, whoDecided } from "./text.js";

const SECTIONS = [
  ["about", "About"],
  ["files", "Files"],
  ["conversation", "Conversation"],
  ["environment", "Environment"],
  ["rollback", "Roll back"],
];

function address(id, section) {
  return `#/checkpoint/${encodeURIComponent(id)}${section === "about" ? "" : `/${section}`}`;
}

/**
 * Links to the sections of a view.
 * @param {Array<[string, string]>} sections
 * @param {string} current
 * @param {(section: string) => string} addressOf
 */
export function sectionNav(sections, current, addressOf) {
  const link = ([name, text]) =>
    h("li", {}, h("a", { href: addressOf(name), "aria-current": name === current ? "page" : null }, text));
  return h("nav", { class: "sections", "aria-label": "Sections" }, h("ul", {}, sections.map(link)));
}

/** A button that copies a text to the clipboard. */
function copying(text) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    announce("Copied");
  };
  const button = h(
    "button",
    { type: "button", class: "quiet small", "aria-label": "Copy the id", onclick: () => void busy(button, copy) },
    "Copy",
  );
  return button;
}

function decisionOf(approval) {
  if (!approval) return "none";
  return [
    approvalPill(approval),
    approval.user && [" by ", named(whoDecided(approval))],
    [" ", since(approval.timestamp)],
    approval.policy && [", policy ", named(approval.policy)],
    approval.rule && [": ", named(approval.rule)],
    approval.reason && h("span", { class: "quote" }, prose(approval.reason)),
  ];
}

function gitOf(git) {
  if (!git) return null;
  return [
    git.branch ? named(git.branch) : "no branch",
    git.head && [" at ", h("code", {}, named(git.head.slice(0, 12)))],
    git.dirty && " with uncommitted changes",
  ];
}

function omittedOf({ excluded, unreadable, changing }) {
  const parts = [
    excluded && `${number(excluded)} excluded`,
    unreadable && `${number(unreadable)} unreadable`,
    changing && `${number(changing)} kept changing`,
  ];
  return parts.filter(Boolean).join(", ");
}

/**
 * What rules keep out of every view of a checkpoint, which whoever decides sees before anything else; and the last checkpoint before it that a
 * person approved.
 * @returns {Promise<{unseen: Node | null, approved: string | null}>}
 */
export async function unseenOf(id) {
  const { since, unseen } = await get(path("v1", "checkpoints", id, "left-out"));
  const rules = (text, list) => list.length > 0 && h("p", {}, text, list.map((rule, n) => [n > 0 && ", ", h("code", {}, named(rule))]));
  const one = ({ rule, entries, paths }) =>
    h("li", {}, h("code", {}, named(rule)), `: ${count(entries, "entry", "entries")}: `, named(paths.join(", ")), entries > paths.length && ", …");
  const entries = unseen.by_rule.reduce((sum, by) => sum + by.entries, 0);
  if (entries + unseen.rules_added.length + unseen.rules_removed.length === 0) return { unseen: null, approved: since };
  const element = h(
    "section",
    { id: "unseen", class: "unseen" },
    entries > 0 && h("p", {}, pill("bad", "not shown"), ` ${count(entries, "entry", "entries")} that rules leave out`),
    entries > 0 && h("ul", { class: "bare" }, unseen.by_rule.map(one)),
    rules(since ? "New rules since a person approved: " : "Rules that nobody approved: ", unseen.rules_added),
    rules("Rules that are gone since then: ", unseen.rules_removed),
  );
  return { unseen: element, approved: since };
}

function aboutOf(manifest) {
  const { workspace, conversation, metrics, verification, scan } = manifest;
  const parent = manifest.parent_checkpoint_id;
  const failed = Object.entries(manifest.parts).filter(([, part]) => part.status === "failed");
  return facts([
    ["Decision", decisionOf(manifest.approval)],
    ["Made", [since(manifest.created_at), ` (${exact(manifest.created_at)})`]],
    ["Reason", [manifest.trigger, manifest.trigger_detail && [": ", named(manifest.trigger_detail)]]],
    [
      "Follows",
      parent ? h("a", { class: "id", href: address(parent, "about"), title: parent }, short(parent)) : "none: it is the first",
    ],
    ["Id", [h("code", {}, manifest.id), " ", copying(manifest.id)]],
    [
      "Run",
      manifest.epoch > 0 && [
        `${manifest.epoch}`,
        manifest.fenced && [" ", pill("bad", "fenced run")],
        manifest.fenced && " a newer run had taken over the session",
      ],
    ],
    ["Workspace", h("code", {}, named(workspace.source))],
    ["Files", `${count(workspace.file_count, "file")}, ${bytes(workspace.size_bytes)}`],
    ["Left out", omittedOf(manifest.omitted)],
    ["Git", gitOf(manifest.git)],
    ["Turns", conversation?.turn_count],
    ["Tokens", conversation?.tokens_used && number(conversation.tokens_used)],
    ["Cost", typeof metrics.cost_estimate_usd === "number" && `${metrics.cost_estimate_usd.toFixed(2)} USD`],
    [
      "Complete",
      manifest.complete
        ? "yes"
        : [
            pill("waits", "no"),
            failed.map(([name, part]) => h("span", { class: "quote" }, `${name}: `, prose(part.error ?? "failed"))),
          ],
    ],
    [
      "Verified",
      verification && [
        verification.ok ? pill("good", "whole") : pill("bad", "damaged"),
        " ",
        since(verification.at),
        ` (${verification.level})`,
      ],
    ],
    ["Secrets", scan && (scan.found === 0 ? "none found" : secretsOf(scan))],
    [
      "Issues",
      manifest.linked_issues.length > 0 &&
        h(
          "ul",
          { class: "bare" },
          manifest.linked_issues.map((link) => h("li", {}, named(link.url))),
        ),
    ],
  ]);
}

function secretsOf(scan) {
  const findings = scan.findings ?? [];
  const one = ({ path: file, line, rule }) => h("li", {}, h("code", {}, named(file), `:${line}`), " ", rule);
  return [pill("waits", count(scan.found, "possible secret")), h("ul", { class: "bare" }, findings.map(one))];
}

/** Buttons that decide about a checkpoint: those that would change its state. */
export function decisionButtons(manifest, refresh) {
  const status = manifest.approval?.status;
  const button = (verdict, text, kind) =>
    h("button", { id: `do-${verdict}`, type: "button", class: kind, onclick: () => decide(manifest, verdict, refresh) }, text);
  return [
    status !== "approved" && button("approve", "Approve…", "good"),
    status !== "rejected" && button("reject", "Reject…", "danger"),
  ].filter(Boolean);
}

function buttonsOf(manifest, refresh, approved) {
  const parent = manifest.parent_checkpoint_id;
  const to = encodeURIComponent(manifest.id);
  return [
    ...decisionButtons(manifest, refresh),
    approved &&
      h("a", { id: "do-compare-approved", class: "button", href: `#/diff/${encodeURIComponent(approved)}/${to}` }, "Changes since the last approved"),
    parent &&
      h(
        "a",
        { id: "do-compare", class: "button", href: `#/diff/${encodeURIComponent(parent)}/${to}` },
        "Changes since the one before",
      ),
  ].filter(Boolean);
}

/** The session of a checkpoint. If the store has no such session, only its id. */
export async function sessionOf(id) {
  try {
    return (await get(path("v1", "sessions", id))).session;
  } catch (problem) {
    if (problem.status === 404) return { id, name: id };
    throw problem;
  }
}

/** @returns {Promise<{element: Node, title: string, draw?: (manifest: any) => void}>} */
async function sectionOf(manifest, session, section, file, refresh) {
  const { id } = manifest;
  if (section === "files") return { title: "Files", element: await showFolder(id, file) };
  if (section === "file") return { title: "Files", element: await showFile(id, file) };
  if (section === "conversation") return { title: "Conversation", element: await showConversation(id) };
  if (section === "environment") return { title: "Environment", element: showEnvironment(manifest.environment) };
  if (section === "rollback") return { title: "Roll back", element: showRollback(manifest, session) };
  const marks = new Marks(id, refresh);
  const about = h("div", {});
  const draw = (now) => {
    keepingFocus(() => about.replaceChildren(aboutOf(now)));
    marks.draw(now);
  };
  return { title: "About", element: h("div", {}, about, marks.element), draw };
}

/**
 * @param {string} selector
 * @param {string} section
 * @param {string} file Path of the folder or file that is shown.
 * @returns {Promise<import("./app.js").View>}
 */
export async function showCheckpoint(selector, section, file) {
  let manifest = await get(path("v1", "checkpoints", selector));
  const session = await sessionOf(manifest.session_id);
  const title = h("h1", { tabindex: "-1" }, "Checkpoint ", h("span", { class: "id" }, short(manifest.id)));
  const buttons = h("p", { class: "buttons" });
  const refresh = async () => {
    manifest = await get(path("v1", "checkpoints", manifest.id));
    draw();
  };
  const { unseen, approved } = await unseenOf(manifest.id);
  const part = await sectionOf(manifest, session, section, file, refresh);
  const draw = () => {
    keepingFocus(() => buttons.replaceChildren(...buttonsOf(manifest, refresh, approved)));
    part.draw?.(manifest);
  };
  const sessionLink = `#/session/${encodeURIComponent(session.id)}`;
  const element = h(
    "div",
    {},
    h(
      "nav",
      { class: "crumbs", "aria-label": "Path" },
      h("a", { href: "#/" }, "Sessions"),
      h("a", { href: sessionLink }, named(session.name)),
    ),
    h(
      "div",
      { class: "head" },
      h("div", {}, title, manifest.message && h("p", { class: "lead" }, named(manifest.message))),
      buttons,
    ),
    unseen,
    sectionNav(SECTIONS, section === "file" ? "files" : section, (name) => address(manifest.id, name)),
    part.element,
  );
  draw();
  return {
    title: `${part.title} of checkpoint ${short(manifest.id)}`,
    element,
    refresh: async (changes) => {
      if (changes.some(({ subject }) => subject === manifest.id)) await refresh();
    },
    keys: {
      a: () => document.getElementById("do-approve")?.click(),
      r: () => document.getElementById("do-reject")?.click(),
      u: () => (location.hash = sessionLink),
    },
  };
}
