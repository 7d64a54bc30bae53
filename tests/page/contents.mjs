// Contents of checkpoints, hostile ones included: names, files, conversations, differences, search.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { audit, isHeaded } from "./audit.mjs";
import { at, segment, store, visit } from "./visit.mjs";

const BIDI = "\u202e";

visit("names, contents and conversations are text, whatever is in them", async (visitor, page) => {
  const { list, id, name } = store.hostile;
  const [newest] = list;
  await page.getByRole("link", { name, exact: true }).waitFor();
  await visitor.open(`#/session/${segment(id)}`);
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  await page.locator(`#row-${newest.id}`, { hasText: newest.message }).waitFor();
  await audit(page, "a hostile session");
  await visitor.open(at(newest.id));
  for (const tag of newest.tags) await page.locator(".tags").getByText(tag, { exact: true }).waitFor();
  for (const { text } of newest.annotations) await page.locator(".annotations").getByText(text, { exact: true }).waitFor();
  await audit(page, "a hostile checkpoint");
  await visitor.open(at(newest.id, "files"));
  const { entries } = await visitor.get(`/v1/checkpoints/${newest.id}/entries?path=`);
  assert.ok(entries.length >= 5);
  const html = await page.locator(".files").innerText();
  assert.ok(html.includes("<img src=x onerror=alert(1)>") && html.includes("javascript:alert(1)"), html);
  assert.ok(!html.includes(BIDI), "a character that turns the text around is written out");
  await audit(page, "hostile names");
  for (const { path, kind } of entries) {
    const section = { file: "file", folder: "files" }[kind];
    if (!section) continue;
    await visitor.open(at(newest.id, section, ...path.split("/")));
    await page.locator(".trail-end").waitFor();
    assert.equal(await page.locator("#alerts .alert").count(), 0, path);
  }
  await visitor.open(at(newest.id, "file", "<img src=x onerror=alert(1)>"));
  const content = await page.locator(".listing .content").innerText();
  assert.ok(content.includes("</script>") && content.includes("\\u{202e}") && !content.includes(BIDI), content);
  await visitor.open(at(newest.id, "conversation"));
  await page.locator(".message").first().waitFor();
  assert.match(await page.locator(".messages").innerText(), /<\w+[^>]*>/);
  await audit(page, "a hostile conversation");
});

visit("files are shown up to a size, and handed out as they are", async (visitor, page) => {
  const [newest] = store.hostile.list;
  const file = `/v1/checkpoints/${newest.id}/files/`;
  const answers = { large: Buffer.alloc(600 << 10, "x\n"), binary: Buffer.from([0, 1, 2, 255]), empty: Buffer.alloc(0) };
  await page.route(`**${file}*`, (route) => {
    const body = answers[route.request().url().split("/").at(-1)];
    return body ? route.fulfill({ body, contentType: "application/octet-stream" }) : route.continue();
  });
  for (const [name, text] of [
    ["large", "too long"],
    ["binary", "no text"],
    ["empty", "empty"],
  ]) {
    await visitor.open(at(newest.id, "file", name));
    await page.locator(".empty", { hasText: text }).waitFor();
    const [kept] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
    assert.equal(kept.suggestedFilename(), name);
    assert.deepEqual(readFileSync(await kept.path()), answers[name]);
  }
  await visitor.open(at(newest.id, "file", "javascript:alert(1)"));
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  assert.match(readFileSync(await download.path(), "utf8"), /<\/script>/);
});

visit("any two checkpoints are compared", async (visitor, page) => {
  const { list, id } = store.hostile;
  const [newer, older] = list;
  await visitor.open(`#/session/${segment(id)}`);
  await page.locator(`#pick-${newer.id}`).check();
  await page.locator(`#pick-${older.id}`).check();
  await page.getByRole("link", { name: "Compare them" }).click();
  await page.getByRole("heading", { name: `From …${older.id.slice(-6)}` }).waitFor();
  await isHeaded(page, "a comparison");
  const first = page.locator(".change", { hasText: "<img src=x" }).first();
  if (!(await first.evaluate((details) => details.open))) await first.locator("summary").click();
  await first.locator(".diff tr.add").first().waitFor();
  const colour = (kind) =>
    page
      .locator(`.diff tr.${kind}`)
      .first()
      .evaluate((row) => getComputedStyle(row).backgroundColor);
  assert.notEqual(await colour("add"), await colour("same"));
  assert.match(await first.locator(".diff tr.add").first().innerText(), /\d+\s+\+/);
  await audit(page, "a diff");
  await page.getByRole("link", { name: "Conversation" }).click();
  await page.locator(".sides").or(page.locator("main .empty")).first().waitFor();
  await audit(page, "conversations beside each other");
  await page.getByRole("link", { name: "Environment" }).click();
  await page.locator("main table").or(page.locator("main .empty")).first().waitFor();
  await audit(page, "environments");
  await page.getByLabel("Older", { exact: true }).selectOption(list.at(-1).id);
  await page.waitForFunction((wanted) => location.hash.includes(wanted), list.at(-1).id);
});

visit("checkpoints are found by words", async (visitor, page) => {
  const word = /[a-z]{4,}/.exec(store.hostile.list[0].message.replace(/<[^>]*>/g, " "))?.[0] ?? "message";
  await page.getByLabel("Search checkpoints").fill(word);
  await page.keyboard.press("Enter");
  await page.locator(".result").first().waitFor();
  await isHeaded(page, "a search");
  await page.locator(".result mark").first().waitFor();
  await audit(page, "search");
  await page.getByLabel("In", { exact: true }).selectOption(store.branched.id);
  await page.getByLabel("Words").fill("nothinghasthisword");
  await page.keyboard.press("Enter");
  await page.locator(".empty", { hasText: "No checkpoint" }).waitFor();
  await page.getByLabel("Words").fill('"');
  await page.keyboard.press("Enter");
  await page.locator("#alerts .alert").waitFor();
});
