// The browser, and a record of everything that the page must never do.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { chromium } from "playwright-core";

export const BASE = required("PARHELIA_PAGE").replace(/\/$/, "");
export const TOKEN = required("PARHELIA_TOKEN");
const BEARER = { Authorization: `Bearer ${TOKEN}` };
const SHOTS = required("PARHELIA_SHOTS");
const CHROMIUM = process.env.PARHELIA_CHROMIUM ?? "/usr/bin/chromium";

/** Browser settings of the screenshots. */
export const LOOKS = {
  light: { viewport: { width: 1280, height: 860 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 860 }, colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 740 }, colorScheme: "light", hasTouch: true },
};

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; the head of page.mjs says what it is`);
  return value;
}

mkdirSync(SHOTS, { recursive: true });

export function launch() {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

/** Records dialogs, errors, violations of the CSP, and requests to other hosts. */
function watch(page) {
  const faults = [];
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("pageerror", (error) => faults.push(`an error: ${error.stack}`));
  page.on("console", (message) => {
    // Error statuses are part of the tests.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      faults.push(`on the console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${BASE}/`)) faults.push(`a request to ${request.url()}`);
    if (request.url().includes(TOKEN)) faults.push("the token in an address");
  });
  page.on("popup", () => faults.push("a window"));
  return faults;
}

function mac(key, ...lines) {
  return createHmac("sha256", key).update(lines.join("\n"));
}

/** The visit and the count that a request is signed with. */
function signature(request) {
  return request.headers().authorization.split(" ").slice(1, 3);
}

/** A page in a browser context of its own. */
export class Visitor {
  static async come(browser, look = LOOKS.light) {
    const context = await browser.newContext(look);
    await context.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) =>
        console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
      );
    });
    const page = await context.newPage();
    const visitor = new Visitor(context, page, watch(page));
    page.on("request", (request) =>
      visitor.requests.push(JSON.stringify([request.url(), request.headers(), request.postData()])),
    );
    await page.goto(`${BASE}/`);
    return visitor;
  }

  /** A page that is signed in. */
  static async signedIn(browser, look) {
    const visitor = await Visitor.come(browser, look);
    await visitor.page.getByLabel("Token").fill(TOKEN);
    await visitor.page.getByRole("button", { name: "Sign in" }).click();
    await visitor.page.getByRole("heading", { name: "Sessions", level: 1 }).waitFor();
    return visitor;
  }

  constructor(context, page, faults) {
    Object.assign(this, { context, page, faults, requests: [] });
    page.on("response", (response) => {
      if (response.request().method() === "POST" && response.url().endsWith("/page/browser")) this.key = this.keyOf(response);
    });
    const route = page.route.bind(page);
    page.route = (pattern, act) => route(pattern, (asked) => act(this.answering(asked)));
  }

  /** The key that the page and the service have agreed on. */
  async keyOf(response) {
    const [visit] = signature(response.request());
    const { browser } = await response.json();
    return mac(mac(TOKEN, "parhelia page").digest(), "browser", browser, visit).digest();
  }

  /** A route whose answers in the service's place have the service's proof. */
  answering(route) {
    const fulfill = async (answer) => {
      if (answer.response) return route.fulfill(answer);
      const proof = mac(await this.key, "answer", ...signature(route.request()), answer.status ?? 200).digest("hex");
      return route.fulfill({ ...answer, headers: { ...answer.headers, "Parhelia-Proof": proof } });
    };
    const bound = (value) => (typeof value === "function" ? value.bind(route) : value);
    return new Proxy(route, { get: (_, name) => (name === "fulfill" ? fulfill : bound(route[name])) });
  }

  /** Opens a view of the page. */
  async open(hash) {
    const before = await this.page.evaluate(() => location.hash);
    if (before !== hash) {
      await this.page.evaluate((to) => {
        document.querySelector("h1")?.setAttribute("data-before", "");
        location.hash = to;
      }, hash);
      await this.page.locator("h1:not([data-before])").waitFor();
    }
    await this.settled();
  }

  async settled() {
    await this.page.locator("main:not([aria-busy]):not(:has([aria-busy=true]))").waitFor();
  }

  /** The answer of the API. */
  async get(path) {
    const response = await this.context.request.get(`${BASE}${path}`, { headers: BEARER });
    assert.equal(response.status(), 200, `${path}: ${await response.text()}`);
    return response.json();
  }

  async post(path, body = {}) {
    const response = await this.context.request.post(`${BASE}${path}`, { data: body, headers: BEARER });
    assert.ok(response.ok(), `${path}: ${await response.text()}`);
    return response.json();
  }

  async checkpoints(session) {
    return (await this.get(`/v1/sessions/${encodeURIComponent(session)}/checkpoints`)).checkpoints;
  }

  async shot(name) {
    await this.page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
  }

  /** Closes the page, and fails if anything was recorded. */
  async leave() {
    await this.context.close();
    assert.deepEqual(this.faults, []);
  }
}
