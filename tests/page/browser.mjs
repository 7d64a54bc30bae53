// A browser that looks at the page, and everything that it should never do meanwhile.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { chromium } from "playwright-core";

export const BASE = required("PARHELIA_PAGE").replace(/\/$/, "");
export const TOKEN = required("PARHELIA_TOKEN");
const SHOTS = required("PARHELIA_SHOTS");
const CHROMIUM = process.env.PARHELIA_CHROMIUM ?? "/usr/bin/chromium";

/** Windows of the screenshots. */
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

/** Notes what a page does that it never should: dialogs, errors, violations of its policy, requests to other hosts. */
function watch(page) {
  const faults = [];
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("pageerror", (error) => faults.push(`an error: ${error.stack}`));
  page.on("console", (message) => {
    // Answers with an error's status are a part of the tests.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) faults.push(`on the console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${BASE}/`)) faults.push(`a request to ${request.url()}`);
    if (request.url().includes(TOKEN)) faults.push("the token in an address");
  });
  page.on("popup", () => faults.push("a window"));
  return faults;
}

/** A page of a new visitor. */
export class Visitor {
  static async come(browser, look = LOOKS.light) {
    const context = await browser.newContext(look);
    await context.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
    });
    const page = await context.newPage();
    const visitor = new Visitor(context, page, watch(page));
    await page.goto(`${BASE}/`);
    return visitor;
  }

  /** A visitor who has given the token. */
  static async signedIn(browser, look) {
    const visitor = await Visitor.come(browser, look);
    await visitor.page.getByLabel("Token").fill(TOKEN);
    await visitor.page.getByRole("button", { name: "Sign in" }).click();
    await visitor.page.getByRole("heading", { name: "Sessions", level: 1 }).waitFor();
    return visitor;
  }

  constructor(context, page, faults) {
    Object.assign(this, { context, page, faults });
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
    const response = await this.context.request.get(`${BASE}${path}`);
    assert.equal(response.status(), 200, `${path}: ${await response.text()}`);
    return response.json();
  }

  async post(path, body = {}) {
    const response = await this.context.request.post(`${BASE}${path}`, { data: body });
    assert.ok(response.ok(), `${path}: ${await response.text()}`);
    return response.json();
  }

  async checkpoints(session) {
    return (await this.get(`/api/sessions/${encodeURIComponent(session)}/checkpoints`)).checkpoints;
  }

  async shot(name) {
    await this.page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
  }

  /** Leaves, having done nothing that it should not. */
  async leave() {
    await this.context.close();
    assert.deepEqual(this.faults, []);
  }
}
