import assert from "node:assert/strict";
import { test } from "node:test";
import { Parhelia, ParheliaConnectionError, ParheliaProblem } from "../src/index.js";
import { failure, json, lost, problem, standIn } from "./standin.js";

const UNDER_WAY = problem(409, "refused", { "retry-after": "0" });
const REPEATED = { "idempotent-replayed": "true" };

test("a write that is sent again bears the same key, and another write another one", async (context) => {
  const { socket, requests } = await standIn(context, lost, problem(503, "locked", { "retry-after": "0" }), json({ created: true }));
  const client = new Parhelia({ socket });
  assert.deepEqual(await client.createCheckpoint("a/b"), { created: true });
  await client.createCheckpoint("a/b");
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body])[0], ["POST", "/v1/sessions/a%2Fb/checkpoints", "{}"]);
  const keys = requests.map(({ headers }) => headers["idempotency-key"]);
  assert.equal(keys.length, 4);
  assert.ok(keys[0] && keys[0].length > 20);
  assert.equal(new Set(keys.slice(0, 3)).size, 1);
  assert.notEqual(keys[3], keys[0]);
});

test("a caller's key is used, and reads bear none", async (context) => {
  const { socket, requests } = await standIn(context, json({}));
  const client = new Parhelia({ socket });
  await client.tagCheckpoint("ID", { tags: ["good"] }, { idempotencyKey: "mine" });
  await client.health();
  assert.deepEqual(requests.map(({ headers }) => headers["idempotency-key"]), ["mine", undefined]);
  assert.equal(requests[0]?.body, '{"tags":["good"]}');
});

test("a write that is under way is waited for, however often", async (context) => {
  const { socket, requests } = await standIn(context, lost, UNDER_WAY, UNDER_WAY, json({ session: {} }, 200, REPEATED));
  assert.deepEqual(await new Parhelia({ socket, retries: 1 }).pauseSession("a"), { session: {} });
  assert.equal(requests.length, 4);
  assert.equal(new Set(requests.map(({ headers }) => headers["idempotency-key"])).size, 1);
});

test("a caller's key whose first write is under way elsewhere is waited for, too", async (context) => {
  const { socket, requests } = await standIn(context, UNDER_WAY, json({ session: {} }, 200, REPEATED));
  assert.deepEqual(await new Parhelia({ socket }).pauseSession("a", {}, { idempotencyKey: "mine" }), { session: {} });
  assert.deepEqual(requests.map(({ headers }) => headers["idempotency-key"]), ["mine", "mine"]);
});

test("waiting for a write that is under way ends: with the time of the call, and without retries", async (context) => {
  // Without pauses it is between two attempts that the time is over.
  context.mock.method(Math, "random", () => 0);
  const { socket, requests } = await standIn(context, UNDER_WAY);
  const isUnderWay = (error: unknown) => error instanceof ParheliaProblem && error.status === 409;
  await assert.rejects(new Parhelia({ socket, retries: 0 }).pauseSession("a"), isUnderWay);
  assert.equal(requests.length, 1);
  await assert.rejects(new Parhelia({ socket, timeout: 1500 }).pauseSession("a"), isUnderWay);
  assert.ok(requests.length > 1);
});

test("waiting for a write that is under way is bounded, however often its answer is asked for", async (context) => {
  context.mock.method(Math, "random", () => -1);
  const { socket, requests } = await standIn(context, UNDER_WAY);
  await assert.rejects(new Parhelia({ socket, retries: 1 }).pauseSession("a"), ParheliaProblem);
  assert.equal(requests.length, 11);
});

test("a refusal is final: at once, after a lost connection, or as a repeated answer", async (context) => {
  const refused = problem(409, "refused");
  const { socket, requests } = await standIn(context, refused, lost, refused, lost, problem(409, "refused", REPEATED));
  const client = new Parhelia({ socket });
  for (const sent of [1, 3, 5]) {
    await assert.rejects(client.pauseSession("a"), ParheliaProblem);
    assert.equal(requests.length, sent);
  }
});

