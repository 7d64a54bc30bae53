// Facts about the checkpoints of a timeline that take requests of their own: the prompt, and what changed. They are loaded for rows in sight.

import { get, path } from "./api.js";
import { fetchConversation } from "./conversation.js";
import { h, named } from "./dom.js";
import { bytes, number } from "./text.js";

/** So many rows are asked for at a time. */
const WORKERS = 2;
const PROMPT_CHARACTERS_MAX = 160;
const PROMPT_BYTES_MAX = 640;

const WORDS = [
  ["added", "added"],
  ["deleted", "deleted"],
  ["modified", "modified"],
  ["renamed", "renamed"],
  ["type_changed", "of another type"],
  ["metadata", "metadata"],
];

/** What never changes, by checkpoint. */
const known = new Map();

function statOf(counts) {
  const parts = WORDS.filter(([kind]) => counts[kind] > 0).map(([kind, word]) => `${number(counts[kind])} ${word}`);
  const sizes = [counts.bytes_added > 0 && `+${bytes(counts.bytes_added)}`, counts.bytes_removed > 0 && `−${bytes(counts.bytes_removed)}`];
  return parts.length ? [parts.join(", "), ...sizes.filter(Boolean)].join(" ") : "no file changed";
}

/** The last prompt that came with a checkpoint; null if none did. */
async function promptOf({ id, parent, conversation }) {
  if (!conversation) return null;
  const found = await fetchConversation(id, parent ?? undefined, undefined, PROMPT_BYTES_MAX);
  return found?.messages.findLast(({ role, text }) => role === "user" && text.trim())?.text ?? null;
}

async function load(one) {
  if (!known.has(one.id)) {
    const diff = one.parent && get(path("v1", "checkpoints", one.parent, "diff"), { to: one.id, limit: 1 });
    // Whichever of them was deleted, there is nothing to tell.
    const [changes, prompt] = await Promise.all([diff, promptOf(one)].map((asked) => Promise.resolve(asked).catch(() => null)));
    known.set(one.id, { stat: changes ? statOf(changes.counts) : null, prompt });
  }
  return known.get(one.id);
}

/** Facts of the rows of a timeline. */
export class RowFacts {
  /** @param {() => void} changed Called when rows have changed. */
  constructor(changed) {
    this.changed = changed;
    this.queue = [];
    this.running = 0;
    this.asked = new WeakMap();
    this.sight = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        this.sight.unobserve(target);
        this.queue.push(target);
      }
      this.goOn();
    });
  }

  /** The element with the facts of a checkpoint, which fills itself. */
  of(one) {
    const element = h("span", { class: "facts-of-row" });
    if (known.has(one.id)) this.fill(element, known.get(one.id));
    else {
      this.asked.set(element, one);
      this.sight.observe(element);
    }
    return element;
  }

  fill(element, { stat, prompt }) {
    const cut = prompt && [...prompt.trim()].slice(0, PROMPT_CHARACTERS_MAX).join("");
    const more = cut && cut.length < prompt.trim().length ? "…" : "";
    const parts = [
      cut && h("span", { class: "prompt" }, h("span", { class: "sr" }, "prompt: "), named(cut + more)),
      stat && h("span", { class: "stat" }, stat),
    ];
    element.replaceChildren(...parts.filter(Boolean));
  }

  goOn() {
    while (this.running < WORKERS && this.queue.length > 0) {
      const element = this.queue.shift();
      if (!element.isConnected) {
        this.sight.observe(element);
        continue;
      }
      this.running += 1;
      void load(this.asked.get(element)).then((facts) => {
        this.fill(element, facts);
        this.running -= 1;
        this.changed();
        this.goOn();
      });
    }
  }
}
