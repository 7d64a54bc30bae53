// Differences of files that are no text: images beside each other, and bytes.

import { filePath, send } from "./api.js";
import { h } from "./dom.js";
import { bytes, count, number } from "./text.js";

/** Longer files are not loaded, in bytes. */
const LOADED_MAX = 8 * 1024 * 1024;
/** Larger images are not decoded, in pixels. */
const PIXELS_MAX = 40_000_000;
/** Bytes of a row. */
const WIDTH = 16;
/** Number of rows that are shown. */
const ROWS_MAX = 64;

/** The size of a JPEG image, from its first frame. */
function ofJpeg(view) {
  let at = 2;
  while (at + 9 < view.byteLength && view.getUint8(at) === 0xff) {
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { type: "image/jpeg", width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    at += 2 + view.getUint16(at + 2);
  }
  return null;
}

/**
 * The kind and size of an image, by its first bytes. Only kinds that hold pixels and nothing else are images here.
 * @param {Uint8Array} content
 */
export function imageOf(content) {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  const starts = (...start) => content.length > 24 && start.every((byte, i) => content[i] === byte);
  if (starts(0x89, 0x50, 0x4e, 0x47)) return { type: "image/png", width: view.getUint32(16), height: view.getUint32(20) };
  if (starts(0x47, 0x49, 0x46, 0x38)) return { type: "image/gif", width: view.getUint16(6, true), height: view.getUint16(8, true) };
  return starts(0xff, 0xd8, 0xff) ? ofJpeg(view) : null;
}

/** The image in a canvas, which runs and loads nothing; null for what is none, or too large. */
async function drawn(content, label) {
  const found = content && imageOf(content);
  if (!found || found.width * found.height > PIXELS_MAX) return null;
  try {
    const image = await createImageBitmap(new Blob([content], { type: found.type }));
    const canvas = h("canvas", { class: "image", role: "img", "aria-label": `${label}: ${image.width} × ${image.height} pixels` });
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
    return h("figure", {}, canvas, h("figcaption", {}, `${label}: ${number(image.width)} × ${number(image.height)}, ${bytes(content.length)}`));
  } catch {
    // It begins like an image, and is none.
    return null;
  }
}

function hex(content, at) {
  return Array.from(content.subarray(at, at + WIDTH), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** The rows of bytes that differ, at equal places. */
function rowsOf(before, after) {
  const rows = [];
  let differing = 0;
  for (let at = 0; at < Math.max(before.length, after.length); at += WIDTH) {
    const [was, is] = [hex(before, at), hex(after, at)];
    if (was === is) continue;
    differing += 1;
    if (rows.length < ROWS_MAX) rows.push([at, was, is]);
  }
  return { rows, differing };
}

function bytesTable(before, after) {
  const { rows, differing } = rowsOf(before, after);
  const row = ([at, was, is]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, at.toString(16).padStart(8, "0")),
      h("td", { class: "del" }, h("code", {}, was || "–")),
      h("td", { class: "add" }, h("code", {}, is || "–")),
    );
  const head = ["Place", "Before", "After"].map((text) => h("th", { scope: "col" }, text));
  const table = h("table", { class: "plain-table bytes" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(row)));
  return [
    h("p", { class: "hint" }, `${count(differing, "row")} of ${WIDTH} bytes differ.`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Bytes that differ" }, table),
    differing > rows.length && h("p", { class: "cut" }, `${number(differing - rows.length)} more rows are not shown.`),
  ];
}

/**
 * The difference of a file that is no text: images, or the bytes that differ. `links` leads to the whole files.
 * @param {string} older
 * @param {string} newer
 * @param {any} change
 * @param {() => unknown} links
 */
export async function binaryDiff(older, newer, { path: file, from, old, new: now }, links) {
  const isFile = (entry) => entry?.kind === "file";
  if ((old && !isFile(old)) || (now && !isFile(now))) return null;
  if (Math.max(old?.size ?? 0, now?.size ?? 0) > LOADED_MAX)
    return h("p", { class: "cut" }, `Files of more than ${bytes(LOADED_MAX)} are not compared here: `, links());
  const load = async (checkpoint, name) => new Uint8Array(await (await send(filePath(checkpoint, name))).arrayBuffer());
  const [before, after] = await Promise.all([old && load(older, from ?? file), now && load(newer, file)]);
  const images = (await Promise.all([drawn(before, "Before"), drawn(after, "After")])).filter(Boolean);
  const isOfTwo = before && after;
  return h(
    "div",
    {},
    images.length > 0 && h("div", { class: "images" }, images),
    isOfTwo && images.length === 0 && bytesTable(before, after),
    h("p", { class: "cut" }, links()),
  );
}
