// The checkpoints of a session, newest first, with their graph.

import { get, path } from "./api.js";
import { h, keepingFocus, named } from "./dom.js";
import { draw, rolledBackTo } from "./graph.js";
import { announce, busy } from "./notices.js";
import { RowFacts } from "./rowfacts.js";
import { approvalPill, count, pill, short, since, tagPill } from "./text.js";

const PAGE = 100;
/** The API's limit of checkpoints for one request. */
const PAGE_MAX = 1000;

function link(id) {
  return h("a", { class: "id", href: `#/checkpoint/${encodeURIComponent(id)}`, title: id }, short(id));
}

/** Caption of a checkpoint: its message, or else its trigger. */
export function caption(checkpoint) {
  if (checkpoint.message) return named(checkpoint.message);
  const detail = checkpoint.trigger_detail;
  return detail ? [checkpoint.trigger, ": ", named(detail)] : checkpoint.trigger;
}

/** The timeline of a session. */
export class Timeline {
  /**
   * @param {string} session
   */
  constructor(session) {
    this.session = session;
    /** @type {any[]} */
    this.checkpoints = [];
    this.before = null;
    this.head = null;
    /** Checkpoints selected for a comparison, in the order of selection. */
    this.chosen = [];
    /** Rows by checkpoint, each with the state that it was made from. */
    this.rows = new Map();
    this.facts = new RowFacts(() => this.drawGraph());
    this.list = h("ol", { class: "rows", "aria-label": "Checkpoints, newest first" });
    this.empty = h("p", { class: "empty" }, "There are no checkpoints yet.");
    this.box = h("div", { class: "timeline" }, this.list);
    this.more = h(
      "button",
      { id: "older", type: "button", onclick: () => void busy(this.more, () => this.loadOlder()) },
      "Older checkpoints",
    );
    this.compareBar = h("div", { id: "compare-bar", class: "compare-bar", role: "status", hidden: true });
    this.element = h("div", {}, this.empty, this.box, h("p", { class: "buttons" }, this.more), this.compareBar);
    new ResizeObserver(() => this.drawGraph()).observe(this.list);
  }

  get address() {
    return path("v1", "sessions", this.session, "checkpoints");
  }

  /** Reloads as many of the newest checkpoints as are shown. */
  async load() {
    const limit = Math.min(Math.max(this.checkpoints.length, PAGE), PAGE_MAX);
    const page = await get(this.address, { limit });
    const last = page.checkpoints.at(-1)?.sequence ?? 0;
    const older = page.before === null ? [] : this.checkpoints.filter(({ sequence }) => sequence < last);
    this.checkpoints = [...page.checkpoints, ...older];
    if (older.length === 0) this.before = page.before;
  }

  async loadOlder() {
    const known = this.checkpoints.length;
    const page = await get(this.address, { limit: PAGE, before: this.before });
    this.checkpoints.push(...page.checkpoints);
    this.before = page.before;
    this.draw(this.head);
    announce(`${count(page.checkpoints.length, "older checkpoint")} loaded`);
    this.rows.get(this.checkpoints[known]?.id)?.element.querySelector("[data-step]").focus();
  }

  /** @param {string | null} head */
  draw(head) {
    this.head = head;
    this.chosen = this.chosen.filter((id) => this.checkpoints.some((one) => one.id === id));
    const targets = new Map(this.checkpoints.map((one) => [rolledBackTo(one), one.id]));
    const shown = this.checkpoints.map((one, i) => this.row(one, this.checkpoints[i + 1], targets.get(one.id)));
    keepingFocus(() => this.list.replaceChildren(...shown));
    this.box.hidden = shown.length === 0;
    this.empty.hidden = shown.length > 0;
    this.more.hidden = this.before === null;
    this.drawGraph();
    this.drawBar();
  }

  drawGraph() {
    if (this.box.isConnected) draw(this.box, this.checkpoints, this.head);
  }

  /**
   * The row of a checkpoint. An unchanged row is reused.
   * @param {any} one
   * @param {any} next The row below.
   * @param {string | undefined} safety Safety checkpoint of the rollback that went back to this.
   */
  row(one, next, safety) {
    const isChosen = this.chosen.includes(one.id);
    const state = JSON.stringify([one, next?.id, next?.epoch, safety, one.id === this.head, isChosen]);
    const known = this.rows.get(one.id);
    if (known?.state === state) return known.element;
    const element = this.drawRow(one, next, safety, isChosen);
    this.rows.set(one.id, { state, element });
    return element;
  }

