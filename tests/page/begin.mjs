// The form that begins a session.

import assert from "node:assert/strict";

import { audit } from "./audit.mjs";
import { LOOKS } from "./browser.mjs";
import { segment, visit } from "./visit.mjs";

const AGENT = process.env.PARHELIA_AGENT;
const FOLDER = process.env.PARHELIA_FOLDER;

/** Fills the form in. */
async function fill(page, { command, folder, name, prompt = "" }) {
  await page.getByLabel("Agent", { exact: true }).selectOption("Another command");
  await page.getByLabel("Command line").fill(command);
  await page.getByLabel("Folder").fill(folder);
  await page.getByLabel("Name (optional)").fill(name);
  await page.getByLabel("First prompt (optional)").fill(prompt);
}

visit("a session that is refused says why, and what was written stays", async (visitor, page) => {
  await visitor.open("#/new");
  const alert = page.locator(".begin [role=alert]");
  const start = page.getByRole("button", { name: "Start the agent" });
  await fill(page, { command: "'not closed", folder: FOLDER, name: "refused" });
  await start.click();
  await alert.filter({ hasText: "is not closed" }).waitFor();
  await page.getByLabel("Command line").fill("/no/such/<b>agent</b>");
  await start.click();
  await alert.filter({ hasText: "/no/such/<b>agent</b>" }).waitFor();
  await page.getByLabel("Folder").fill("not/absolute");
  await start.click();
  await alert.filter({ hasText: "no absolute path" }).waitFor();
  assert.equal(await page.getByLabel("Name (optional)").inputValue(), "refused");
  await audit(page, "a refused session");
  const { sessions } = await visitor.get("/v1/sessions");
  assert.ok(!sessions.some(({ name }) => name === "refused"));
});

visit(
  "a session is begun on a phone by the keyboard, and is live; a second one is refused until it is meant",
  async (visitor, page) => {
    const fields = { command: `${AGENT} --model 'a "model" of its own'`, folder: FOLDER, name: "by page" };
    await page.keyboard.press("n");
    await page.getByRole("heading", { name: "New session", level: 1 }).waitFor();
    await fill(page, { ...fields, prompt: "Fix the <i>parser</i>" });
    await audit(page, "a new session on a phone");
    await visitor.shot("phone-new");
    await page.getByRole("button", { name: "Start the agent" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "by page", level: 1 }).waitFor({ timeout: 60_000 });
    await page.locator(".facts .pill", { hasText: /^(live|idle)$/ }).waitFor({ timeout: 30_000 });
    const { session, runs } = await visitor.get(`/v1/sessions/${segment("by page")}`);
    assert.deepEqual(runs[0].argv, [AGENT, "--model", 'a "model" of its own', "--", "Fix the <i>parser</i>"]);
    await visitor.open("#/new");
    await fill(page, fields);
    await page.getByRole("button", { name: "Start the agent" }).click();
    await page.locator(".begin [role=alert]", { hasText: session.id }).waitFor();
    await page.getByLabel("Begin it beside the other one").check();
    await page.getByRole("button", { name: "Start the agent" }).click();
    await page.locator("#alerts .alert", { hasText: "is called by page as well" }).waitFor({ timeout: 60_000 });
    const { sessions } = await visitor.get("/v1/sessions");
    for (const { id } of sessions.filter(({ name }) => name === "by page"))
      await visitor.post(`/v1/sessions/${segment(id)}/pause`, { end_agent: true });
  },
  LOOKS.phone,
);
