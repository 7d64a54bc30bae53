// Messages to the user: alerts, which stay until dismissed, and reports, which disappear.

import { h } from "./dom.js";

const REPORT_MS = 5000;

let reportTimer = 0;

/**
 * Reports a success, visibly and to screen readers.
 * @param {string} text
 */
export function announce(text) {
  const region = document.getElementById("status");
  region.textContent = "";
  // Emptied first, so that the same text is spoken again.
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
 * Shows warnings of a request that succeeded.
 * @param {string[] | undefined} warnings
 */
export function showWarnings(warnings) {
  (warnings ?? []).forEach((warning) => show("waits", warning));
}

/**
 * Runs an action of a button, which is marked as busy meanwhile. A failure is shown with a button to try again.
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
