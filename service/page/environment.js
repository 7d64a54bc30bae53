// The environment of an agent, and differences of two.

import { get, path } from "./api.js";
import { h, named } from "./dom.js";
import { entryOf, number, since } from "./text.js";

const NAMES = {
  claude_code: "Claude Code",
  agent: "Agent",
  plugins: "Plugins",
  mcp_servers: "MCP servers",
  python: "Python",
  python_version: "Python",
  python_executable: "Python's program",
  python_packages: "Python packages",
  packages: "Packages",
  pip_freeze_hash: "Hash of the package list",
  variables: "Variables",
  captured_at: "Captured",
};

function nameOf(part) {
  return entryOf(NAMES, part) ?? part;
}

function textOf(value) {
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A part with several values. */
function group(name, values) {
  const row = ([key, value]) => h("tr", {}, h("th", { scope: "row" }, named(key)), h("td", {}, named(textOf(value))));
  const entries = Object.entries(values);
  const table = h("table", { class: "plain-table pairs" }, h("tbody", {}, entries.map(row)));
  return h(
    "details",
    { open: entries.length <= 30 },
    h("summary", {}, nameOf(name), h("span", { class: "hint" }, ` ${number(entries.length)}`)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": nameOf(name) }, table),
  );
}

/** @param {Record<string, unknown> | null | undefined} environment */
export function showEnvironment(environment) {
  const entries = Object.entries(environment ?? {}).filter(([, value]) => value !== null);
  if (entries.length === 0) return h("p", { class: "empty" }, "The checkpoint holds no environment.");
  const single = entries.filter(([, value]) => typeof value !== "object");
  const groups = entries.filter(([, value]) => typeof value === "object" && Object.keys(value).length > 0);
  return h(
    "section",
    { "aria-label": "Environment", class: "environment" },
    h(
      "dl",
      { class: "facts" },
      single.map(([name, value]) =>
        h("div", {}, h("dt", {}, nameOf(name)), h("dd", {}, name === "captured_at" ? since(value) : named(value))),
      ),
    ),
    groups.map(([name, values]) => group(name, values)),
  );
}

function change({ section, name, field, before, after }) {
  const side = (kind, value) => h("td", { class: value === null ? "none" : kind }, value === null ? "–" : named(value));
  return h(
    "tr",
    {},
    h("td", {}, nameOf(section)),
    h("th", { scope: "row" }, named(name ?? nameOf(section)), field && [" ", h("span", { class: "hint" }, named(field))]),
    side("del", before),
    side("add", after),
  );
}

/**
 * @param {string} older
 * @param {string} newer
 */
export async function compareEnvironments(older, newer) {
  const { changes, unknown } = await get(path("v1", "checkpoints", newer, "environment"), { since: older });
  const head = ["Part", "Name", "Before", "After"];
  const table = h(
    "table",
    { class: "plain-table" },
    h("caption", { class: "sr" }, "Differences of the environments"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((text) => h("th", { scope: "col" }, text)),
      ),
    ),
    h("tbody", {}, changes.map(change)),
  );
  return h(
    "div",
    {},
    changes.length
      ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences" }, table)
      : h("p", { class: "empty" }, "The environments do not differ."),
    unknown.length > 0 && h("p", { class: "hint" }, `Not captured by one of them: ${unknown.map(nameOf).join(", ")}.`),
  );
}
