// Search for checkpoints by words.

import { allSessions, get } from "./api.js";
import { flat, h, named, prose } from "./dom.js";
import { busy } from "./notices.js";
import { count, number, pill, short, since } from "./text.js";

const LIMIT = 50;
/** The most that the API hands out. */
const LIMIT_MAX = 1000;

/**
 * An excerpt with its matching words marked.
 * @param {{field: string, text: string, matched: string[]}} excerpt
 */
function excerptOf({ field, text, matched }) {
  const parts = [];
  let end = 0;
  for (const word of matched) {
    const start = text.indexOf(word, end);
    if (start < 0 || !word) continue;
    parts.push(prose(text.slice(end, start)), h("mark", {}, prose(word)));
    end = start + word.length;
  }
  parts.push(prose(text.slice(end)));
  return h("li", {}, pill("plain", field), " ", h("span", { dir: "auto" }, parts));
}

function resultOf(found, names) {
  return h(
    "li",
    { class: "result row" },
    h(
      "p",
      { class: "result-head" },
      h(
        "a",
        { href: `#/checkpoint/${encodeURIComponent(found.checkpoint)}`, "data-step": "" },
        found.message ? named(found.message) : `Checkpoint ${short(found.checkpoint)}`,
      ),
      h(
        "span",
        { class: "meta" },
        h("span", { class: "id" }, short(found.checkpoint)),
        h("a", { href: `#/session/${encodeURIComponent(found.session)}` }, named(names.get(found.session) ?? found.session)),
        since(found.created_at),
      ),
    ),
    h("ul", { class: "excerpts" }, found.matches.map(excerptOf)),
  );
}

function form(words, session, sessions) {
  const field = h("input", {
    id: "words",
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "words-hint",
  });
  field.value = words;
  const option = (value, text) => h("option", { value, selected: value === session }, text);
  const select = h(
    "select",
    { id: "in-session" },
    option("", "all sessions"),
    sessions.map((one) => option(one.id, flat(one.name))),
  );
  const submit = (event) => {
    event.preventDefault();
    const query = new URLSearchParams({ q: field.value.trim() });
    if (select.value) query.set("session", select.value);
    location.hash = `#/search?${query}`;
  };
  return h(
    "form",
    { class: "search-form", role: "search", onsubmit: submit },
    h("p", { class: "field grow" }, h("label", { for: "words" }, "Words"), field),
    h("p", { class: "field" }, h("label", { for: "in-session" }, "In"), select),
    h("button", { type: "submit", class: "primary" }, "Search"),
    h(
      "p",
      { id: "words-hint", class: "hint" },
      "All words must be there. A phrase stands in double quotes, the beginning of a word as word*.",
    ),
  );
}

function leadOf({ matching, searched, found }) {
  const verb = matching === 1 ? "matches" : "match";
  const rest = matching > found.length ? `; the best ${found.length} are shown` : "";
  return `${count(matching, "checkpoint")} of ${number(searched)} ${verb}${rest}.`;
}

/**
 * @param {string} words
 * @param {string} session
 * @returns {Promise<import("./app.js").View>}
 */
export async function showSearch(words, session) {
  const [{ sessions }, results] = await Promise.all([
    allSessions(),
    words ? get("/v1/search", { q: words, session: session || null, limit: LIMIT }) : null,
  ]);
  const names = new Map(sessions.map((one) => [one.id, one.name]));
  const lead = results && leadOf(results);
  const rows = (found) => found.map((one) => resultOf(one, names));
  const list = results?.found.length ? h("ol", { class: "results", "aria-label": "Results, the best first" }, rows(results.found)) : null;
  const line = h("p", { class: "lead" }, lead);
  const showMore = async () => {
    const all = await get("/v1/search", { q: words, session: session || null, limit: LIMIT_MAX });
    const added = rows(all.found.slice(list.children.length));
    list.append(...added);
    line.textContent = all.matching > LIMIT_MAX ? `${leadOf(all)} More words find fewer.` : leadOf(all);
    more.remove();
    added[0]?.querySelector("a")?.focus();
  };
  const more = h("button", { type: "button", class: "more", onclick: () => void busy(more, showMore) }, "Show more");
  const element = h(
    "div",
    {},
    h("h1", { tabindex: "-1" }, words ? ["Search: ", named(words)] : "Search"),
    form(words, session, sessions),
    lead && line,
    list ?? (results && h("p", { class: "empty" }, "No checkpoint has these words.")),
    results && results.matching > results.found.length && more,
  );
  return { title: words ? `Search: ${words}` : "Search", element, keys: { u: () => (location.hash = "#/") } };
}
