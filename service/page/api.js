// HTTP requests to the service.

import { forget, reach } from "./auth.js";
import { Problem } from "./problem.js";

export { signIn, signOut } from "./auth.js";
export { Problem };

/** True for segments that a browser resolves, and for an empty one: the path would name something else. */
export function isDots(segment) {
  return segment === "" || segment === "." || segment === "..";
}

/**
 * A path of the API. Each part becomes one segment, percent-encoded.
 * @param {...string} parts
 */
export function path(...parts) {
  if (parts.some(isDots)) throw new Error('no name in an address of the service may be empty, "." or ".."');
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * The path of a file of a checkpoint.
 * @param {string} checkpoint
 * @param {string} file
 */
export function filePath(checkpoint, file) {
  return path("v1", "checkpoints", checkpoint, "files", ...file.split("/"));
}

/**
 * @param {string} address
 * @param {Record<string, string | number | boolean | null | undefined>} query
 */
function withQuery(address, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const words = given.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`);
  return words.length ? `${address}?${words.join("&")}` : address;
}

/**
 * @param {Response} response
 * @returns {Promise<Problem>}
 */
async function problemOf(response) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    // The answer is no problem+json, for example that of a proxy.
  }
  const detail = typeof said.detail === "string" ? said.detail : `the service answered with status ${response.status}`;
  return new Problem(response.status, typeof said.title === "string" ? said.title : "failed", detail, response.headers.has("Retry-After"));
}

/**
 * Sends a request. A 401 also dispatches `signed-out` on the window.
 * @param {string} address
 * @param {RequestInit} [init]
 */
export async function send(address, init = {}) {
  try {
    const response = await reach(address, init);
    if (response.ok) return response;
    throw await problemOf(response);
  } catch (problem) {
    if (problem?.status === 401) {
      forget();
      window.dispatchEvent(new CustomEvent("signed-out", { detail: problem }));
    }
    throw problem;
  }
}

/**
 * @param {string} address
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 */
export async function get(address, query = {}) {
  return (await send(withQuery(address, query), { headers: { Accept: "application/json" } })).json();
}

/**
 * All sessions, or those that changed after a sequence of the journal, page by page. One that changes meanwhile comes twice; the later state counts.
 * @param {number | null} [changedAfter]
 * @returns {Promise<{sessions: any[], outbox: {waiting: number, failed: number}, sequence: number}>}
 */
export async function allSessions(changedAfter = null) {
  const found = new Map();
  let [before, outbox, sequence] = [null, { waiting: 0, failed: 0 }, null];
  do {
    const page = await get("/v1/sessions", before === null ? { changed_after: changedAfter } : { before });
    for (const session of page.sessions) found.set(session.id, session);
    ({ before, outbox } = page);
    // What changes while pages are read comes again with the next changes.
    sequence ??= page.sequence;
  } while (before !== null);
  return { sessions: [...found.values()], outbox, sequence };
}

/**
 * The entries of a paginated list, up to about `max`, and how to get the next ones; null if there are none.
 * @template T
 * @param {(at: any) => Promise<{entries: T[], next: any}>} load Loads the page at a place; null stands for the first one.
 * @param {number} max
 * @param {any} [at]
 * @returns {Promise<{entries: T[], next: (() => Promise<any>) | null}>}
 */
export async function collect(load, max, at = null) {
  const all = [];
  do {
    const { entries, next } = await load(at);
    all.push(...entries);
    at = next;
  } while (at !== null && all.length < max);
  return { entries: all, next: at === null ? null : () => collect(load, max, at) };
}

/** A random Idempotency-Key. */
function randomKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Idempotency keys of requests without a final answer, by request. */
const unanswered = new Map();

/** True if the request may have run, or may still run: a retry must reuse its key. */
function isOpen(problem) {
  const isUnderWay = problem.status === 409 && (problem.canRetry || problem.message.includes("Idempotency-Key"));
  return problem.status === 0 || problem.status === 408 || problem.status >= 500 || isUnderWay;
}

/**
 * Sends a POST with an Idempotency-Key. A retry after a lost answer reuses the key, so the service runs the request once.
 * @param {string} address
 * @param {object} [body]
 */
export async function post(address, body = {}) {
  const text = JSON.stringify(body);
  const request = `${address}\n${text}`;
  const key = unanswered.get(request) ?? randomKey();
  unanswered.set(request, key);
  try {
    const headers = { "Content-Type": "application/json", Accept: "application/json", "Idempotency-Key": key };
    const response = await send(address, { method: "POST", headers, body: text });
    unanswered.delete(request);
    return response.status === 204 ? {} : response.json();
  } catch (problem) {
    if (!(problem instanceof Problem && isOpen(problem))) unanswered.delete(request);
    throw problem;
  }
}
