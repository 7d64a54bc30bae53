// Rollbacks and undo: the plan first, then a button that executes it.

import { get, path, post } from "./api.js";
import { tickField } from "./dialog.js";
import { flat, h, named, prose } from "./dom.js";
import { inParts } from "./lists.js";
import { announce, busy } from "./notices.js";
import { count, entryOf, number, pill, short } from "./text.js";

/** Number of paths that are rendered at once. */
const PATHS_DRAWN = 200;

const ACTIONS = {
  delete: ["bad", "deleted"],
  replace: ["waits", "replaced"],
  create: ["good", "made again"],
  metadata: ["plain", "metadata"],
  link: ["plain", "linked"],
  keep: ["plain", "kept"],
};

const OPTIONS = [
  { id: "files_only", label: "Leave the conversation as it is", hint: "Only files go back." },
  { id: "stop", label: "End a live agent first", hint: "A session whose agent lives is not rolled back otherwise." },
];
const RARE_OPTIONS = [
  { id: "any_git_state", label: "Roll back during a merge or rebase", hint: "Git is left in the middle of it." },
  {
    id: "leave_unwritable",
    label: "Leave what cannot be put back",
    hint: "Files of another user, and read-only or single-file mounts, stay as they are.",
  },
  { id: "take_over", label: "Do not wait for another machine", hint: "Another machine or container may still have the session." },
];

function counted(actions) {
  const numbers = Object.keys(ACTIONS).map((kind) => [kind, actions.filter(({ action }) => action === kind).length]);
  return numbers.filter(([, found]) => found > 0);
}

/** Summary of a plan for the button. */
function effect(actions) {
  const parts = counted(actions).filter(([kind]) => ["delete", "replace", "create"].includes(kind));
  return parts.map(([kind, found]) => `${number(found)} ${ACTIONS[kind][1]}`).join(", ") || count(actions.length, "change");
}

function pathsOf(actions) {
  const order = Object.keys(ACTIONS);
  const sorted = [...actions].sort((a, b) => order.indexOf(a.action) - order.indexOf(b.action) || (a.path < b.path ? -1 : 1));
  const row = ({ path: file, action }) => {
    const [kind, text] = entryOf(ACTIONS, action) ?? ["plain", action];
    return h("li", {}, pill(kind, text), " ", h("code", {}, file === "." ? "(the folder itself)" : named(file)));
  };
  const list = h("ul", { class: "paths" });
  const more = inParts(list, sorted, row, PATHS_DRAWN);
  return [list, more];
}

function conversationOf({ with_conversation: goesBack, conversation }) {
  if (!goesBack) return h("p", {}, "The conversation stays as it is.");
  if (!conversation) return h("p", {}, "The conversation goes back as well.");
  const now = conversation.turns === null ? "it is gone now" : `it has ${count(conversation.turns, "turn")} now`;
  return [
    h(
      "p",
      {},
      `The conversation goes back to ${count(conversation.turns_then, "turn")}; ${now}.`,
      conversation.is_another && " The session is in another conversation now.",
    ),
    h(
      "dl",
      { class: "facts" },
      [
        ["Last prompt then", conversation.prompt_then],
        ["Last prompt now", conversation.prompt],
      ]
        .filter(([, text]) => text)
        .map(([term, text]) => h("div", {}, h("dt", {}, term), h("dd", { class: "quote" }, prose(text)))),
    ),
  ];
}

function sentences(list, kind = "hint") {
  return list.length
    ? h(
        "ul",
        { class: `sentences ${kind}` },
        list.map((text) => h("li", {}, prose(text))),
      )
    : null;
}

/** Entries that stay because they cannot be put back, with the reasons. */
function leftOf({ left }) {
  if (left.length === 0) return null;
  const row = ({ path: file, error }) => h("li", {}, h("code", {}, file ? named(file) : "(the folder itself)"), ": ", prose(error));
  return [h("p", {}, `${count(left.length, "path")} cannot be put back:`), h("ul", { class: "sentences warn" }, left.map(row))];
}

function planOf({ rollback, actions, truncated, warnings }) {
  const lost = actions.filter(({ action }) => action === "delete" || action === "replace").length;
  return h(
    "div",
    { class: "plan" },
    h(
      "p",
      { class: "pills" },
      counted(actions).map(([kind, found]) => pill(ACTIONS[kind][0], `${number(found)} ${ACTIONS[kind][1]}`)),
      actions.length === 0 && "No file changes.",
    ),
    truncated && h("p", { class: "cut" }, `Only the first ${number(actions.length)} paths are counted here; more would change.`),
    h(
      "p",
      {},
      lost ? `${count(lost, "path")} would lose what is in the folder now. ` : "Nothing in the folder would be lost. ",
      "A safety checkpoint is made first, so that this can be undone.",
    ),
    conversationOf(rollback),
    sentences([...new Set([...warnings, ...rollback.notices, ...(rollback.open_in ? [rollback.open_in] : [])])], "warn"),
    rollback.spared.length > 0 &&
      h(
        "p",
        {},
        "Stays as it is: ",
        rollback.spared.map((file) => [h("code", {}, named(file)), " "]),
      ),
    leftOf(rollback),
    actions.length > 0 && h("h2", {}, count(actions.length, "path")),
    pathsOf(actions),
  );
}

