// The page of the service in a browser. `npm ci`, then `node --test page.mjs`, with this environment:
//
//   PARHELIA_PAGE      address of a service, such as http://127.0.0.1:8123
//   PARHELIA_TOKEN     its token
//   PARHELIA_SHOTS     folder for screenshots
//   PARHELIA_AGENT     path of a program called `claude`, which lives until it is ended
//   PARHELIA_FOLDER    a folder that it may work in
//   PARHELIA_CHROMIUM  the browser [default: /usr/bin/chromium]
//
// The tests change the store. They find everything in it through the API. It must hold:
//
// - a session whose name has HTML (such as `<b>hostile</b>`), with a conversation that has HTML, and two checkpoints at least. The newest one has a
//   message with `<script>`, changes a file that has `</script>` and U+202E in its content, and holds files with these names:
//   `<img src=x onerror=alert(1)>`, one with a newline, one with U+202E, `javascript:alert(1)`, and a folder `<svg onload=alert(4)>` with a file;
// - a session that was rolled back: its checkpoints have a safety checkpoint and a branch; a fenced one is tested if there is one, and so is one
//   that waits for a review. A rollback to its oldest checkpoint changes a file. No agent of it lives.

import assert from "node:assert/strict";
import { test } from "node:test";

import { audit, isHeaded } from "./audit.mjs";
import { BASE, TOKEN, Visitor } from "./browser.mjs";
import { at, browser, segment, store, visit } from "./visit.mjs";

import "./contents.mjs";
import "./acts.mjs";
import "./begin.mjs";
import "./bounds.mjs";
import "./changes.mjs";
import "./looks.mjs";

/** Changes come by events; this is long enough for one. */
const SOON = { timeout: 10_000 };

test("a token is asked for, and neither sent nor kept", async () => {
  const visitor = await Visitor.come(browser);
  const { page } = visitor;
  await page.getByRole("heading", { name: "Sign in", level: 1 }).waitFor();
  await audit(page, "sign-in");
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("#token-problem p").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "token");
  await visitor.shot("light-sign-in");
  await page.getByLabel("Token").fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Sessions", level: 1 }).waitFor();
  await isHeaded(page, "sign-in");
  const kept = await page.evaluate(
    () => document.cookie + JSON.stringify({ ...localStorage }) + location.href + document.body.outerHTML,
  );
  assert.ok(!kept.includes(TOKEN));
  assert.ok(visitor.requests.length > 3 && !visitor.requests.some((text) => text.includes(TOKEN)));
  assert.deepEqual(await visitor.context.cookies(), []);
  await visitor.leave();
});

visit("whoever signs out comes back to the same view", async (visitor, page) => {
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in", level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: store.branched.name, level: 1 }).waitFor();
});

visit("addresses name views: they are loaded again, and gone back to", async (visitor, page) => {
  const [newest] = store.branched.list;
  await page.locator(`[id="session-${store.branched.id}"]`).click();
  await page.getByRole("heading", { name: store.branched.name, level: 1 }).waitFor();
  await page.locator(`#row-${newest.id}`).click();
  const heading = page.getByRole("heading", { name: `Checkpoint …${newest.id.slice(-6)}`, level: 1 });
  await heading.waitFor();
  await isHeaded(page, "a checkpoint");
  await page.reload();
  await heading.waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: store.branched.name, level: 1 }).waitFor();
  await visitor.open("#/nothing/here");
  await page.getByRole("alert").filter({ hasText: "no such view" }).waitFor();
  await visitor.open(at("00000000000000000000000000"));
  await page.locator("#alerts .alert").filter({ hasText: "00000000000000000000000000" }).waitFor();
});

