// Actions: decisions, tags, annotations, rollbacks, buttons of a session.

import assert from "node:assert/strict";

import { audit } from "./audit.mjs";
import { at, segment, store, visit } from "./visit.mjs";

visit("a rejection needs a reason, and a decision that holds is not changed by accident", async (visitor, page) => {
  const target = store.branched.list.at(-1);
  await visitor.post(`/v1/checkpoints/${target.id}/approve`, { reason: "fine" });
  await visitor.open(at(target.id));
  await page.getByRole("button", { name: "Reject…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Reject" }).click();
  assert.equal(await dialog.count(), 1, "it stays open without a reason");
  await dialog.getByLabel("Reason").fill("drops the <table>");
  await visitor.shot("light-reject");
  await dialog.getByRole("button", { name: "Reject" }).click();
  await dialog.getByRole("alert").filter({ hasText: /\w/ }).waitFor();
  assert.equal(await dialog.getByLabel("Reason").inputValue(), "drops the <table>");
  await dialog.getByLabel("Replace the earlier decision").check();
  await audit(page, "a decision");
  await dialog.getByRole("button", { name: "Reject" }).click();
  await page.locator(".facts", { hasText: "drops the <table>" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement !== document.body), true, "the focus is not lost");
  await visitor.post(`/v1/checkpoints/${target.id}/approve`, { reason: "fine after all", change: true });
});

visit("what an agent asks is shown, and answered by what was seen", async (visitor, page) => {
  const { id } = store.branched;
  const json = (body) => ({ contentType: "application/json", body: JSON.stringify(body) });
  await page.route(`**/v1/sessions/${segment(id)}`, async (route) => {
    const answer = await (await route.fetch()).json();
    Object.assign(answer.session, { observed: "waiting", needs: "waiting", why: "permission prompt" });
    await route.fulfill(json(answer));
  });
  const screen = "May I run rm?\n 1. Yes  2. No <script>alert(9)</script>";
  await page.route("**/question", (route) => route.fulfill(json({ question: "q1", waits_for: "permission prompt", screen })));
  const answers = [];
  await page.route("**/answer", (route) => {
    answers.push(route.request().postDataJSON());
    return route.fulfill(json({ session: {}, warnings: [] }));
  });
  await visitor.open(`#/session/${segment(id)}`);
  await page.locator(".screen", { hasText: "May I run rm?" }).waitFor();
  await audit(page, "a question");
  await page.getByRole("button", { name: "1", exact: true }).click();
  await page.locator("#status", { hasText: "typed" }).waitFor();
  await page.getByLabel("Or a text").fill("no, keep it");
  await Promise.all([page.waitForResponse("**/answer"), page.keyboard.press("Enter")]);
  assert.deepEqual(answers, [
    { question: "q1", keys: ["1"] },
    { question: "q1", text: "no, keep it", keys: ["Enter"] },
  ]);
});

visit("tags and annotations are added, and a lost answer does not add one twice", async (visitor, page) => {
  const [newest] = store.hostile.list;
  await visitor.open(at(newest.id));
  await page.getByLabel("Add tags").fill("looked-at release/<1.2>");
  await page.keyboard.press("Enter");
  await page.locator(".tags", { hasText: "release/<1.2>" }).waitFor();
  await page.locator("#status", { hasText: /tags? added|had these tags/ }).waitFor();
  await page.getByLabel("Add tags").fill("no*tag");
  await page.keyboard.press("Enter");
  await page.locator("#alerts .alert").filter({ hasText: "no*tag" }).waitFor();
  const keys = [];
  await page.route("**/annotations", async (route) => {
    keys.push(route.request().headers()["idempotency-key"]);
    const response = await route.fetch();
    await (keys.length === 1 ? route.abort() : route.fulfill({ response }));
  });
  await page.getByLabel("Add an annotation").fill("said once </textarea><script>alert(7)</script>");
  await page.locator("#annotations-title ~ form button").click();
  await page.locator("#alerts .alert", { hasText: "cannot be reached" }).getByRole("button", { name: "Try again" }).click();
  await page.locator(".annotations", { hasText: "said once" }).waitFor();
  await page.locator("#status", { hasText: "annotation was added" }).waitFor();
  assert.equal(keys.length, 2);
  assert.ok(keys[0] && keys[0] === keys[1], "the same request has the same key");
  const { annotations } = await visitor.get(`/v1/checkpoints/${newest.id}`);
  assert.equal(annotations.length, newest.annotations.length + 1);
});

