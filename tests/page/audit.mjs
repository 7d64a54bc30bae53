// Checks of every view: names and labels, headings, contrast, width, no inline script or style.

import assert from "node:assert/strict";

/** Faults of the view that is shown, each as a sentence. Runs in the browser. */
function faultsOfView() {
  const found = [];
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  const all = (selector) => [...document.querySelectorAll(selector)].filter(isShown);
  const textOf = (id) => document.getElementById(id)?.textContent ?? "";
  const nameOf = (element) => {
    const by = element.getAttribute("aria-labelledby");
    const named = by ? by.split(/\s+/).map(textOf).join(" ") : element.getAttribute("aria-label");
    return (named ?? element.textContent ?? "").trim();
  };
  const show = (element) => element.outerHTML.slice(0, 120);
  for (const element of all("button, a[href], summary")) if (!nameOf(element)) found.push(`no name: ${show(element)}`);
  for (const field of all("input, textarea, select")) {
    const labels = [...(field.labels ?? [])].map((label) => label.textContent.trim()).join("");
    if (!labels && !field.getAttribute("aria-label")) found.push(`no label: ${show(field)}`);
  }
  for (const table of all("main table:not(.diff)"))
    if (!table.querySelector("th")) found.push(`a table without headers: ${show(table)}`);
  if (all("h1").length !== 1) found.push(`${all("h1").length} headings of the first level`);
  const levels = all("h1, h2, h3").map((heading) => Number(heading.tagName[1]));
  levels.forEach(
    (level, i) =>
      level - (levels[i - 1] ?? 0) > 1 && found.push(`a heading of level ${level} behind one of level ${levels[i - 1] ?? 0}`),
  );
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => found.push(`two elements ${id}`));
  for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
    const named = `${element.getAttribute("aria-labelledby") ?? ""} ${element.getAttribute("aria-describedby") ?? ""}`;
    named
      .split(/\s+/)
      .filter(Boolean)
      .forEach((id) => document.getElementById(id) || found.push(`no element ${id} for ${show(element)}`));
  }
  for (const element of all("[tabindex]"))
    if (element.tabIndex > 0) found.push(`a place in the order of its own: ${show(element)}`);
  for (const image of all("img")) if (!image.hasAttribute("alt")) found.push(`no alt: ${show(image)}`);
  // The timeline gets the width of its graph by script; screenshots leave empty attributes.
  for (const element of document.querySelectorAll("body [style]:not([style=''], .timeline)"))
    found.push(`a style: ${show(element)}`);
  if (document.querySelectorAll("script:not([src]), style, iframe, object, embed").length)
    found.push("an inline script, a style or a frame");
  for (const link of document.querySelectorAll("a[href]")) {
    if (!["#", "/v1/"].some((start) => link.getAttribute("href").startsWith(start)))
      found.push(`a link to ${link.getAttribute("href")}`);
  }
  for (const element of document.querySelectorAll("*")) {
    for (const { name } of element.attributes) if (name.startsWith("on")) found.push(`a handler: ${show(element)}`);
  }
  const over = document.documentElement.scrollWidth - window.innerWidth;
  if (over > 0) found.push(`the page is ${over} pixels too wide`);
  return found;
}

/** Texts whose contrast with their ground is too low. Runs in the browser. */
function faintTexts() {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      known.set(colour, pen.getImageData(0, 0, 1, 1).data);
    }
    const [r, g, b, a] = known.get(colour);
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b]
      .map((value) => value / 255)
      .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement: element, data } = walker.currentNode;
    if (!data.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest("script, svg, option, .sr"))
      continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const [a, b] = [luminance(over(rgba(style.color), below)), luminance(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5))
      found.add(`${ratio.toFixed(2)}: ${data.trim().slice(0, 40)} (${element.className || element.tagName})`);
  }
  return [...found];
}

/** Fails if the view that is shown breaks one of these rules. */
export async function audit(page, view) {
  assert.deepEqual(await page.evaluate(faultsOfView), [], view);
  assert.deepEqual(await page.evaluate(faintTexts), [], `contrast of ${view}`);
}

/** Fails unless the focus is on the heading of the view, and the title of the document names it. */
export async function isHeaded(page, view) {
  const { tag, title, heading } = await page.evaluate(() => ({
    tag: document.activeElement?.tagName,
    title: document.title,
    heading: document.querySelector("h1")?.textContent,
  }));
  assert.equal(tag, "H1", `the focus after ${view} (${heading})`);
  assert.match(title, /.+ – parhelia$/);
}