visit("the list is filtered and ordered, and only what changed is read again", async (visitor, page) => {
  const rows = page.locator("table.list tbody tr");
  await rows.first().waitFor();
  const all = await rows.count();
  await page.getByLabel("Filter").fill(store.branched.name);
  await page.locator(".lead", { hasText: "not shown" }).waitFor();
  assert.ok((await rows.count()) >= 1 && (await rows.count()) < all);
  await page.getByLabel("Filter").fill("no such words");
  await page.getByText("No session has these words.").waitFor();
  await page.getByLabel("Filter").fill("");
  await page.getByLabel("Order").selectOption("name");
  const names = await rows.locator("th a").allTextContents();
  assert.deepEqual(
    names,
    names.toSorted((a, b) => a.localeCompare(b)),
  );
  await audit(page, "a filtered list");
  await page.locator("#connection", { hasText: "Live" }).waitFor();
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url())));
  await visitor.post(`/v1/sessions/${segment(store.branched.id)}/labels`, { set: { team: "<b>a" } });
  await page.locator(".label", { hasText: "team=<b>a" }).waitFor(SOON);
  assert.ok(asked.some((url) => url.pathname === "/v1/sessions" && url.searchParams.has("changed_after")));
  await visitor.post(`/v1/sessions/${segment(store.branched.id)}/labels`, { remove: ["team"] });
});

visit("changes are shown as they happen", async (visitor, page) => {
  const [newest] = store.branched.list;
  await page.locator("#connection", { hasText: "Live" }).waitFor();
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  const box = page.locator(`#pick-${newest.id}`);
  await box.focus();
  await visitor.post(`/v1/checkpoints/${newest.id}/tags`, { tags: ["as-it-happens"] });
  await page.locator(".row", { has: box }).getByText("as-it-happens").waitFor(SOON);
  assert.equal(await page.evaluate(() => document.activeElement.id), `pick-${newest.id}`, "the focus stays");
  await visitor.open(at(newest.id));
  await page.getByLabel("Add an annotation").fill("half a rem");
  await visitor.post(`/v1/checkpoints/${newest.id}/annotations`, { text: "from elsewhere" });
  await page.getByText("from elsewhere").waitFor(SOON);
  assert.equal(await page.getByLabel("Add an annotation").inputValue(), "half a rem");
});

visit("the timeline shows branches, fenced runs and rollbacks", async (visitor, page) => {
  const { list, id } = store.branched;
  await visitor.open(`#/session/${segment(id)}`);
  await page.locator(".timeline .graph").waitFor();
  const count = (selector) => page.locator(`.timeline ${selector}`).count();
  assert.equal(await count(".row"), list.length);
  assert.equal(await count(".graph .node"), list.length);
  assert.equal(await count(".graph .edge"), list.filter(({ parent }) => parent).length);
  assert.equal(await count(".graph .node.fenced"), list.filter(({ fenced }) => fenced).length);
  assert.equal(await page.locator(".row .pill", { hasText: "fenced run" }).count(), list.filter(({ fenced }) => fenced).length);
  assert.equal(
    await page.locator(".row .pill", { hasText: "waits for review" }).count(),
    list.filter(({ approval }) => approval?.status === "pending").length,
  );
  assert.ok((await count(".graph .rollback")) >= 1, "a rollback is drawn");
  const columns = await page
    .locator(".graph circle.node")
    .evaluateAll((nodes) => new Set(nodes.map((node) => node.getAttribute("cx"))).size);
  assert.ok(columns >= 2, "branches have lanes of their own");
  await page.locator(".notes", { hasText: "rolled back to" }).first().waitFor();
  await page.locator(".notes", { hasText: "came back here" }).first().waitFor();
  const misplaced = await page.evaluate(() => {
    const marks = [...document.querySelectorAll(".graph .node")].map((node) => node.getBoundingClientRect());
    return [...document.querySelectorAll(".rows .row")].filter((row, i) => {
      const { top, bottom } = row.getBoundingClientRect();
      return marks[i].top < top || marks[i].bottom > bottom;
    }).length;
  });
  assert.equal(misplaced, 0, "each mark is beside its row");
});

