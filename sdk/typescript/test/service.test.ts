/**
 * Tests against a running service: that of PARHELIA_SOCKET, or of PARHELIA_URL with PARHELIA_TOKEN. PARHELIA_SESSION names a session with at
 * least two checkpoints and no live agent. Its folder is rolled back and forth; the session is paused at the end, if it cannot be resumed.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Parhelia, ParheliaProblem, type Schemas } from "../src/index.js";

const { PARHELIA_SOCKET: socket, PARHELIA_URL: url, PARHELIA_TOKEN: token = "", PARHELIA_SESSION: session = "" } = process.env;
const skip = (!socket && !url) || !session ? "neither PARHELIA_SOCKET and PARHELIA_SESSION nor PARHELIA_URL and PARHELIA_SESSION are set" : false;
const client = skip ? (undefined as never) : socket ? new Parhelia({ socket }) : new Parhelia({ url: url ?? "", token });

const committed = JSON.parse(readFileSync(new URL("../../src/openapi.json", import.meta.url), "utf8"));
type Document = { info: object; paths: Record<string, Record<string, { operationId: string }>> };
const withoutVersion = (document: Document) => ({ ...document, info: { ...document.info, version: null } });
const hasStatus = (status: number) => (error: unknown) => error instanceof ParheliaProblem && error.status === status;

/** The newest two checkpoints, newest first. */
async function newestTwo(): Promise<[Schemas["Checkpoint"], Schemas["Checkpoint"]]> {
  const { checkpoints } = await client.listCheckpoints(session, { limit: 2 });
  assert.equal(checkpoints.length, 2);
  return checkpoints as [Schemas["Checkpoint"], Schemas["Checkpoint"]];
}

test("every operation has a method", () => {
  const others: Record<string, string> = { listenToEvents: "events" };
  for (const path of Object.values((committed as Document).paths)) {
    for (const { operationId } of Object.values(path)) {
      assert.ok((others[operationId] ?? operationId) in Parhelia.prototype, operationId);
    }
  }
});

test("the service's document is the committed one; else run `npm run generate`", { skip }, async () => {
  assert.deepEqual(withoutVersion((await client.openapi()) as Document), withoutVersion(committed));
});

