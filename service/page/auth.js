// Signing in, and proof on both sides: the token is never sent, and nothing that is sent can be used again by whoever listens at this address
// after the service has ended. `service/src/browsers/mod.rs` describes it.

import { Problem } from "./problem.js";

const encoder = new TextEncoder();

/** Where this browser keeps its key, which no script can read. Another port of this machine has another storage. */
const DATABASE = "parhelia";
const STORE = "keys";
const OWN = "own";
/** An answer proves for so long that the service is there. */
const FRESH_MS = 1000;

/** @typedef {{browser: string | null, key: CryptoKey}} Identity */

/** @type {Identity | null} */
let identity = null;
/** @type {string | null} */
let visit = null;
/** @type {Promise<void> | null} */
let greeting = null;
let count = 0;
let proven = 0;

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
const HMAC = { name: "HMAC", hash: "SHA-256" };

/** @param {BufferSource} raw */
function keyOf(raw) {
  return crypto.subtle.importKey("raw", raw, HMAC, false, ["sign"]);
}

/**
 * @param {CryptoKey} key
 * @param {...(string | number)} lines
 */
function sign(key, ...lines) {
  return crypto.subtle.sign("HMAC", key, encoder.encode(lines.join("\n")));
}

/** The object store of keys. */
async function keys(mode) {
  const database = await new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("blocked"));
  });
  return { database, store: database.transaction(STORE, mode).objectStore(STORE) };
}

/**
 * Does something with the stored key. Where a browser stores nothing, the key lives as long as the tab.
 * @param {"readonly" | "readwrite"} mode
 * @param {(store: IDBObjectStore) => IDBRequest} act
 */
async function stored(mode, act) {
  try {
    const { database, store } = await keys(mode);
    const result = await new Promise((resolve, reject) => {
      const request = act(store);
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
    database.close();
    return result;
  } catch {
    return undefined;
  }
}

function another() {
  return new Problem(0, "unreachable", "another program answers at this address; nothing was sent to it. Check that the service runs");
}

async function reached(address, init) {
  try {
    return await fetch(address, { credentials: "omit", cache: "no-store", redirect: "error", ...init });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    visit = null;
    throw new Problem(0, "unreachable", "the service cannot be reached; check that `parhelia serve` runs");
  }
}

/** Has the service prove that it knows the key, before anything is asked. */
async function greet() {
  const asked = identity;
  const nonce = hex(crypto.getRandomValues(new Uint8Array(32)));
  const body = JSON.stringify({ browser: asked.browser, nonce });
  const response = await reached("/page/hello", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (response.status === 401) throw new Problem(401, "unauthorized", "sign in: this browser is not known any more");
  if (!response.ok) throw another();
  const answer = await response.json().catch(() => ({}));
  const proof = hex(await sign(asked.key, "service", nonce, String(answer.visit), location.origin));
  if (proof !== answer.proof) throw asked.browser ? another() : new Problem(401, "unauthorized", "the token is wrong, or another program answers");
  if (asked !== identity) return;
  visit = String(answer.visit);
  count = 0;
  proven = Date.now();
}

async function greeted() {
  identity ??= (await stored("readonly", (store) => store.get(OWN))) ?? null;
  if (!identity) throw new Problem(401, "unauthorized", "sign in");
  if (visit) return;
  greeting ??= greet().finally(() => (greeting = null));
  await greeting;
}

/**
 * Sends a request that is signed, and believes its answer only with a proof.
 * @param {string} address
 * @param {RequestInit & {body?: string}} init
 */
async function signed(address, init) {
  const { pathname, search } = new URL(address, location.href);
  const method = init.method ?? "GET";
  const [{ key }, of, number] = [identity, visit, (count += 1)];
  const digest = hex(await crypto.subtle.digest("SHA-256", encoder.encode(init.body ?? "")));
  const mac = hex(await sign(key, "request", of, number, method, pathname + search, digest, location.origin));
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Parhelia ${of} ${number} ${digest} ${mac}`);
  const response = await reached(address, { ...init, headers });
  const proof = response.headers.get("Parhelia-Proof");
  const isProven = proof !== null && proof === hex(await sign(key, "answer", of, number, response.status));
  if (isProven) proven = Date.now();
  // Whatever has gone wrong: who is there now shows before it is asked again.
  if ((!isProven || response.status >= 500) && visit === of) visit = null;
  return { response, isProven };
}

/**
 * Sends a request to the service, and to nobody else.
 * @param {string} address
 * @param {RequestInit & {body?: string}} [init]
 * @returns {Promise<Response>}
 */
export async function reach(address, init = {}) {
  // Nothing is asked of whoever has taken the service's place a moment ago.
  if (Date.now() - proven > FRESH_MS) doubt();
  await greeted();
  let { response, isProven } = await signed(address, init);
  if (!isProven && response.status === 401) {
    // The service was started anew, or too many pages are open. It has done nothing.
    await greeted();
    ({ response, isProven } = await signed(address, init));
  }
  if (!isProven && response.status !== 401) throw another();
  return response;
}

/** The browser's name in the list of those that are signed in. */
function name() {
  const found = /(Firefox|Edg|OPR|Chrome|Safari)\/[\d.]+/.exec(navigator.userAgent)?.[0] ?? "a browser";
  return `${found}, ${/\(([^;)]+)/.exec(navigator.userAgent)?.[1] ?? "unknown"}`;
}

/**
 * Signs in, with a key of this browser's own, which both sides derive.
 * @param {string} token
 */
export async function signIn(token) {
  if (!crypto.subtle) throw new Error("this browser lets no script sign here; open the page at 127.0.0.1, or by https");
  const raw = await keyOf(encoder.encode(token));
  const first = await sign(raw, "parhelia page");
  identity = { browser: null, key: await keyOf(first) };
  visit = null;
  try {
    await greeted();
    const of = visit;
    const body = JSON.stringify({ name: name() });
    const { response, isProven } = await signed("/page/browser", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (!isProven) throw another();
    if (!response.ok) throw new Problem(response.status, "failed", (await response.json()).detail);
    const { browser } = await response.json();
    const key = await keyOf(await sign(identity.key, "browser", browser, of));
    identity = { browser, key };
    await stored("readwrite", (store) => store.put(identity, OWN));
  } catch (problem) {
    identity = null;
    throw problem;
  } finally {
    visit = null;
  }
}

/** Gives the key up, here and at the service. */
export async function signOut() {
  try {
    await reach("/page/leave", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  } catch {
    // Without the service the key is given up here alone.
  }
  forget();
  await stored("readwrite", (store) => store.delete(OWN));
}

/** Has the service prove itself before the next request: a connection to it has ended. */
export function doubt() {
  visit = null;
}

/** Has the next request read the stored key again: another tab may have signed in or out. */
export function forget() {
  identity = null;
  visit = null;
}
