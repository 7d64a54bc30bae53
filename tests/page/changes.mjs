// Changes: what a timeline tells of them, decisions where they are shown, images and bytes.

import assert from "node:assert/strict";
import { deflateSync } from "node:zlib";

import { audit } from "./audit.mjs";
import { at, segment, store, visit } from "./visit.mjs";

visit("a timeline tells prompts and what changed", async (visitor, page) => {
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  const told = async (text, stat) => {
    const row = page.locator(".rows .row").filter({ has: page.locator(".row-title", { hasText: text }) });
    // What is not in sight is not asked for.
    await row.scrollIntoViewIfNeeded();
    await row.locator(".stat", { hasText: stat }).waitFor();
  };
  await told(/^README gone$/, "1 deleted");
  await told(/^a route renamed$/, /^1 modified/);
  await page.locator(".rows .row").last().scrollIntoViewIfNeeded();
  await page.locator(".rows .prompt", { hasText: "Fix the parser: the last line is dropped" }).first().waitFor();
  await audit(page, "a timeline with what changed");
  await visitor.open(`#/session/${segment(store.hostile.id)}`);
  await page.locator(".rows .prompt", { hasText: "<img src=x onerror=alert(5)> say" }).first().waitFor();
});

visit("a checkpoint is approved where its changes are, and later ones are compared with it", async (visitor, page) => {
  const { list } = store.branched;
  const [newest] = list;
  const target = list.find(({ message }) => message === "a route renamed");
  await visitor.open(`#/diff/${list.at(-1).id}/${target.id}`);
  await page.locator(".change").first().waitFor();
  const already = (await page.getByRole("button", { name: "Approve…" }).count()) === 0;
  if (!already) {
    await page.keyboard.press("a");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("the diff is read");
    const change = page.getByLabel("Replace the earlier decision");
    if (await change.isVisible()) await change.check();
    await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
    await page.locator("#status", { hasText: "is approved" }).waitFor();
  }
  await page.getByRole("button", { name: "Approve…" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Reject…" }).waitFor();
  assert.equal((await visitor.get(`/v1/checkpoints/${target.id}`)).approval.status, "approved");
  await audit(page, "a comparison with a decision");
  const { since } = await visitor.get(`/v1/checkpoints/${newest.id}/left-out`);
  await visitor.open(at(newest.id));
  const link = page.getByRole("link", { name: "Changes since the last approved" });
  assert.equal(await link.getAttribute("href"), `#/diff/${since}/${newest.id}`);
});

/** The checksum of a PNG's chunk. Node has one since 22.2. */
function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** A PNG image of one colour. */
function png(width, height, colour) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const row = Buffer.concat([Buffer.from([0]), ...Array.from({ length: width }, () => Buffer.from(colour))]);
  const rows = Buffer.concat(Array.from({ length: height }, () => row));
  const start = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([start, chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

visit("images are shown beside each other, and other files byte by byte", async (visitor, page) => {
  const [newer, older] = store.branched.list;
  let contents = [png(64, 48, [200, 30, 30]), png(32, 48, [30, 30, 200])];
  const entry = (content, blob) => ({ kind: "file", size: content.length, blob });
  await page.route("**/diff?to=*", async (route) => {
    const answer = await (await route.fetch()).json();
    const sides = { old: entry(contents[0], "a"), new: entry(contents[1], "b") };
    answer.changes = [{ path: "picture", change: "modified", content: "binary", metadata: [], ...sides }];
    await route.fulfill({ contentType: "application/json", body: JSON.stringify(answer) });
  });
  await page.route("**/files/picture", (route) =>
    route.fulfill({ body: contents[route.request().url().includes(older.id) ? 0 : 1], contentType: "application/octet-stream" }),
  );
  await visitor.open(`#/diff/${older.id}/${newer.id}`);
  await page.getByRole("img", { name: "After: 32 × 48 pixels" }).waitFor();
  const colours = await page
    .locator(".images canvas")
    .evaluateAll((all) => all.map((canvas) => [...canvas.getContext("2d").getImageData(5, 5, 1, 1).data]));
  assert.deepEqual(colours, [
    [200, 30, 30, 255],
    [30, 30, 200, 255],
  ]);
  await audit(page, "images");
  await visitor.shot("light-diff-images");
  const bytes = Buffer.from(Array.from({ length: 4096 }, (_, i) => i % 256));
  const others = Buffer.from(bytes);
  for (let i = 0; i < 4096; i += 32) others[i] ^= 0xff;
  contents = [bytes, others];
  await visitor.open("#/");
  await visitor.open(`#/diff/${older.id}/${newer.id}`);
  await page.getByText("128 rows of 16 bytes differ.").waitFor();
  await page.getByText("64 more rows are not shown.").waitFor();
  assert.equal(await page.locator(".bytes tbody tr").count(), 64);
  await audit(page, "bytes");
});
