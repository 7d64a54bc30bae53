// The view of a session: its state, its actions and its timeline.

import { get, path, post } from "./api.js";
import { ask, tickField } from "./dialog.js";
import { h, keepingFocus, named, prose } from "./dom.js";
import { rolledBackTo } from "./graph.js";
import { announce, busy, showWarnings } from "./notices.js";
import { Question } from "./question.js";
import { reviewPill, troubles, wantedText } from "./sessions.js";
import { count, exact, facts, number, pill, short, since, span, statePill } from "./text.js";
import { Timeline } from "./timeline.js";

const ALIVE = ["starting", "live", "idle", "waiting", "elsewhere"];

/** The actions of a session. */
class Actions {
  /**
   * @param {() => any} session
   * @param {() => Promise<void>} refresh
   */
  constructor(session, refresh) {
    this.session = session;
    this.refresh = refresh;
  }

  address(verb) {
    return path("v1", "sessions", this.session().id, verb);
  }

  async done(answer, text) {
    showWarnings(answer.warnings);
    await this.refresh();
    announce(text);
  }

  async checkpoint() {
    const made = await post(this.address("checkpoints"));
    const id = short(made.checkpoint.id);
    await this.done(made, made.created ? `Checkpoint ${id} was made` : `Nothing has changed since checkpoint ${id}`);
  }

  async resume() {
    await this.done(await post(this.address("resume")), "The session was resumed");
  }

  pause() {
    const { name, observed } = this.session();
    const isAlive = ALIVE.includes(observed);
    ask({
      title: "Pause the session",
      body: [
        h("p", {}, "A checkpoint of ", named(name), " is made, and the session is set aside."),
        isAlive &&
          tickField({
            id: "end-agent",
            label: "End its agent as well",
            hint: "An agent that stays goes on at once when the session is resumed.",
          }),
      ],
      confirm: "Pause the session",
      act: async (form) => {
        const answer = await post(this.address("pause"), { end_agent: form.elements["end-agent"]?.checked ?? false });
        await this.done(answer, "The session is paused");
      },
    });
  }

  end() {
    const { name, observed } = this.session();
    ask({
      title: "End the session for good",
      body: [
        h("p", {}, named(name), " ends and cannot be resumed any more. Its checkpoints stay."),
        ALIVE.includes(observed) &&
          tickField({
            id: "leave-agent",
            label: "Leave its agent running",
            hint: "Without this, a session whose agent lives is not ended.",
          }),
      ],
      confirm: "End the session",
      kind: "danger",
      act: async (form) => {
        const answer = await post(this.address("end"), { leave_agent: form.elements["leave-agent"]?.checked ?? false });
        await this.done(answer, "The session has ended");
      },
    });
  }

  /** @param {boolean} canUndo */
  buttons(canUndo) {
    const { status, wanted, observed, runs, id } = this.session();
    if (status === "ended") return [];
    const button = (name, text, action, kind) => {
      const element = h(
        "button",
        { id: `do-${name}`, type: "button", class: kind, onclick: () => void busy(element, async () => action()) },
        text,
      );
      return element;
    };
    return [
      button("checkpoint", "Checkpoint now", () => this.checkpoint(), "primary"),
      runs.length > 0 && (wanted !== "running" || observed === "dead") && button("resume", "Resume", () => this.resume()),
      wanted !== "paused" && button("pause", "Pause…", () => this.pause()),
      canUndo && h("a", { id: "do-undo", class: "button", href: `#/undo/${encodeURIComponent(id)}` }, "Undo the rollback…"),
      button("end", "End…", () => this.end(), "danger"),
    ].filter(Boolean);
  }
}

function about(session) {
  const conversation = session.conversations.at(-1);
  const cost = session.totals.cost_usd;
  return facts([
    ["State", [statePill(session), " ", wantedText(session)]],
    ["Reason", session.why ?? session.status_reason],
    ["Review", reviewPill(session)],
    ["Workspace", session.workspace && h("code", {}, named(session.workspace.path))],
    ["Last checkpoint", session.last_checkpoint && since(session.last_checkpoint.created_at)],
    ["Checkpoints", number(session.checkpoints)],
    ["Policy", session.policy && named(session.policy)],
    ["Turns", conversation?.turn_count],
    ["Cost", cost === null ? null : `${cost.toFixed(2)} USD`],
    ["Worked in", session.totals.active_seconds > 0 && span(session.totals.active_seconds)],
    ["Id", session.id !== session.name && h("code", {}, named(session.id))],
    ["Last prompt", session.last_prompt && h("span", { class: "quote" }, prose(session.last_prompt))],
  ]);
}

function runsOf(runs) {
  const row = (run) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, run.epoch),
      h("td", {}, exact(run.started_at)),
      h("td", {}, run.ended_at ? exact(run.ended_at) : pill("good", "open")),
      h("td", {}, run.exit_reason ? prose(run.exit_reason) : "–"),
      h(
        "td",
        {},
        run.resumed_from
          ? h("a", { class: "id", href: `#/checkpoint/${encodeURIComponent(run.resumed_from)}` }, short(run.resumed_from))
          : "–",
      ),
    );
  const head = ["Run", "Began", "Ended", "Reason", "Resumed from"];
  const table = h(
    "table",
    { class: "plain-table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((text) => h("th", { scope: "col" }, text)),
      ),
    ),
    h("tbody", {}, runs.map(row)),
  );
  return h(
    "details",
    { id: "runs" },
    h("summary", {}, count(runs.length, "run")),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, table),
  );
}

function troublesOf(session) {
  const found = troubles(session);
  return found.length
    ? h(
        "ul",
        { class: "troubles" },
        found.map(([kind, text, why]) => h("li", {}, pill(kind, text), " ", prose(why))),
      )
    : null;
}

/**
 * @param {string} name
 * @returns {Promise<import("./app.js").View>}
 */
export async function showSession(name) {
  let { session, runs } = await get(path("v1", "sessions", name));
  const timeline = new Timeline(session.id);
  const buttons = h("p", { class: "buttons" });
  const facing = h("div", {});
  const draw = () => {
    const canUndo = timeline.checkpoints.some((one) => rolledBackTo(one));
    keepingFocus(() => {
      const isOpen = facing.querySelector("#runs")?.open;
      buttons.replaceChildren(...actions.buttons(canUndo));
      facing.replaceChildren(...[troublesOf(session), about(session), runs.length ? runsOf(runs) : null].filter(Boolean));
      if (isOpen) facing.querySelector("#runs").open = true;
    });
    timeline.draw(session.head);
  };
  const load = async () => {
    const answers = await Promise.all([get(path("v1", "sessions", session.id)), timeline.load()]);
    ({ session, runs } = answers[0]);
    await question.load(session);
    draw();
  };
  const actions = new Actions(() => session, load);
  const question = new Question(load);
  await Promise.all([timeline.load(), question.load(session)]);
  const element = h(
    "div",
    {},
    h("nav", { class: "crumbs", "aria-label": "Path" }, h("a", { href: "#/" }, "Sessions")),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, named(session.name)), buttons),
    question.element,
    facing,
    h("h2", {}, "Timeline"),
    timeline.element,
  );
  draw();
  return {
    title: session.name,
    element,
    refresh: async (changes) => {
      if (changes.length === 0 || changes.some((change) => !change.session || change.session === session.id)) await load();
    },
    shown: () => timeline.drawGraph(),
    keys: {
      x: () => timeline.chooseFocused(),
      c: () => timeline.comparison && (location.hash = timeline.comparison),
      u: () => (location.hash = "#/"),
    },
  };
}
