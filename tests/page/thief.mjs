// An open page whose service ends, while another program takes its address. It says each step on standard output, and goes on with each line of
// standard input. The environment is that of page.mjs.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";

import { LOOKS, TOKEN, Visitor, launch } from "./browser.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const step = async (text) => {
  console.log(text);
  await lines.next();
};

const browser = await launch();
const visitor = await Visitor.signedIn(browser, LOOKS.light);
const { page } = visitor;
const connection = page.locator("#connection");
await connection.filter({ hasText: "Live" }).waitFor();
await step("signed in");
// Another program is there.
await connection.filter({ hasText: "Not connected" }).waitFor({ timeout: 30_000 });
await page.evaluate(() => (location.hash = "#/search?q=words"));
await page.locator("#alerts .alert").filter({ hasText: "another program answers" }).waitFor({ timeout: 30_000 });
await step("not fooled");
// The service is back: the page goes on, and so does another tab, without the token.
await connection.filter({ hasText: "Live" }).waitFor({ timeout: 30_000 });
const tab = await visitor.context.newPage();
await tab.goto(page.url().split("#")[0]);
await tab.getByRole("heading", { name: "Sessions", level: 1 }).waitFor();
const kept = await tab.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie);
assert.ok(!kept.includes(TOKEN));
await step("goes on");
// The browser was signed out by its user.
await page.evaluate(() => (location.hash = "#/"));
await page.getByRole("heading", { name: "Sign in", level: 1 }).waitFor({ timeout: 30_000 });
console.log("signed out");
await browser.close();
process.exit(0);
