// Conversations of checkpoints, message by message.

import { get, path } from "./api.js";
import { h, named, prose } from "./dom.js";
import { busy } from "./notices.js";
import { count, entryOf, exact, pill } from "./text.js";

const ROLES = { user: "User", assistant: "Agent", tool: "Tool result" };
/** Number of messages that are rendered at once. */
const DRAWN = 200;
/** Longer results of tools are collapsed. */
const LINES_MAX = 8;
const CHARACTERS_MAX = 700;

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
  return h(
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
    one.calls.length > 0 && h("ul", { class: "calls" }, one.calls.map(call)),
  );
}

/**
 * A list of messages. It starts with the last ones; a button adds earlier ones.
 * @param {any[]} all
 * @param {string} label
 */
export function messages(all, label) {
  const list = h("ol", { class: "messages", "aria-label": label });
  let first = Math.max(0, all.length - DRAWN);
  list.append(...all.slice(first).map(message));
  const more = h("button", { type: "button", onclick: () => earlier() }, "Earlier messages");
  const earlier = () => {
    const from = Math.max(0, first - DRAWN);
    list.prepend(...all.slice(from, first).map(message));
    first = from;
    more.hidden = first === 0;
  };
  more.hidden = first === 0;
  return h("div", {}, more, list);
}

/**
 * The conversation of a checkpoint, or what it adds to that of an older one; null if it holds none.
 * @param {string} checkpoint
 * @param {string} [since]
 */
export async function fetchConversation(checkpoint, since) {
  try {
    return await get(path("v1", "checkpoints", checkpoint, "conversation"), { since });
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
      found.left_out > 0 && `, and ${count(found.left_out, "earlier one")} that are not shown`,
    ),
    messages(found.messages, "Conversation, oldest message first"),
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
      shared.length ? messages(shared, "What both have") : h("p", { class: "empty" }, "They have nothing in common."),
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
    added?.continues
      ? ((await fetchConversation(older))?.messages ?? [])
      : (whole?.messages ?? []).filter((one) => inNewer.has(key(one)));
  const turns = (list) => count(list.length, "message");
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
    common(shared),
    h(
      "div",
      { class: "sides" },
      column("Only in the older one", onlyOlder, added?.continues ? "Nothing: the newer one has all of it." : "Nothing."),
      column("Only in the newer one", onlyNewer, added ? "Nothing." : "It holds no conversation."),
    ),
  );
}