function doneOf({ rollback, actions, warnings }, session) {
  const safety =
    rollback.safety &&
    h("a", { class: "id", href: `#/checkpoint/${encodeURIComponent(rollback.safety)}` }, short(rollback.safety));
  const title = h("h2", { tabindex: "-1" }, rollback.changed ? "Rolled back" : "Nothing to do");
  const element = h(
    "div",
    { class: "plan done" },
    title,
    rollback.changed &&
      h("p", {}, `${effect(actions)}.`, safety && [" What was there before is in safety checkpoint ", safety, "."]),
    rollback.stash &&
      h(
        "p",
        {},
        rollback.stash.error
          ? ["Nothing was put into git's stash: ", prose(rollback.stash.error)]
          : ["Uncommitted changes are in git's stash: ", h("code", {}, named(rollback.stash.ref))],
      ),
    rollback.next && h("p", {}, "To let the agent go on: ", h("code", {}, named(rollback.next))),
    rollback.moved.length > 0 &&
      h(
        "p",
        {},
        "Kept aside: ",
        rollback.moved.map((file) => [h("code", {}, named(file)), " "]),
      ),
    leftOf(rollback),
    sentences([...new Set([...warnings, ...rollback.notices])], "warn"),
    h("p", {}, h("a", { class: "button primary", href: `#/session/${encodeURIComponent(session.id)}` }, "To the session")),
  );
  return { element, title };
}

/** A form with the options, the plan and the button of a rollback. */
class Rolling {
  /** @param {{address: string, session: any, confirm: string}} what */
  constructor({ address, session, confirm }) {
    Object.assign(this, { address, session, confirm });
    this.asked = 0;
    this.plan = h("div", {});
    /** Summary of the plan for screen readers. */
    this.spoken = h("p", { class: "sr", role: "status" });
    this.button = h("button", { id: "do-rollback", type: "submit", class: "danger" }, confirm);
    this.button.hidden = true;
    const options = (list) => list.map((option) => tickField(option));
    this.form = h(
      "form",
      { onsubmit: (event) => this.submit(event), onchange: () => void this.show() },
      h(
        "fieldset",
        {},
        h("legend", {}, "Options"),
        options(OPTIONS),
        h("details", {}, h("summary", {}, "More options"), options(RARE_OPTIONS)),
      ),
      this.spoken,
      this.plan,
      h("p", { class: "buttons" }, this.button),
    );
    this.element = h("section", { class: "rolling" }, this.form);
  }

  options(isDry) {
    const ticked = [...OPTIONS, ...RARE_OPTIONS].map(({ id }) => [id, this.form.elements[id].checked]);
    return { dry_run: isDry, ...Object.fromEntries(ticked) };
  }

  /** Fetches and shows the plan. */
  async show() {
    const turn = ++this.asked;
    this.button.hidden = true;
    this.plan.setAttribute("aria-busy", "true");
    try {
      const answer = await post(this.address, this.options(true));
      if (turn !== this.asked) return;
      this.plan.replaceChildren(planOf(answer));
      this.button.textContent = `${this.confirm}: ${effect(answer.actions)}`;
      this.button.hidden = false;
      this.spoken.textContent = `The plan: ${effect(answer.actions)}`;
    } catch (problem) {
      if (turn !== this.asked) return;
      const why = problem instanceof Error ? problem.message : String(problem);
      this.spoken.textContent = why;
      const again = h("button", { type: "button", onclick: () => void this.show() }, "Try again");
      this.plan.replaceChildren(h("div", { class: "alert bad" }, h("p", {}, prose(why)), again));
    } finally {
      if (turn === this.asked) this.plan.removeAttribute("aria-busy");
    }
  }

  submit(event) {
    event.preventDefault();
    if (this.button.hidden) return;
    void busy(this.button, async () => {
      const answer = await post(this.address, this.options(false));
      const { element, title } = doneOf(answer, this.session);
      this.element.replaceChildren(element);
      title.focus();
      announce(answer.rollback.changed ? "Rolled back" : "Nothing to do");
    });
  }
}

/**
 * @param {any} manifest
 * @param {{id: string, name: string}} session
 */
export function showRollback(manifest, session) {
  const name = flat(session.name);
  const rolling = new Rolling({
    address: path("v1", "checkpoints", manifest.id, "rollback"),
    session,
    confirm: `Roll ${name} back to ${short(manifest.id)}`,
  });
  void rolling.show();
  return rolling.element;
}

/**
 * @param {string} name
 * @returns {Promise<import("./app.js").View>}
 */
export async function showUndo(name) {
  const { session } = await get(path("v1", "sessions", name));
  const shownName = flat(session.name);
  const rolling = new Rolling({
    address: path("v1", "sessions", session.id, "undo"),
    session,
    confirm: `Undo the rollback of ${shownName}`,
  });
  void rolling.show();
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
    h("h1", { tabindex: "-1" }, "Undo the rollback"),
    rolling.element,
  );
  return { title: `Undo the rollback of ${session.name}`, element, keys: { u: () => (location.hash = sessionLink) } };
}
