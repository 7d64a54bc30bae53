import assert from "node:assert/strict";
import { test } from "node:test";
import { type JournalEvent, Parhelia, ParheliaConnectionError, ParheliaProblem } from "../src/index.js";
import { event, json, lost, problem, standIn, stream } from "./standin.js";

/** Sequences of events, up to one at which the stream is left. */
async function upTo(last: number, events: AsyncIterable<JournalEvent>): Promise<number[]> {
  const sequences: number[] = [];
  for await (const { sequence } of events) {
    sequences.push(sequence);
    if (sequence >= last) {
      break;
    }
  }
  return sequences;
}

/** Sequences of events, of which the last one has the stream aborted a little later. */
async function untilAborted(events: AsyncIterable<JournalEvent>, last: number, controller: AbortController): Promise<number[]> {
  const sequences: number[] = [];
  for await (const { sequence } of events) {
    sequences.push(sequence);
    if (sequence === last) {
      setTimeout(() => controller.abort(), 50);
    }
  }
  return sequences;
}

test("events go on behind a cut, without losing or repeating one", async (context) => {
  const half = event(3).slice(0, 20);
  const { socket, requests } = await standIn(
    context,
    stream(event(1) + event(2) + half, true),
    // A proxy may repeat what it has.
    stream(event(2) + event(3), true),
    stream(": still there\n\n", true),
    stream(event(7)),
  );
  const client = new Parhelia({ socket });
  assert.deepEqual(await upTo(7, client.events({ after: 0, session: "a b", kind: "test.", pause: 1 })), [1, 2, 3, 7]);
  assert.deepEqual(
    requests.map(({ path, headers }) => [path, headers["last-event-id"]]),
    [
      ["/v1/events?after=0&session=a+b&kind=test.", undefined],
      ["/v1/events?session=a+b&kind=test.", "2"],
      ["/v1/events?session=a+b&kind=test.", "3"],
      ["/v1/events?session=a+b&kind=test.", "3"],
    ],
  );
});

test("a cut before the first event loses none that came meanwhile", async (context) => {
  const { socket, requests } = await standIn(context, json({ sequence: 41 }), stream("", true), stream(event(42)));
  assert.deepEqual(await upTo(42, new Parhelia({ socket }).events({ pause: 1 })), [42]);
  assert.deepEqual(requests.map(({ path }) => path), ["/health", "/v1/events?after=41", "/v1/events?after=41"]);
});

test("a stream that ends, and a service that is busy or away, are waited for", async (context) => {
  const { socket, requests } = await standIn(
    context,
    (response) => void response.writeHead(200, { "content-type": "text/event-stream" }).end(event(1)),
    problem(503, "locked", { "retry-after": "0" }),
    ...Array<typeof lost>(8).fill(lost),
    stream(event(2)),
  );
  assert.deepEqual(await upTo(2, new Parhelia({ socket, retries: 0 }).events({ after: 0, pause: 0 })), [1, 2]);
  assert.equal(requests.length, 11);
});

test("a silent connection counts as lost", async (context) => {
  const { socket } = await standIn(context, stream(event(1)), stream(event(2)));
  assert.deepEqual(await upTo(2, new Parhelia({ socket }).events({ after: 0, idleTimeout: 5000, pause: 1 })), [1, 2]);
});

test("time that the reader takes is no silence", async (context) => {
  const { socket, requests } = await standIn(context, stream(event(1) + event(2)));
  for await (const { sequence } of new Parhelia({ socket }).events({ after: 0, idleTimeout: 5000 })) {
    await new Promise((done) => setTimeout(done, 7000));
    if (sequence === 2) {
      break;
    }
  }
  assert.equal(requests.length, 1);
});

test("a refusal ends the stream with its problem", async (context) => {
  const { socket } = await standIn(context, stream(event(1), true), problem(404, "not_found"));
  const events = new Parhelia({ socket }).events({ after: 0, pause: 1 });
  await assert.rejects(upTo(9, events), (error) => error instanceof ParheliaProblem && error.status === 404);
});

test("an answer that is no stream is a problem", async (context) => {
  const { socket } = await standIn(context, json({}));
  await assert.rejects(upTo(9, new Parhelia({ socket }).events({ after: 0 })), ParheliaProblem);
});

test("a service that is not there is given up", async () => {
  const events = new Parhelia({ socket: "/nowhere/s.sock", retries: 1 }).events({ after: 0, pause: 1 });
  await assert.rejects(upTo(9, events), ParheliaConnectionError);
});

test("an abort ends the stream without an error: while it waits, within a piece, before it begins", async (context) => {
  const { socket } = await standIn(context, stream(event(1) + event(2)));
  const client = new Parhelia({ socket });
  const waiting = new AbortController();
  assert.deepEqual(await untilAborted(client.events({ after: 0, signal: waiting.signal }), 2, waiting), [1, 2]);

  const within = new AbortController();
  const sequences: number[] = [];
  for await (const { sequence } of client.events({ after: 0, signal: within.signal })) {
    sequences.push(sequence);
    within.abort();
  }
  assert.deepEqual(sequences, [1]);
  assert.deepEqual(await upTo(9, client.events({ signal: AbortSignal.abort() })), []);
});

test("an abort ends the wait before a reconnection", async (context) => {
  const { socket } = await standIn(context, stream(event(1), true));
  const controller = new AbortController();
  const events = new Parhelia({ socket }).events({ after: 0, signal: controller.signal, pause: 60_000 });
  assert.deepEqual(await untilAborted(events, 1, controller), [1]);
});
