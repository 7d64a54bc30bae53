// Folders and files of a checkpoint.

import { collect, filePath, get, path, send } from "./api.js";
import { flat, h, named, prose } from "./dom.js";
import { LINES_MAX } from "./hunks.js";
import { inParts } from "./lists.js";
import { busy } from "./notices.js";
import { bytes, count, entryOf, exact } from "./text.js";

/** Size of the largest file that is shown, in bytes. */
const SHOWN_MAX = 512 * 1024;
/** About so many entries of a folder are loaded at once. */
const ENTRIES_LOADED = 50_000;
/** Number of entries of a folder that are rendered at once. */
const ENTRIES_DRAWN = 500;
const SECTIONS = { folder: "files", file: "file" };

/**
 * The address of a folder (section `files`) or a file (section `file`).
 * @param {string} checkpoint
 * @param {"files" | "file"} section
 * @param {string} file
 */
export function address(checkpoint, section, file) {
  const parts = file ? file.split("/").map(encodeURIComponent) : [];
  return `#/checkpoint/${[encodeURIComponent(checkpoint), section, ...parts].join("/")}`;
}

/** Breadcrumbs of a path. */
function trail(checkpoint, file) {
  const names = file ? file.split("/") : [];
  const above = names
    .slice(0, -1)
    .map((name, i) => h("a", { href: address(checkpoint, "files", names.slice(0, i + 1).join("/")) }, named(name)));
  const root = names.length ? h("a", { href: address(checkpoint, "files", "") }, "workspace") : h("span", {}, "workspace");
  const last = names.length ? h("h2", { class: "trail-end" }, named(names.at(-1))) : null;
  return h("nav", { class: "trail", "aria-label": "Folders" }, root, above, last);
}

function nameOf(file) {
  return file.slice(file.lastIndexOf("/") + 1);
}

function describe(entry) {
  if (entry.kind === "folder") return `${count(entry.files ?? 0, "file")}, ${bytes(entry.bytes ?? 0)}`;
  return entry.size === undefined || entry.size === null ? "" : bytes(entry.size);
}

function row(checkpoint, entry) {
  const section = entryOf(SECTIONS, entry.kind);
  const name = named(nameOf(entry.path));
  const shown = section ? h("a", { href: address(checkpoint, section, entry.path), "data-step": "" }, name) : h("span", {}, name);
  return h(
    "tr",
    { class: "row" },
    h(
      "th",
      { scope: "row", class: `entry ${entry.kind}` },
      h("span", { class: "sr" }, `${entry.kind} `),
      shown,
      entry.target && [" → ", named(entry.target)],
    ),
    h("td", { class: "number" }, describe(entry)),
    h("td", { class: "mode" }, entry.mode),
    h("td", { class: "time" }, exact(entry.mtime)),
  );
}

function byName(a, b) {
  const isFolder = (entry) => Number(entry.kind !== "folder");
  return isFolder(a) - isFolder(b) || (a.path < b.path ? -1 : 1);
}

/**
 * @param {string} checkpoint
 * @param {string} folder
 */
export async function showFolder(checkpoint, folder) {
  const load = async (after) => {
    const page = await get(path("v1", "checkpoints", checkpoint, "entries"), { path: folder, after });
    return { entries: page.entries, next: page.after };
  };
  const { entries, next } = await collect(load, ENTRIES_LOADED);
  entries.sort(byName);
  const head = ["Name", "Size", "Mode", "Changed"];
  const body = h("tbody", {});
  const more = inParts(body, entries, (entry) => row(checkpoint, entry), ENTRIES_DRAWN, next);
  const table = h(
    "table",
    { class: "plain-table files" },
    h("caption", { class: "sr" }, `Files of ${folder ? flat(folder) : "the workspace"}`),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((text) => h("th", { scope: "col" }, text)),
      ),
    ),
    body,
  );
  const list = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Files" }, table);
  return h(
    "section",
    { "aria-label": "Files" },
    trail(checkpoint, folder),
    entries.length ? list : h("p", { class: "empty" }, "The folder is empty."),
    more,
  );
}

/**
 * Reads a file, up to `SHOWN_MAX` bytes.
 * @param {string} address
 * @returns {Promise<{content: Uint8Array, size: number | null, isWhole: boolean}>}
 */
async function readStart(address) {
  const stop = new AbortController();
  const response = await send(address, { signal: stop.signal });
  const length = response.headers.get("Content-Length");
  const size = length === null ? null : Number(length);
  const [pieces, reader] = [[], response.body.getReader()];
  let read = 0;
  let isWhole = size === null || size <= SHOWN_MAX;
  while (isWhole) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    read += value.length;
    isWhole = read <= SHOWN_MAX;
  }
  if (!isWhole) stop.abort();
  return { content: new Uint8Array(await new Blob(pieces).arrayBuffer()), size: isWhole ? read : size, isWhole };
}

/** Saves a file on the user's machine. A link to the service would not bear the token. */
async function save(address, name) {
  const url = URL.createObjectURL(await (await send(address)).blob());
  const link = document.createElement("a");
  link.setAttribute("href", url);
  link.setAttribute("download", name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** The content as text; null if it is binary. */
function textOf(content) {
  if (content.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch {
    return null;
  }
}

/** The first lines of a text, their numbers, and the number of all. */
function listing(whole) {
  const lines = whole.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const shown = lines.slice(0, LINES_MAX);
  const numbers = h("pre", { class: "numbers", "aria-hidden": "true" }, shown.map((_, i) => i + 1).join("\n"));
  const isDos = (line) => line.endsWith("\r");
  const text = shown.map((line) => (isDos(line) ? line.slice(0, -1) : line)).join("\n");
  const content = h("pre", { class: "content" }, h("code", { dir: "ltr" }, prose(text)));
  const about = lines.every(isDos) ? "DOS line ends" : lines.some(isDos) ? "some DOS line ends" : null;
  return {
    about: [count(lines.length, "line"), about],
    rest: lines.length - shown.length,
    box: h("div", { class: "scroll listing", tabindex: "0", role: "region", "aria-label": "Content" }, numbers, content),
  };
}

/** A button that saves the file. */
function saving(bytesAt, file, text) {
  const button = h("button", { type: "button", onclick: () => void busy(button, () => save(bytesAt, nameOf(file))) }, text);
  return button;
}

/**
 * @param {string} checkpoint
 * @param {string} file
 */
export async function showFile(checkpoint, file) {
  const bytesAt = filePath(checkpoint, file);
  const { content, size, isWhole } = await readStart(bytesAt);
  const text = isWhole ? textOf(content) : null;
  const listed = text ? listing(text) : null;
  const why = !isWhole ? "It is too long to be shown here." : text === "" ? "The file is empty." : "It is no text.";
  const sizes = size === null ? `more than ${bytes(SHOWN_MAX)}` : count(size, "byte");
  const rest = listed?.rest ?? 0;
  return h(
    "section",
    { "aria-label": "File" },
    trail(checkpoint, file),
    h(
      "div",
      { class: "head" },
      h("p", { class: "lead" }, [sizes, ...(listed?.about ?? [])].filter(Boolean).join(", ")),
      h("p", { class: "buttons" }, saving(bytesAt, file, "Download")),
    ),
    listed?.box ?? h("p", { class: "empty" }, why),
    rest > 0 &&
      h(
        "p",
        { class: "cut" },
        `${count(rest, "more line")} ${rest === 1 ? "is" : "are"} not shown. `,
        saving(bytesAt, file, "Download the whole file"),
      ),
  );
}
