// The entry point: routes location.hash to views.

import { Problem, isDots, signOut } from "./api.js";
import { showBegin } from "./begin.js";
import { showCheckpoint } from "./checkpoint.js";
import { showComparison } from "./compare.js";
import { flat, h } from "./dom.js";
import { listen, showHelp } from "./keys.js";
import { Live } from "./live.js";
import { alertProblem, announce, clearAlerts } from "./notices.js";
import { showUndo } from "./rollback.js";
import { showSearch } from "./search.js";
import { showSession } from "./session.js";
import { showSessions } from "./sessions.js";
import { showSignIn } from "./signin.js";
import { refreshAges } from "./text.js";

/**
 * A view that is shown.
 * @typedef {object} View
 * @property {string} title Title of the document.
 * @property {HTMLElement} element
 * @property {(changes: import("./live.js").Change[]) => Promise<void>} [refresh] Reloads its data.
 * @property {Record<string, () => void>} [keys] Handlers of its keyboard shortcuts.
 * @property {() => void} [shown] Runs after it was added to the document.
 */

const AGES_MS = 10_000;

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const live = new Live(changed, showConnection);

/** @type {View | null} */
let view = null;
/** Number of the last navigation. The result of an older, slower one is dropped. */
let asked = 0;
let isSignedIn = false;
let isRefreshing = false;
/** Changes since the last refresh; null if there are none. */
let pending = null;
let isFirst = true;

/** The parts of an address, and its query. */
function route() {
  const [address, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = address.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @returns {Promise<View>} */
function load() {
  const { parts, query } = route();
  const [kind, first, second, ...rest] = parts;
  const file = rest.join("/");
  if ([...parts, ...(file ? file.split("/") : [])].some(isDots))
    return Promise.reject(new Error('no part of an address may be empty, "." or ".."; go back to the sessions'));
  if (!kind) return showSessions();
  if (kind === "new" && !first) return showBegin();
  if (kind === "session" && first) return showSession(first);
  if (kind === "checkpoint" && first && (second !== "file" || file)) return showCheckpoint(first, second ?? "about", file);
  if (kind === "diff" && first && second) return showComparison(first, second, rest[0] ?? "files");
  if (kind === "undo" && first) return showUndo(first);
  if (kind === "search") return showSearch(query.get("q") ?? "", query.get("session") ?? "");
  return Promise.reject(new Error("there is no such view; go back to the sessions"));
}

async function navigate() {
  const turn = ++asked;
  clearAlerts();
  main.setAttribute("aria-busy", "true");
  let next;
  try {
    next = await load();
  } catch (problem) {
    if (turn !== asked || problem?.status === 401) return;
    next = failed(problem);
  }
  if (turn !== asked) return;
  enter();
  show(next);
}

/** Shows the navigation and starts listening to events, once the user is signed in. */
function enter() {
  if (isSignedIn) return;
  isSignedIn = true;
  nav.hidden = false;
  live.start();
}

/** @returns {View} */
function failed(problem) {
  // Another attempt helps where the service was asked, not where the address is wrong.
  alertProblem(problem, problem instanceof Problem ? { again: () => void navigate() } : {});
  const element = h(
    "div",
    {},
    h("h1", { tabindex: "-1" }, "Nothing to show"),
    h("p", {}, h("a", { href: "#/" }, "All sessions")),
  );
  return { title: "Nothing to show", element };
}

/** @param {View} next */
function show(next) {
  view = next;
  main.removeAttribute("aria-busy");
  main.replaceChildren(next.element);
  document.title = `${flat(next.title)} – parhelia`;
  for (const link of nav.querySelectorAll("a")) {
    if (link.getAttribute("href") === (location.hash || "#/")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  next.shown?.();
  main.querySelector(".sections [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  // On the first load, the focus stays at the top, before the skip link.
  if (!isFirst) focusHeading();
  isFirst = false;
}

function focusHeading() {
  window.scrollTo(0, 0);
  (main.querySelector("h1") ?? main).focus({ preventScroll: true });
}

/**
 * Refreshes the view. Changes that arrive meanwhile start another refresh.
 * @param {import("./live.js").Change[] | null} changes
 */
async function changed(changes) {
  if (changes) pending = [...(pending ?? []), ...changes];
  if (isRefreshing || !pending) return;
  const now = pending;
  pending = null;
  isRefreshing = true;
  try {
    await view?.refresh?.(now);
  } catch {
    // The header shows the state of the connection; the next event tries again.
  }
  isRefreshing = false;
  await changed(null);
}

function showConnection(state) {
  const texts = { live: "Live", connecting: "Connecting…", off: "Not connected" };
  const region = document.getElementById("connection");
  region.className = `connection ${state}`;
  if (region.textContent !== texts[state]) region.textContent = texts[state];
}

/** Shows the sign-in form. The address stays, so that signing in returns to the view. */
function signedOut() {
  if (!isSignedIn && view?.title === "Sign in") return;
  isSignedIn = false;
  live.stop();
  nav.hidden = true;
  asked += 1;
  document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  isFirst = false;
  show(showSignIn(navigate));
}

async function leave() {
  await signOut();
  announce("Signed out");
  signedOut();
}

function wire() {
  window.addEventListener("hashchange", () => isSignedIn && void navigate());
  window.addEventListener("signed-out", signedOut);
  window.addEventListener("pagehide", () => live.stop());
  window.addEventListener("pageshow", (event) => event.persisted && isSignedIn && live.start());
  document.getElementById("help").addEventListener("click", showHelp);
  document.getElementById("sign-out").addEventListener("click", () => void leave());
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const words = document.getElementById("search-words").value.trim();
    if (words) location.hash = `#/search?q=${encodeURIComponent(words)}`;
  });
  listen((key) => view?.keys?.[key]?.());
  setInterval(refreshAges, AGES_MS);
}

wire();
void navigate();
