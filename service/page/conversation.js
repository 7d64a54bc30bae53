// Conversations of checkpoints, message by message.

import { get, path } from "./api.js";
import { h, named, prose } from "./dom.js";
import { busy } from "./notices.js";
import { bytes, count, entryOf, exact, pill } from "./text.js";

const ROLES = { user: "User", assistant: "Agent", tool: "Tool result" };
/** Number of messages that are rendered at once. */
const DRAWN = 200;
/** Longer results of tools are collapsed. */
const LINES_MAX = 8;
const CHARACTERS_MAX = 700;
/** The longest text that is shown whole, in bytes. */
const TEXT_BYTES_MAX = 4 * 1024 * 1024;

const bytesOf = (text) => new TextEncoder().encode(text).length;

/** A line about the rest of a text of which only the beginning came, with a button that shows all of it. */
function rest(one, element) {
  const left = one.text_bytes - bytesOf(one.text);
  if (!(left > 0)) return null;
  const show = async () => {
    const { messages: found } = await get(one.address, {
      since: one.since,
      before: one.number + 1,
      limit: 1,
      text_bytes: TEXT_BYTES_MAX,
    });
    element().replaceWith(message({ ...one, text: found[0].text }));
  };
  const button = h("button", { type: "button", class: "small", onclick: () => void busy(button, show) }, "Show all");
  const canShow = one.address && one.text.length < TEXT_BYTES_MAX / 4;
  return h("p", { class: "cut" }, `${bytes(left)} more are not shown. `, canShow && button);
}

function textOf({ role, text }) {
  if (!text) return null;
  const block = h("div", { class: role === "tool" ? "output" : "text", dir: "auto" }, prose(text));
  const lines = text.split("\n");
  if (role !== "tool" || (lines.length <= LINES_MAX && text.length <= CHARACTERS_MAX)) return block;
  return h("details", {}, h("summary", {}, count(lines.length, "line"), ": ", named(lines[0].slice(0, 80))), block);
}

/** One message. */
export function message(one) {
  const role = entryOf(ROLES, one.role);
  const call = ({ tool, about }) => h("li", {}, h("span", { class: "tool-name" }, named(tool)), " ", h("code", {}, named(about)));
  const element = h(
    "li",
    { class: `message ${role ? one.role : "other"}` },
    h(
      "p",
      { class: "by" },
      h("strong", {}, role ?? named(one.role)),
      one.is_error && pill("bad", "failed"),
      one.at && h("time", { datetime: one.at }, exact(one.at)),
    ),
    textOf(one),
    rest(one, () => element),
    one.calls.length > 0 && h("ul", { class: "calls" }, one.calls.map(call)),
  );
  return element;
}

/**
 * A list of messages. It starts with the last ones; a button adds earlier ones, and loads those that did not come.
 * @param {any[]} all
 * @param {string} label
 * @param {(() => Promise<{messages: any[], earlier: any}>) | null} [load]
 */
export function messages(all, label, load = null) {
  const list = h("ol", { class: "messages", "aria-label": label });
  let first = Math.max(0, all.length - DRAWN);
  list.append(...all.slice(first).map(message));
  const more = h("button", { type: "button", onclick: () => void busy(more, earlier) }, "Earlier messages");
  const earlier = async () => {
    if (first === 0) {
      const page = await load();
      first = page.messages.length;
      all = page.messages;
      load = page.earlier;
    }
    const from = Math.max(0, first - DRAWN);
    list.prepend(...all.slice(from, first).map(message));
    first = from;
    more.hidden = first === 0 && !load;
  };
  more.hidden = first === 0 && !load;
  return h("div", {}, more, list);
}

/**
 * The conversation of a checkpoint, or what it adds to that of an older one; null if it holds none. Of a long one the last part, and `earlier`, which
 * loads the part before.
 * @param {string} checkpoint
 * @param {string} [since]
 * @param {number} [before]
 * @param {number} [textBytes] Longest beginning of a text.
 */