visit("decisions and fenced runs are marked, in the graph and in words", async (visitor, page) => {
  await page.route("**/checkpoints?limit=*", async (route) => {
    const answer = await (await route.fetch()).json();
    const [first, second, third] = answer.checkpoints;
    first.approval = { status: "rejected", user: "<i>a person</i>", timestamp: first.created_at, reason: null, policy: null };
    second.approval = { status: "pending", user: null, timestamp: second.created_at, reason: null, policy: "strict" };
    Object.assign(third, { fenced: true, complete: false });
    await route.fulfill({ contentType: "application/json", body: JSON.stringify(answer) });
  });
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  const row = (place) => page.locator(".rows .row").nth(place);
  await row(0).locator(".pill", { hasText: "rejected" }).waitFor();
  await row(1).locator(".pill", { hasText: "waits for review" }).waitFor();
  await row(2).locator(".pill", { hasText: "fenced run" }).waitFor();
  await row(2).locator(".pill", { hasText: "incomplete" }).waitFor();
  for (const mark of [".node.rejected", ".cross", ".node.pending", "rect.node.fenced", ".edge.fenced"])
    await page.locator(`.graph ${mark}`).first().waitFor({ state: "attached" });
  await audit(page, "marks");
});

visit("a connection that was lost is said, and made again", async (visitor, page) => {
  await page.route("**/v1/events*", (route) => route.fulfill({ status: 503, body: "" }));
  await page.reload();
  await page.locator("#connection", { hasText: "Not connected" }).waitFor();
  await page.unroute("**/v1/events*");
  await page.locator("#connection", { hasText: "Live" }).waitFor(SOON);
});

visit("older checkpoints come by pages", async (visitor, page) => {
  await page.route("**/checkpoints?limit=100", async (route) => {
    const { pathname } = new URL(route.request().url());
    await route.fulfill({ contentType: "application/json", body: JSON.stringify(await visitor.get(`${pathname}?limit=2`)) });
  });
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  assert.equal(await page.locator(".rows .row").count(), 2);
  await page.getByRole("button", { name: "Older checkpoints" }).click();
  await page
    .locator(".rows .row")
    .nth(store.branched.list.length - 1)
    .waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), `row-${store.branched.list[2].id}`);
});

visit("the keyboard alone approves a checkpoint", async (visitor, page) => {
  const target = store.branched.list.find(({ approval }) => approval?.status === "pending") ?? store.branched.list[0];
  const hasFocus = (id) => page.waitForFunction((wanted) => document.activeElement?.id === wanted, id);
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await page.getByRole("button", { name: "Sign out" }).focus();
  await press("Enter");
  await page.getByRole("heading", { name: "Sign in", level: 1 }).waitFor();
  await press("Tab");
  await page.keyboard.type(TOKEN);
  await press("Enter");
  await page.locator("table.list").waitFor();
  for (let i = 0; i < 50; i += 1) {
    await press("j");
    if ((await page.evaluate(() => document.activeElement.id)) === `session-${store.branched.id}`) break;
  }
  await press("Enter");
  await page.locator(".rows .row").first().waitFor();
  await press("j");
  await hasFocus(`row-${store.branched.list[0].id}`);
  for (let i = 0; i < store.branched.list.findIndex(({ id }) => id === target.id); i += 1) await press(i % 2 ? "j" : "ArrowDown");
  await hasFocus(`row-${target.id}`);
  await press("Enter");
  await page.getByRole("heading", { name: `Checkpoint …${target.id.slice(-6)}` }).waitFor();
  await press("a");
  await page.getByRole("dialog").waitFor();
  await hasFocus("reason");
  await press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await press("a");
  await page.keyboard.type("tests pass, diff read a/r");
  await press("Tab", "Enter");
  await page.locator("#status", { hasText: "is approved" }).waitFor();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.locator(".facts", { hasText: "tests pass, diff read a/r" }).waitFor();
  const { approval } = await visitor.get(`/v1/checkpoints/${target.id}`);
  assert.deepEqual([approval.status, approval.reason], ["approved", "tests pass, diff read a/r"]);
  await press("u");
  await page.getByRole("heading", { name: store.branched.name, level: 1 }).waitFor();
  await press("/");
  await hasFocus("search-words");
  await page.keyboard.type("ja?");
  assert.equal(await page.locator("#search-words").inputValue(), "ja?", "keys in a field write");
  await press("Escape", "?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await audit(page, "keys");
  await page.getByLabel("Use single-key shortcuts").press("Space");
  await press("Escape", "u", "?");
  assert.equal(await page.getByRole("dialog").count(), 0, "switched off");
  await page.getByRole("heading", { name: store.branched.name, level: 1 }).waitFor();
});