visit("a rollback is shown before it is done, and undone", async (visitor, page) => {
  const { id, list } = store.branched;
  const target = list.at(-1);
  const heads = async () => (await visitor.get(`/v1/sessions/${segment(id)}`)).session.head;
  const before = await heads();
  await visitor.open(at(target.id, "rollback"));
  await page.locator(".plan .paths li").first().waitFor();
  await page.getByText("A safety checkpoint is made first").waitFor();
  assert.equal(await heads(), before, "what is shown is not done");
  const button = page.locator("#do-rollback");
  assert.match(await button.innerText(), new RegExp(`back to …${target.id.slice(-6)}: \\d`));
  await audit(page, "a plan");
  await page.getByLabel("Leave the conversation as it is").check();
  await page.getByText("The conversation stays as it is.").waitFor();
  await visitor.shot("light-rollback");
  await button.click();
  await page.getByRole("heading", { name: "Rolled back" }).waitFor();
  assert.equal(await heads(), target.id);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Rolled back");
  await page.getByRole("link", { name: "To the session" }).click();
  await page.getByRole("link", { name: "Undo the rollback…" }).click();
  await page.locator(".plan .paths li").first().waitFor();
  await page.locator("#do-rollback").click();
  await page.getByRole("heading", { name: "Rolled back" }).waitFor();
});

visit("a plan that is refused says why, and keeps its options", async (visitor, page) => {
  await page.route("**/rollback", (route) => {
    const { stop } = route.request().postDataJSON();
    const problem = { title: "refused", status: 409, detail: "session x is alive: <b>end it</b> first", exit_code: 4 };
    return stop
      ? route.continue()
      : route.fulfill({ status: 409, contentType: "application/problem+json", body: JSON.stringify(problem) });
  });
  await visitor.open(at(store.branched.list.at(-1).id, "rollback"));
  await page.locator(".rolling .alert", { hasText: "<b>end it</b> first" }).waitFor();
  assert.equal(await page.locator("#do-rollback").isVisible(), false);
  await page.getByLabel("End a live agent first").check();
  await page.locator(".plan").waitFor();
});

visit("a session is paused and resumed by buttons that ask first", async (visitor, page) => {
  const asked = [];
  await page.route("**/v1/sessions/*/{pause,end,resume,checkpoints}", (route) => {
    if (route.request().method() !== "POST") return route.continue();
    asked.push([route.request().url().split("/").at(-1), route.request().postDataJSON()]);
    const body = {
      session: store.branched,
      checkpoint: store.branched.list[0],
      created: true,
      warnings: ["<i>look</i> at this"],
    };
    return route.fulfill({ contentType: "application/json", body: JSON.stringify(body) });
  });
  await page.route(`**/v1/sessions/${segment(store.branched.id)}`, async (route) => {
    const answer = await (await route.fetch()).json();
    Object.assign(answer.session, { status: "active", observed: "idle", wanted: "running" });
    await route.fulfill({ contentType: "application/json", body: JSON.stringify(answer) });
  });
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  await page.getByRole("button", { name: "Checkpoint now" }).click();
  await page.locator("#alerts .alert", { hasText: "<i>look</i> at this" }).waitFor();
  await page.getByRole("button", { name: "Pause…" }).click();
  await page.getByLabel("End its agent as well").check();
  await audit(page, "a pause");
  await page.getByRole("button", { name: "Pause the session" }).click();
  await page.getByRole("button", { name: "End…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.equal(await page.evaluate(() => document.activeElement.id), "do-end", "the focus comes back");
  assert.deepEqual(asked, [
    ["checkpoints", {}],
    ["pause", { end_agent: true }],
  ]);
});
