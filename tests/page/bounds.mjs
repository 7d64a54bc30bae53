// Contents that are made to slow the page down or to lead it astray: hidden characters, many lines, many entries, names of JavaScript's own.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { audit } from "./audit.mjs";
import { at, segment, store, visit } from "./visit.mjs";

const ZERO_WIDTH = "\u200b";
const MARKERS_MAX = 200;
const LINES_MAX = 5000;

/** Answers requests for a pattern with an object, or with a change of the service's answer. */
function answering(page, pattern, body) {
  return page.route(pattern, async (route) => {
    const answer = typeof body === "function" ? body(await (await route.fetch()).json()) : body;
    await route.fulfill({ contentType: "application/json", body: JSON.stringify(answer) });
  });
}

/** Answers requests for some files of a checkpoint with contents. */
function holding(page, id, contents) {
  return page.route(`**/v1/checkpoints/${id}/files/*`, (route) => {
    const body = contents[route.request().url().split("/").at(-1)];
    return body ? route.fulfill({ body, contentType: "application/octet-stream" }) : route.continue();
  });
}

visit("hidden characters are counted, and bounded in number", async (visitor, page) => {
  const [newest] = store.hostile.list;
  await holding(page, newest.id, {
    run: Buffer.from(`begin${ZERO_WIDTH.repeat(100_000)}end`),
    scattered: Buffer.from(`a${ZERO_WIDTH}`.repeat(100_000)),
    dos: Buffer.from("one\r\ntwo\r\n".repeat(1000)),
  });
  const content = page.locator(".listing .content");
  const markers = content.locator(".escape");
  await visitor.open(at(newest.id, "file", "run"));
  assert.equal(await markers.count(), 1);
  assert.match(await markers.innerText(), /^(\\u\{200b\}){4}… \(100,000 hidden characters\)$/);
  await visitor.open(at(newest.id, "file", "scattered"));
  assert.equal(await markers.count(), MARKERS_MAX);
  assert.match(await markers.last().innerText(), /from here on/);
  const text = await content.evaluate((element) => element.textContent);
  assert.ok(text.endsWith("a\ufffda\ufffd") && !text.includes(ZERO_WIDTH));
  await visitor.open(at(newest.id, "file", "dos"));
  assert.equal(await markers.count(), 0, "ends of lines are said once");
  await page.getByText("2,000 lines, DOS line ends").waitFor();
  await answering(page, "**/checkpoints?limit=*", (answer) => {
    answer.checkpoints[0].message = `a${ZERO_WIDTH}`.repeat(10_000);
    return answer;
  });
  await visitor.open(`#/session/${segment(store.hostile.id)}`);
  assert.equal(await page.locator(`#row-${newest.id} .escape`).count(), MARKERS_MAX);
});

visit("a long file is shown up to a number of lines, and handed out as it is", async (visitor, page) => {
  const [newest] = store.hostile.list;
  const body = Buffer.from("x\n".repeat(LINES_MAX + 1234));
  await holding(page, newest.id, { long: body });
  await visitor.open(at(newest.id, "file", "long"));
  await page.getByText("6,234 lines").waitFor();
  await page.getByText("1,234 more lines are not shown.").waitFor();
  assert.match(await page.locator(".listing .numbers").evaluate(({ textContent }) => textContent), /\n5000$/);
  const whole = page.getByRole("button", { name: "Download the whole file" });
  const [kept] = await Promise.all([page.waitForEvent("download"), whole.click()]);
  assert.deepEqual(readFileSync(await kept.path()), body);
  await audit(page, "a long file");
});

