// The question of an agent: what its pane shows, and an answer that is typed into it.

import { get, path, post } from "./api.js";
import { h, prose } from "./dom.js";
import { announce, busy, showWarnings } from "./notices.js";

/** Keys of an answer, with their labels. */
const KEYS = [
  ["1", "1"],
  ["2", "2"],
  ["3", "3"],
  ["4", "4"],
  ["Up", "↑"],
  ["Down", "↓"],
  ["Tab", "Tab"],
  ["Space", "Space"],
  ["Enter", "Enter"],
  ["Escape", "Esc"],
];

/** The question of a session's agent. */
export class Question {
  /** @param {() => Promise<void>} refresh */
  constructor(refresh) {
    this.refresh = refresh;
    this.element = h("div", {});
    /** Name of what is shown. */
    this.shown = null;
  }

  /**
   * Shows what the agent asks, where it waits for an answer. What is shown already stays, with what was written.
   * @param {any} session
   */
  async load(session) {
    const address = path("v1", "sessions", session.id);
    const asked = session.observed === "waiting" ? await this.#asked(address) : null;
    const name = asked && (asked.question ?? asked.why);
    if (name === this.shown) return;
    this.shown = name;
    this.element.replaceChildren(...(asked ? this.#draw(address, asked) : []));
  }

  async #asked(address) {
    try {
      return await get(`${address}/question`);
    } catch (problem) {
      // Its pane cannot be seen, or it goes on already.
      if (problem.status === 409) return { why: problem.message };
      throw problem;
    }
  }

  #draw(address, { question, waits_for: waitsFor, screen, why }) {
    const title = h("h2", { id: "question-title" }, waitsFor ? ["Its agent waits: ", prose(waitsFor)] : "Its agent waits");
    if (why) return [title, h("p", { class: "quote" }, prose(why))];
    const answer = async (body) => {
      const { warnings } = await post(`${address}/answer`, { question, ...body });
      showWarnings(warnings);
      announce("The answer was typed");
      await this.refresh();
    };
    const key = ([name, label]) => {
      const button = h(
        "button",
        { id: `key-${name}`, type: "button", onclick: () => void busy(button, () => answer({ keys: [name] })) },
        label,
      );
      return button;
    };
    const text = h("input", { id: "answer-text", type: "text", autocomplete: "off", spellcheck: "false" });
    const send = h("button", { id: "send-answer", type: "submit", class: "primary" }, "Type it, and Enter");
    const submit = (event) => {
      event.preventDefault();
      if (text.value) void busy(send, () => answer({ text: text.value, keys: ["Enter"] }));
    };
    return [
      title,
      h("pre", { class: "screen", tabindex: "0", role: "region", "aria-labelledby": "question-title" }, prose(screen)),
      h("p", { class: "buttons" }, KEYS.map(key)),
      h(
        "form",
        { class: "answer", onsubmit: submit },
        h("label", { for: "answer-text" }, "Or a text"),
        text,
        h("span", { class: "buttons" }, send),
      ),
    ];
  }
}