test("undoing is not sent again once the service may have it", async (context) => {
  const { socket, requests } = await standIn(context, problem(503, "locked", { "retry-after": "0" }), lost, json({}));
  const client = new Parhelia({ socket });
  await assert.rejects(client.undoRollback("a"), (error) => error instanceof ParheliaConnectionError && !error.isUnsent);
  assert.equal(requests.length, 2);
});

test("retries are bounded", async (context) => {
  const { socket, requests } = await standIn(context, lost);
  const client = new Parhelia({ socket, retries: 2 });
  await assert.rejects(client.health(), ParheliaConnectionError);
  assert.equal(requests.length, 3);
});

test("a 503 that asks for more time than there is, or for none, is final", async (context) => {
  const { socket, requests } = await standIn(context, problem(503, "locked", { "retry-after": "600" }), problem(503, "locked"));
  const client = new Parhelia({ socket, timeout: 5000 });
  const isLocked = (error: unknown) => error instanceof ParheliaProblem && error.title === "locked";
  await assert.rejects(client.health(), isLocked);
  await assert.rejects(client.health(), isLocked);
  assert.equal(requests.length, 2);
});

test("a problem has the members of its description", async (context) => {
  const { socket } = await standIn(context, problem(410, "gone"), (response) => void response.writeHead(502).end("<html>"));
  const client = new Parhelia({ socket });
  const { title, status, detail, exitCode, message } = await failure(client.resumeSession("a"), ParheliaProblem);
  assert.deepEqual({ title, status, detail, exitCode, message }, { title: "gone", status: 410, detail: "a gone", exitCode: 4, message: "gone: a gone" });
  await assert.rejects(client.health(), (error) => error instanceof ParheliaProblem && error.status === 502 && error.exitCode === 1);
});

test("an answer that is cut off is not taken for a whole one", async (context) => {
  const cut = (response: import("node:http").ServerResponse) => {
    response.writeHead(200, { "content-length": "10" });
    response.write("12345", () => response.destroy());
  };
  const { socket } = await standIn(context, cut, (response) => void response.end("1234567890"));
  assert.equal(new TextDecoder().decode(await new Parhelia({ socket }).getFile("ID", "a/b")), "1234567890");
});

test("an abort and a timeout end a call: as it waits for an answer, or for the next attempt", async (context) => {
  const { socket } = await standIn(context, () => {}, () => {}, lost);
  const client = new Parhelia({ socket });
  const reason = new Error("enough");
  const controller = new AbortController();
  setTimeout(() => controller.abort(reason), 50);
  await assert.rejects(client.health({ signal: controller.signal }), reason);
  await assert.rejects(client.health({ timeout: 50 }), { name: "TimeoutError" });
  await assert.rejects(client.createCheckpoint("a", { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  await assert.rejects(client.health({ signal: AbortSignal.abort(reason) }), reason);
});

test("pages are read to the last one", async (context) => {
  const { socket, requests } = await standIn(
    context,
    json({ checkpoints: [{ id: "c" }, { id: "b" }], before: 5 }),
    json({ checkpoints: [{ id: "a" }], before: null }),
  );
  const ids: string[] = [];
  for await (const { id } of new Parhelia({ socket }).checkpoints("s", { limit: 2 })) {
    ids.push(id);
  }
  assert.deepEqual(ids, ["c", "b", "a"]);
  const paths = ["/v1/sessions/s/checkpoints?limit=2", "/v1/sessions/s/checkpoints?limit=2&before=5"];
  assert.deepEqual(requests.map(({ path }) => path), paths);
});

test("names are one part of a path", async (context) => {
  const { socket, requests } = await standIn(context, json({}));
  const client = new Parhelia({ socket });
  await client.getSession("../health?x#y");
  assert.equal(requests[0]?.path, "/v1/sessions/..%2Fhealth%3Fx%23y");
  for (const name of ["", ".", ".."]) {
    await assert.rejects(client.getSession(name), TypeError);
  }
});