visit("a long difference is shown up to a number of lines, and leads to the files", async (visitor, page) => {
  const [newer, older] = store.branched.list;
  const change = {
    path: "long",
    change: "modified",
    content: "text",
    metadata: [],
    old: { kind: "file", size: 1, blob: "a" },
    new: { kind: "file", size: 2, blob: "b" },
  };
  const lines = `+${ZERO_WIDTH}a${ZERO_WIDTH}\r\n`.repeat(LINES_MAX * 2);
  const diff = `--- a/long\n+++ b/long\n@@ -0,0 +1,${LINES_MAX * 2} @@\n${lines}`;
  await answering(page, "**/diff?to=*", (answer) => ({ ...answer, changes: [{ ...change, diff }] }));
  await visitor.open(`#/diff/${older.id}/${newer.id}`);
  await page.locator(".cut", { hasText: "5,001 more lines are not shown" }).waitFor();
  assert.equal(await page.locator(".diff tr").count(), LINES_MAX);
  const scattered = page.locator(".diff .escape", { hasNotText: /^\\r$/ });
  assert.equal(await scattered.count(), MARKERS_MAX, "all lines share a budget");
  await audit(page, "a long difference");
  const links = page.locator(".cut a");
  assert.deepEqual(await links.evaluateAll((all) => all.map((link) => link.getAttribute("href"))), [
    `#/checkpoint/${older.id}/file/long`,
    `#/checkpoint/${newer.id}/file/long`,
  ]);
});

visit("long lists are shown in parts", async (visitor, page) => {
  const [newest] = store.hostile.list;
  const entry = (number) => ({ path: `file-${number}`, kind: "file", size: 1, mode: "0644", mtime: newest.created_at });
  await answering(page, "**/entries?*", (answer) => ({ ...answer, entries: Array.from({ length: 1200 }, (_, i) => entry(i)) }));
  await visitor.open(at(newest.id, "files"));
  const rows = page.locator(".files tbody tr");
  assert.equal(await rows.count(), 500);
  await page.getByRole("button", { name: "Show 500 more of 700" }).click();
  assert.equal(await rows.count(), 1000);
  await page.getByRole("button", { name: "Show 200 more" }).click();
  assert.equal(await rows.count(), 1200);
  assert.equal(await page.locator("button.more").count(), 0);
  assert.ok(await page.evaluate(() => document.activeElement.matches("[data-step]")), "the focus is on the first new entry");
});

visit("more results of a search are shown if they are asked for", async (visitor, page) => {
  const [newest] = store.hostile.list;
  const found = (number) => ({
    ...{ checkpoint: newest.id, session: store.hostile.id, created_at: newest.created_at, message: `number ${number}` },
    ...{ score: 1, matches: [] },
  });
  await page.route("**/v1/search?*", (route) => {
    const limit = Number(new URL(route.request().url()).searchParams.get("limit"));
    const all = Array.from({ length: 60 }, (_, i) => found(i));
    const body = { found: all.slice(0, limit), matching: 60, searched: 100, partial: 0 };
    return route.fulfill({ contentType: "application/json", body: JSON.stringify(body) });
  });
  await visitor.open("#/search?q=number");
  await page.getByText("the best 50 are shown").waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await page.locator(".results .result").nth(59).waitFor();
  assert.equal(await page.locator(".results .result").count(), 60);
  await page.getByText("60 checkpoints of 100 match.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Show more" }).count(), 0);
});