test("health and numbers", { skip }, async () => {
  const health = await client.health();
  assert.equal(health.status, "ok");
  // Whoever has no token gets neither.
  assert.ok((health.sequence ?? 0) > 0 && (health.sessions ?? 0) > 0);
  assert.match(await client.metrics(), /^# EOF$/m);
});

test("sessions", { skip }, async () => {
  const { session: found, runs } = await client.getSession(session);
  const { sessions } = await client.listSessions();
  assert.ok(sessions.some(({ id }) => id === found.id));
  assert.equal((await client.listSessions({ limit: 1 })).sessions.length, 1);
  assert.equal(runs.length, found.runs.length);
  await assert.rejects(client.getSession("no such session"), hasStatus(404));
  await assert.rejects(client.endSession("no such session"), hasStatus(404));
});

test("checkpoints, all pages of them", { skip }, async () => {
  const ids: string[] = [];
  for await (const { id } of client.checkpoints(session, { limit: 1 })) {
    ids.push(id);
  }
  const { checkpoints, before } = await client.listCheckpoints(session);
  assert.equal(before, null);
  assert.deepEqual(ids, checkpoints.map(({ id }) => id));
  const manifest = (await client.getCheckpoint(ids[0] ?? "")) as { id: string };
  assert.equal(manifest.id, ids[0]);
});

test("contents", { skip }, async () => {
  // After a rollback the newest checkpoint is a safety checkpoint, and the head is an older one.
  const { head } = (await client.getSession(session)).session;
  assert.ok(head);
  const { entries } = await client.listEntries(head);
  const file = entries.find(({ kind }) => kind === "file");
  assert.ok(file, "the session's folder has a file");
  assert.equal((await client.getFile(head, file.path)).length, file.size);
  assert.equal((await client.getFile(`${session}@latest`, file.path)).length, file.size);
  await assert.rejects(client.getFile(head, "no/such file?#%"), hasStatus(404));
});

test("differences", { skip }, async () => {
  const { checkpoints } = await client.listCheckpoints(session);
  const [newest, oldest] = [checkpoints[0], checkpoints.at(-1)];
  assert.ok(newest && oldest);
  const diff = await client.diffCheckpoints(oldest.id, { to: newest.id });
  assert.deepEqual([diff.old, diff.new], [oldest.id, newest.id]);
  const changed = diff.changes.find(({ new: entry }) => entry?.kind === "file");
  if (changed) {
    const one = await client.diffCheckpoints(oldest.id, { to: newest.id, path: changed.path });
    assert.equal(one.changes.length, 1);
  }
  const environments = await client.diffEnvironments(newest.id, { since: oldest.id });
  assert.equal(environments.new, newest.id);
  // Its agent may have had no conversation.
  await client.getConversation(newest.id).catch((error) => assert.ok(hasStatus(404)(error)));
});

test("a write with the key of another one is done once", { skip }, async () => {
  const [{ id }] = await newestTwo();
  const options = { idempotencyKey: crypto.randomUUID() };
  const first = await client.annotateCheckpoint(id, { text: "looked at" }, options);
  assert.deepEqual(await client.annotateCheckpoint(id, { text: "looked at" }, options), first);
  await assert.rejects(client.annotateCheckpoint(id, { text: "something else" }, options), hasStatus(422));
});

test("tags and annotations are listed and found", { skip }, async () => {
  const [{ id }] = await newestTwo();
  const word = `word${Date.now()}`;
  await client.annotateCheckpoint(id, { text: word });
  assert.deepEqual((await client.tagCheckpoint(id, { tags: [word] })).added, [word]);
  const { checkpoints } = await client.listCheckpoints(session);
  const listed = checkpoints.find((checkpoint) => checkpoint.id === id);
  assert.ok(listed);
  assert.ok(listed.tags.includes(word));
  assert.ok(listed.annotations.some(({ text }) => text === word));
  const { found } = await client.searchCheckpoints({ q: word, session });
  assert.deepEqual(found.map(({ checkpoint }) => checkpoint), [id]);
});

test("decisions", { skip }, async () => {
  const { checkpoint } = await client.createCheckpoint(session);
  assert.equal((await client.approveCheckpoint(checkpoint.id, { reason: "good" })).approval.status, "approved");
  await assert.rejects(client.rejectCheckpoint(checkpoint.id), hasStatus(409));
  assert.equal((await client.rejectCheckpoint(checkpoint.id, { change: true })).approval.status, "rejected");
  assert.equal((await client.approveCheckpoint(checkpoint.id, { change: true })).approval.reason, null);
});

test("events, as they are recorded and from the beginning", { skip }, async () => {
  const { sequence: after = 0 } = await client.health();
  const controller = new AbortController();
  const events = client.events({ after, kind: "checkpoint.created", signal: controller.signal });
  const heard = events.next();
  const { checkpoint, created } = await client.createCheckpoint(session);
  assert.ok(created);
  assert.equal((await heard).value?.subject, checkpoint.id);
  controller.abort();
  assert.ok((await events.next()).done);

  const sequences: number[] = [];
  for await (const { sequence } of client.events({ after: 0 })) {
    sequences.push(sequence);
    if (sequence >= after) {
      break;
    }
  }
  assert.deepEqual(sequences, [...new Set(sequences)].sort((a, b) => a - b));
});

test("a rollback is planned, done and undone", { skip }, async () => {
  const [newest, older] = await newestTwo();
  const plan = await client.planRollback(older.id);
  assert.deepEqual([plan.rollback.dry_run, plan.rollback.changed], [true, false]);
  assert.equal((await client.getSession(session)).session.head, newest.id);

  const done = await client.rollBack(older.id);
  assert.equal(done.rollback.target, older.id);
  const safety = done.rollback.safety;
  assert.ok(safety);
  assert.equal((await client.planUndo(session)).rollback.target, safety);
  assert.equal((await client.undoRollback(session)).rollback.target, safety);
  const { changes } = await client.diffCheckpoints(newest.id, { to: safety });
  assert.deepEqual(changes.filter(({ change }) => change !== "metadata"), []);
});

test("a session is paused and resumed", { skip }, async () => {
  if ((await client.getSession(session)).session.status !== "paused") {
    assert.equal((await client.pauseSession(session)).session.status, "paused");
  }
  await assert.rejects(client.pauseSession(session), hasStatus(409));
  // One that was made of single checkpoints has no agent that could go on.
  const resumed = await client.resumeSession(session).catch((error) => assert.ok(hasStatus(409)(error)));
  if (resumed) {
    assert.equal(resumed.session.status, "active");
  }
});
