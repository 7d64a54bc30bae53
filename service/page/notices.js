// Messages to the user: problems, which stay until they are dismissed, and reports, which pass.

import { h } from "./dom.js";

const REPORT_MS = 5000;

let reportTimer = 0;

/**
 * Says that something was done. Screen readers speak it.
 * @param {string} text
 */
export function announce(text) {
  const region = document.getElementById("status");
  region.textContent = "";
  // Emptied first: the same text twice is spoken twice.
  requestAnimationFrame(() => region.replaceChildren(h("p", {}, text)));
  clearTimeout(reportTimer);
  reportTimer = setTimeout(() => region.replaceChildren(), REPORT_MS);
}

export function clearAlerts() {
  document.getElementById("alerts").replaceChildren();
}

/**
 * Shows a message until it is dismissed.
 * @param {string} kind bad, waits
 * @param {string} text
 * @param {{again?: () => void}} [ways]
 */
function show(kind, text, { again } = {}) {
  const region = document.getElementById("alerts");
  const close = () => {
    box.remove();
    document.getElementById("main").focus({ preventScroll: true });
  };
  const retry = () => {
    box.remove();
    again();
  };
  const box = h(
    "div",
    { class: `alert ${kind}` },
    h("p", {}, text),
    again && h("button", { type: "button", onclick: retry }, "Try again"),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss this message", onclick: close }, "Dismiss"),
  );
  for (const other of region.children) {
    if (other.firstChild?.textContent === text) other.remove();
  }
  region.append(box);
}

/**
 * Shows a problem.
 * @param {unknown} problem
 * @param {{again?: () => void}} [ways]
 */
export function alertProblem(problem, ways) {
  if (problem?.name === "AbortError" || problem?.status === 401) return;
  show("bad", problem instanceof Error ? problem.message : String(problem), ways);
}

/**
 * Shows what the user should know of something that was done.
 * @param {string[] | undefined} warnings
 */
export function showWarnings(warnings) {
  (warnings ?? []).forEach((warning) => show("waits", warning));
}

/**
 * Has a button do something that takes a while; a failure is shown, with a way to try again.
 * @param {HTMLButtonElement} button
 * @param {() => Promise<void>} action
 */
export async function busy(button, action) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    await action();
  } catch (problem) {
    alertProblem(problem, { again: () => void busy(button, action) });
  } finally {
    button.removeAttribute("aria-busy");
  }
}