  drawRow(one, next, safety, isChosen) {
    const notes = [
      one.parent && one.parent !== next?.id && ["follows ", link(one.parent)],
      rolledBackTo(one) && ["rolled back to ", link(rolledBackTo(one))],
      safety && ["a rollback from ", link(safety), " came back here"],
    ];
    const pick = h("input", {
      id: `pick-${one.id}`,
      type: "checkbox",
      checked: isChosen,
      "aria-label": `Compare checkpoint ${one.id}`,
      onchange: () => this.choose(one.id),
    });
    return h(
      "li",
      { class: `row${one.fenced ? " fenced" : ""}`, "data-id": one.id },
      h(
        "a",
        { id: `row-${one.id}`, class: "row-title", href: `#/checkpoint/${encodeURIComponent(one.id)}`, "data-step": "" },
        caption(one),
      ),
      h(
        "span",
        { class: "pills" },
        one.id === this.head && pill("info", "head", "the next checkpoint follows this one"),
        approvalPill(one.approval),
        one.fenced && pill("bad", "fenced run", "a newer run had taken over the session: it did not become the head"),
        one.trigger_detail === "safety" && pill("waits", rolledBackTo(one) ? "rollback" : "safety"),
        !one.complete && pill("waits", "incomplete"),
        one.verification?.ok === false && pill("bad", "damaged"),
        one.scan?.found > 0 && pill("waits", count(one.scan.found, "possible secret")),
        one.tags.map(tagPill),
      ),
      h(
        "span",
        { class: "meta" },
        since(one.created_at),
        one.message && h("span", {}, one.trigger),
        h("span", { class: "id", title: one.id }, short(one.id)),
        h("span", {}, count(one.files, "file")),
        one.conversation?.turn_count ? h("span", {}, count(one.conversation.turn_count, "turn")) : null,
        one.epoch > 0 && one.epoch !== next?.epoch ? h("span", {}, `run ${one.epoch} begins`) : null,
        one.annotations.length > 0 && h("span", {}, count(one.annotations.length, "remark")),
      ),
      this.facts.of(one),
      notes.some(Boolean) &&
        h(
          "span",
          { class: "notes" },
          notes.filter(Boolean).map((note) => h("span", {}, note)),
        ),
      h("label", { class: "pick" }, pick, h("span", { "aria-hidden": "true" }, "Compare")),
    );
  }

  /**
   * Selects a checkpoint for a comparison, or deselects it. Only the last two stay selected.
   * @param {string} id
   */
  choose(id) {
    this.chosen = this.chosen.includes(id) ? this.chosen.filter((one) => one !== id) : [...this.chosen, id].slice(-2);
    this.draw(this.head);
  }

  /** Selects or deselects the focused row. */
  chooseFocused() {
    const id = document.activeElement?.closest(".row")?.dataset.id;
    if (id) this.choose(id);
  }

  /** The address that compares the two selected checkpoints; null unless there are two. */
  get comparison() {
    const places = this.chosen.map((id) => this.checkpoints.findIndex((one) => one.id === id)).sort((a, b) => b - a);
    if (places.length < 2) return null;
    return `#/diff/${places.map((place) => encodeURIComponent(this.checkpoints[place].id)).join("/")}`;
  }

  drawBar() {
    this.compareBar.hidden = this.chosen.length === 0;
    const names = this.chosen.map((id) => h("span", { class: "id" }, short(id)));
    const clear = h("button", { id: "clear-choice", type: "button", onclick: () => this.clear() }, "Clear");
    const content = this.comparison
      ? [
          h("span", {}, "Chosen: ", names[0], " and ", names[1]),
          h("a", { id: "compare-chosen", class: "button primary", href: this.comparison }, "Compare them"),
          clear,
        ]
      : [h("span", {}, "Chosen: ", names[0], ". Choose another one to compare it with."), clear];
    keepingFocus(() => this.compareBar.replaceChildren(...(this.chosen.length ? content : [])));
  }

  clear() {
    this.chosen = [];
    this.draw(this.head);
  }
}
