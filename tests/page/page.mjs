// The page of the service in a browser. `npm ci`, then `node --test page.mjs`, with this environment:
//
//   PARHELIA_PAGE      address of a service, such as http://127.0.0.1:8123
//   PARHELIA_TOKEN     its token
//   PARHELIA_SHOTS     folder for screenshots
//   PARHELIA_CHROMIUM  the browser [default: /usr/bin/chromium]
//
// The tests change the store: it should be of no use afterwards. They find everything through the API, and need
//
// - a session whose name has HTML (such as `<b>hostile</b>`), with a conversation that has HTML, and two checkpoints at least. The newest one has a
//   message with `<script>`, changes a file that has `</script>` and U+202E in its content, and holds files with these names:
//   `<img src=x onerror=alert(1)>`, one with a newline, one with U+202E, `javascript:alert(1)`, and a folder `<svg onload=alert(4)>` with a file;
// - a session that was rolled back: its checkpoints have a safety checkpoint and a branch; a fenced one is tested if there is one, and so is one
//   that waits for a review. A rollback to its oldest checkpoint changes a file. No agent of it lives.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { audit, isHeaded } from "./audit.mjs";
import { BASE, LOOKS, TOKEN, Visitor, launch } from "./browser.mjs";

/** Changes come by events; this is long enough for one. */
const SOON = { timeout: 10_000 };
const BIDI = "\u202e";

let browser;
/** Sessions and checkpoints of the store. */
const store = {};

const segment = encodeURIComponent;
const at = (id, ...rest) => `#/checkpoint/${segment(id)}${rest.map((part) => `/${segment(part)}`).join("")}`;

before(async () => {
  browser = await launch();
  const visitor = await Visitor.signedIn(browser);
  const { sessions } = await visitor.get("/api/sessions");
  store.hostile = sessions.find(({ name }) => name.includes("<"));
  assert.ok(store.hostile, "no session has HTML in its name");
  store.hostile.list = await visitor.checkpoints(store.hostile.id);
  for (const session of sessions) {
    const list = await visitor.checkpoints(session.id);
    if (list.some(({ trigger_detail: detail }) => detail === "safety")) store.branched = { ...session, list };
  }
  assert.ok(store.branched, "no session was rolled back");
  await visitor.leave();
});

after(() => browser.close());

/** A test by somebody who has signed in, and who meets nothing that should not be. */
function visit(name, body, look) {
  test(name, async () => {
    const visitor = await Visitor.signedIn(browser, look);
    try {
      await body(visitor, visitor.page);
    } finally {
      await visitor.leave();
    }
  });
}

test("a token is asked for, and kept where no script can read it", async () => {
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
  const kept = await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }) + location.href + document.body.outerHTML);
  assert.ok(!kept.includes(TOKEN));
  const cookies = await visitor.context.cookies();
  assert.ok(cookies.length > 0 && cookies.every(({ httpOnly, sameSite }) => httpOnly && sameSite === "Strict"), JSON.stringify(cookies));
  await visitor.leave();
});