export async function fetchConversation(checkpoint, since, before, textBytes) {
  const address = path("v1", "checkpoints", checkpoint, "conversation");
  try {
    const found = await get(address, { since, before, text_bytes: textBytes });
    found.messages.forEach((one, i) => Object.assign(one, { address, since, number: found.left_out + i }));
    found.earlier = found.left_out > 0 ? () => fetchConversation(checkpoint, since, found.left_out) : null;
    return found;
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}

/** @param {string} checkpoint */
export async function showConversation(checkpoint) {
  const found = await fetchConversation(checkpoint);
  if (!found) return h("p", { class: "empty" }, "The checkpoint holds no conversation.");
  return h(
    "section",
    { "aria-label": "Conversation" },
    h(
      "p",
      { class: "lead" },
      count(found.messages.length, "message"),
      found.left_out > 0 && `, and ${count(found.left_out, "earlier one")}`,
    ),
    messages(found.messages, "Conversation, oldest message first", found.earlier),
  );
}

/** A key that is equal for the same message in two checkpoints. */
function key({ record, role, at, text }) {
  return record ?? JSON.stringify([role, at, text]);
}

function column(title, found, note) {
  const content = found.length ? messages(found, title) : h("p", { class: "empty" }, note);
  return h("section", { class: "side", "aria-label": title }, h("h2", {}, title), content);
}

/** A button that fetches and shows the messages that both have. */
function common(fetchThem) {
  const box = h("div", {});
  const button = h("button", { type: "button" }, "Show what both have");
  const open = async () => {
    const shared = await fetchThem();
    box.replaceChildren(
      shared.messages.length
        ? messages(shared.messages, "What both have", shared.earlier)
        : h("p", { class: "empty" }, "They have nothing in common."),
    );
    button.hidden = true;
  };
  button.addEventListener("click", () => void busy(button, open));
  return h("div", { class: "common" }, button, box);
}

/**
 * The conversations of two checkpoints side by side, without the messages that both have.
 * @param {string} older
 * @param {string} newer
 */
export async function compareConversations(older, newer) {
  const added = await fetchConversation(newer, older);
  const whole = added?.continues ? null : await fetchConversation(older);
  if (!added && !whole) return h("p", { class: "empty" }, "Neither checkpoint holds a conversation.");
  const inNewer = new Set((added?.messages ?? []).map(key));
  const inOlder = new Set((whole?.messages ?? []).map(key));
  const onlyOlder = (whole?.messages ?? []).filter((one) => !inNewer.has(key(one)));
  const onlyNewer = (added?.messages ?? []).filter((one) => !inOlder.has(key(one)));
  const shared = async () =>
    (added?.continues && (await fetchConversation(older))) || {
      messages: added?.continues ? [] : (whole?.messages ?? []).filter((one) => inNewer.has(key(one))),
    };
  const turns = (list) => count(list.length, "message");
  const left = [
    [newer, added],
    [older, whole],
  ].filter(([, found]) => found?.left_out > 0);
  return h(
    "div",
    {},
    h(
      "p",
      { class: "lead" },
      added?.continues
        ? `The newer one continues the conversation with ${turns(onlyNewer)}.`
        : `Only in the older one: ${turns(onlyOlder)}. Only in the newer one: ${turns(onlyNewer)}.`,
    ),
    left.map(([id, found]) =>
      h(
        "p",
        { class: "cut" },
        `${count(found.left_out, "earlier message")} of …${id.slice(-6)} are not compared. `,
        h("a", { href: `#/checkpoint/${encodeURIComponent(id)}/conversation` }, "The whole conversation"),
      ),
    ),
    common(shared),
    h(
      "div",
      { class: "sides" },
      column("Only in the older one", onlyOlder, added?.continues ? "Nothing: the newer one has all of it." : "Nothing."),
      column("Only in the newer one", onlyNewer, added ? "Nothing." : "It holds no conversation."),
    ),
  );
}