visit("earlier messages are loaded, and a long text is shown whole", async (visitor, page) => {
  const [newest] = store.hostile.list;
  const message = (number, text, bytes = text.length) => ({
    ...{ role: "tool", record: `r${number}`, at: null, text, text_bytes: bytes, calls: [], is_error: false },
  });
  const asked = [];
  await page.route(/\/conversation(\?|$)/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    asked.push(query.toString());
    const pages = { null: [[message(2, "two"), message(3, "<b>begins</b>", 9000)], 2], 2: [[message(0, "zero"), message(1, "one")], 0] };
    const [messages, left_out] = query.has("text_bytes") ? [[message(3, "<b>whole</b>")], 3] : pages[query.get("before")];
    const body = { checkpoint: newest.id, since: null, continues: false, messages, left_out };
    return route.fulfill({ contentType: "application/json", body: JSON.stringify(body) });
  });
  await visitor.open(at(newest.id, "conversation"));
  const texts = () => page.locator(".message .output").allInnerTexts();
  assert.deepEqual(await texts(), ["two", "<b>begins</b>"]);
  await page.getByText("8.8 KiB more are not shown").waitFor();
  await audit(page, "a long conversation");
  await page.getByRole("button", { name: "Show all" }).click();
  await page.locator(".message", { hasText: "<b>whole</b>" }).waitFor();
  await page.getByRole("button", { name: "Earlier messages" }).click();
  await page.locator(".message", { hasText: "zero" }).waitFor();
  assert.deepEqual(await texts(), ["zero", "one", "two", "<b>whole</b>"]);
  assert.equal(await page.getByRole("button", { name: "Earlier messages" }).count(), 0, "there are none");
  assert.deepEqual(asked, ["", "before=4&limit=1&text_bytes=4194304", "before=2"]);
});

visit("names of JavaScript's own are names like others", async (visitor, page) => {
  const [newest, older] = store.hostile.list;
  const names = ["constructor", "__proto__", "toString", "hasOwnProperty"];
  const message = (role) => ({ record: role, role, at: null, text: `said by ${role}`, calls: [{ tool: role, about: role }] });
  await answering(page, "**/conversation", (answer) => ({ ...answer, messages: names.map(message) }));
  await visitor.open(at(newest.id, "conversation"));
  assert.deepEqual(await page.locator(".message .by strong").allInnerTexts(), names);
  // `__proto__` in a literal would set the prototype.
  const table = JSON.parse(`{${names.map((name) => `"${name}":"${name} it is"`)}}`);
  await answering(page, `**/v1/checkpoints/${newest.id}`, (answer) => ({
    ...answer,
    environment: Object.assign(JSON.parse(`{"__proto__":"a value","constructor":"another"}`), { variables: table }),
    approval: { status: "constructor", user: null, timestamp: newest.created_at },
  }));
  await visitor.open(at(newest.id, "environment"));
  assert.deepEqual(await page.locator(".pairs tr").allInnerTexts(), names.map((name) => `${name}\t${name} it is`));
  assert.deepEqual(await page.locator(".environment > .facts dt").allInnerTexts(), ["__proto__", "constructor"]);
  await visitor.open(at(newest.id));
  await page.locator(".facts .pill", { hasText: /^constructor$/ }).waitFor();
  await visitor.open(`#/diff/${older.id}/${newest.id}/constructor`);
  await page.locator(".sections [aria-current]", { hasText: "Files" }).waitFor();
  await page.locator(".change").first().waitFor();
  assert.equal(await page.locator("#alerts .alert").count(), 0);
  const code = await page.locator("main").innerText();
  assert.ok(!code.includes("native code"), code);
});

visit("an address with dots as a part asks the service for nothing", async (visitor, page) => {
  const [newest] = store.hostile.list;
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.locator("#connection", { hasText: "Live" }).waitFor();
  for (const hash of [
    "#/session/..",
    "#/session/%2e%2e",
    "#/session/.",
    "#/undo/%2E%2E",
    "#/checkpoint/..",
    `#/checkpoint/${newest.id}/file/a/../../b`,
    `#/checkpoint/${newest.id}/file/a%2F..%2Fb`,
    `#/checkpoint/${newest.id}/file`,
    `#/diff/./${newest.id}`,
  ]) {
    asked.length = 0;
    await visitor.open(hash);
    await page.locator("#alerts .alert").waitFor();
    await page.getByRole("heading", { name: "Nothing to show", level: 1 }).waitFor();
    // The list of sessions may be refreshed meanwhile.
    assert.deepEqual(asked.filter((path) => path.startsWith("/v1/") && path !== "/v1/sessions"), [], hash);
  }
});