visit("whoever signs out comes back to the same view", async (visitor, page) => {
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in", level: 1 }).waitFor();
  assert.equal((await visitor.context.request.get(`${BASE}/api/sessions`)).status(), 401);
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

visit("changes are shown as they happen", async (visitor, page) => {
  const [newest] = store.branched.list;
  await page.locator("#connection", { hasText: "Live" }).waitFor();
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  const box = page.locator(`#pick-${newest.id}`);
  await box.focus();
  await visitor.post(`/api/checkpoints/${newest.id}/tags`, { tags: ["as-it-happens"] });
  await page.locator(".row", { has: box }).getByText("as-it-happens").waitFor(SOON);
  assert.equal(await page.evaluate(() => document.activeElement.id), `pick-${newest.id}`, "the focus stays");
  await visitor.open(at(newest.id));
  await page.getByLabel("Add an annotation").fill("half a rem");
  await visitor.post(`/api/checkpoints/${newest.id}/annotations`, { text: "from elsewhere" });
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
  assert.equal(await page.locator(".row .pill", { hasText: "waits for review" }).count(), list.filter(({ approval }) => approval?.status === "pending").length);
  assert.ok((await count(".graph .rollback")) >= 1, "a rollback is drawn");
  const columns = await page.locator(".graph circle.node").evaluateAll((nodes) => new Set(nodes.map((node) => node.getAttribute("cx"))).size);
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

visit("older checkpoints come by pages", async (visitor, page) => {
  await page.route("**/checkpoints?limit=100", (route) => route.continue({ url: route.request().url().replace("limit=100", "limit=2") }));
  await visitor.open(`#/session/${segment(store.branched.id)}`);
  assert.equal(await page.locator(".rows .row").count(), 2);
  await page.getByRole("button", { name: "Older checkpoints" }).click();
  await page.locator(".rows .row").nth(store.branched.list.length - 1).waitFor();
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
  const { approval } = await visitor.get(`/api/checkpoints/${target.id}`);
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
  await page.getByLabel("Single keys do something").press("Space");
  await press("Escape", "u", "?");
  assert.equal(await page.getByRole("dialog").count(), 0, "switched off");
  await page.getByRole("heading", { name: store.branched.name, level: 1 }).waitFor();
});

visit("a rejection needs a reason, and a decision that holds is not changed by accident", async (visitor, page) => {
  const target = store.branched.list.at(-1);
  await visitor.post(`/api/checkpoints/${target.id}/approve`, { reason: "fine" });
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
  await dialog.getByLabel("Take the place").check();
  await audit(page, "a decision");
  await dialog.getByRole("button", { name: "Reject" }).click();
  await page.locator(".facts", { hasText: "drops the <table>" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement !== document.body), true, "the focus is not lost");
  await visitor.post(`/api/checkpoints/${target.id}/approve`, { reason: "fine after all", change: true });
});

visit("tags and annotations are added, and a lost answer does not add one twice", async (visitor, page) => {
  const [newest] = store.hostile.list;
  await visitor.open(at(newest.id));
  await page.getByLabel("Add tags").fill("reviewed release/<1.2>");
  await page.keyboard.press("Enter");
  await page.locator(".tags", { hasText: "release/<1.2>" }).waitFor();
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
  const { annotations } = await visitor.get(`/api/checkpoints/${newest.id}`);
  assert.equal(annotations.filter(({ text }) => text.startsWith("said once")).length, 1);
});

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
  const { entries } = await visitor.get(`/api/checkpoints/${newest.id}/entries?path=`);
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
  const file = `/api/checkpoints/${newest.id}/files/`;
  const answers = { large: Buffer.alloc(600 << 10, "x\n"), binary: Buffer.from([0, 1, 2, 255]), empty: Buffer.alloc(0) };
  await page.route(`**${file}*`, (route) => {
    const body = answers[route.request().url().split("/").at(-1)];
    return body ? route.fulfill({ body, contentType: "application/octet-stream" }) : route.continue();
  });
  for (const [name, text] of [["large", "too long"], ["binary", "no text"], ["empty", "empty"]]) {
    await visitor.open(at(newest.id, "file", name));
    await page.locator(".empty", { hasText: text }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Download" }).getAttribute("href"), `${file}${name}`);
  }
  await visitor.open(at(newest.id, "file", "javascript:alert(1)"));
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download" }).click()]);
  assert.ok(download.url().startsWith(BASE));
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
  const colour = (kind) => page.locator(`.diff tr.${kind}`).first().evaluate((row) => getComputedStyle(row).backgroundColor);
  assert.notEqual(await colour("add"), await colour("same"));
  assert.match(await first.locator(".diff tr.add").first().innerText(), /\d+\s+\+/);
  await audit(page, "a diff");
  await page.getByRole("link", { name: "Conversation" }).click();
  await page.locator(".sides").or(page.locator("main .empty")).first().waitFor();
  await audit(page, "conversations beside each other");
  await page.getByRole("link", { name: "Environment" }).click();
  await page.locator("main table").or(page.locator("main .empty")).first().waitFor();
  await audit(page, "environments");
  await page.getByLabel("Older").selectOption(list.at(-1).id);
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

visit("a rollback is shown before it is done, and undone", async (visitor, page) => {
  const { id, list } = store.branched;
  const target = list.at(-1);
  const heads = async () => (await visitor.get(`/api/sessions/${segment(id)}`)).session.head;
  const before = await heads();
  await visitor.open(at(target.id, "rollback"));
  await page.locator(".plan .paths li").first().waitFor();
  await page.getByText("A safety checkpoint is made first").waitFor();
  assert.equal(await heads(), before, "what is shown is not done");
  const button = page.locator("#do-rollback");
  assert.match(await button.innerText(), new RegExp(`back to …${target.id.slice(-6)}: \\d`));
  await audit(page, "a plan");
  await page.getByLabel("Leave the conversation where it is").check();
  await page.getByText("The conversation stays where it is.").waitFor();
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
    return stop ? route.continue() : route.fulfill({ status: 409, contentType: "application/problem+json", body: JSON.stringify(problem) });
  });
  await visitor.open(at(store.branched.list.at(-1).id, "rollback"));
  await page.locator(".rolling .alert", { hasText: "<b>end it</b> first" }).waitFor();
  assert.equal(await page.locator("#do-rollback").isVisible(), false);
  await page.getByLabel("End a live agent first").check();
  await page.locator(".plan").waitFor();
});

visit("a session is paused and resumed by buttons that ask first", async (visitor, page) => {
  const asked = [];
  await page.route("**/api/sessions/*/{pause,end,resume,checkpoints}", (route) => {
    if (route.request().method() !== "POST") return route.continue();
    asked.push([route.request().url().split("/").at(-1), route.request().postDataJSON()]);
    const body = { session: store.branched, checkpoint: store.branched.list[0], created: true, warnings: ["<i>look</i> at this"] };
    return route.fulfill({ contentType: "application/json", body: JSON.stringify(body) });
  });
  await page.route(`**/api/sessions/${segment(store.branched.id)}`, async (route) => {
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
  assert.deepEqual(asked, [["checkpoints", {}], ["pause", { end_agent: true }]]);
});

for (const [name, look] of Object.entries(LOOKS)) {
  visit(`all views are fit to be seen: ${name}`, async (visitor, page) => {
    const { branched, hostile } = store;
    const [newest, oldest] = [branched.list[0], branched.list.at(-1)];
    const talked = branched.list.find(({ conversation }) => conversation) ?? newest;
    const views = {
      sessions: "#/",
      session: `#/session/${segment(branched.id)}`,
      checkpoint: at(newest.id),
      files: at(hostile.list[0].id, "files"),
      file: at(hostile.list[0].id, "file", "javascript:alert(1)"),
      conversation: at(talked.id, "conversation"),
      environment: at(newest.id, "environment"),
      plan: at(oldest.id, "rollback"),
      diff: `#/diff/${oldest.id}/${newest.id}`,
      "diff-conversation": `#/diff/${oldest.id}/${newest.id}/conversation`,
      "diff-environment": `#/diff/${oldest.id}/${newest.id}/environment`,
      search: "#/search?q=alert",
      undo: `#/undo/${segment(branched.id)}`,
    };
    for (const [view, hash] of Object.entries(views)) {
      await visitor.open(hash);
      const all = page.getByRole("button", { name: /^Open (all|the first)/ });
      if (await all.count()) {
        await all.click();
        await page.locator(".change-body[aria-busy]").first().waitFor({ state: "detached" });
      }
      await visitor.shot(`${name}-${view}`);
      await audit(page, `${name} ${view}`);
      if (view !== "sessions") await isHeaded(page, view);
    }
  }, look);
}
