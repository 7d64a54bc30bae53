import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStreamParser, type ServerSentEvent } from "../src/sse.js";

/** The events of a stream that comes in pieces. */
function parsed(...pieces: Uint8Array[]): ServerSentEvent[] {
  const parser = new EventStreamParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

const bytes = (text: string) => new TextEncoder().encode(text);

/** Streams by the standard, and their events. */
const STREAMS: [name: string, stream: string, events: Partial<ServerSentEvent>[]][] = [
  ["lines of data", "data: YHOO\ndata: +2\ndata: 10\n\n", [{ event: "message", data: "YHOO\n+2\n10" }]],
  ["comments and ids", ": comment\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n", [
    { data: "first", id: "1" },
    { data: "second", id: "" },
    { data: " third", id: "" },
  ]],
  ["empty data, and an event that does not end", "data\n\ndata\ndata\n\ndata:", [{ data: "" }, { data: "\n" }]],
  ["one space is dropped", "data:test\n\ndata: test\n\n", [{ data: "test" }, { data: "test" }]],
  ["an id lasts", "id: 7\ndata: a\n\ndata: b\n\n", [{ id: "7" }, { id: "7" }]],
  ["an id without data lasts", "id: 8\n\ndata: b\n\n", [{ data: "b", id: "8" }]],
  ["a type does not last", "event: x\n\nevent: y\ndata: a\n\ndata: b\n\n", [{ event: "y" }, { event: "message" }]],
  ["an id with a null is ignored", "id: 1\nid: 2\0\ndata: a\n\n", [{ id: "1" }]],
  ["unknown fields are ignored", "foo: 1\nDATA: 2\n data: 3\ndata: 4\n\n", [{ data: "4" }]],
  ["a colon in a value", "data: a: b:\n\n", [{ data: "a: b:" }]],
  ["characters of several bytes", "event: prüfen\ndata: 日本語 🌞\n\n", [{ event: "prüfen", data: "日本語 🌞" }]],
  ["a byte order mark", "\ufeffdata: a\n\n", [{ data: "a" }]],
  ["other line separators are text", "data: a\u2028b\u0085c\x0b\n\n", [{ data: "a\u2028b\u0085c\x0b" }]],
];

const SEPARATORS = { LF: "\n", CRLF: "\r\n", CR: "\r" };

for (const [name, stream, events] of STREAMS) {
  for (const [kind, separator] of Object.entries(SEPARATORS)) {
    const all = bytes(stream.replaceAll("\n", separator));
    test(`${name}, ${kind}: every cut gives the same events`, () => {
      const whole = parsed(all);
      assert.equal(whole.length, events.length);
      whole.forEach((event, at) => assert.deepEqual({ ...event, ...events[at] }, event));
      for (let first = 0; first <= all.length; first++) {
        for (let second = first; second <= all.length; second++) {
          assert.deepEqual(parsed(all.subarray(0, first), all.subarray(first, second), all.subarray(second)), whole);
        }
      }
      assert.deepEqual(parsed(...Array.from(all, (byte) => Uint8Array.of(byte))), whole);
    });
  }
}

test("separators may be mixed", () => {
  const all = bytes("data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\rdata: e\n\r");
  const whole = parsed(all);
  assert.deepEqual(whole.map((event) => event.data), ["a\nb\nc", "d", "e"]);
  for (let cut = 0; cut <= all.length; cut++) {
    assert.deepEqual(parsed(all.subarray(0, cut), all.subarray(cut)), whole);
  }
});

test("an event that ends with a carriage return does not wait for what comes next", () => {
  assert.equal(parsed(bytes("data: a\r\r")).length, 1);
});

test("a pause is taken over if it is a number", () => {
  const parser = new EventStreamParser();
  parser.push(bytes("retry: soon\n\n"));
  assert.equal(parser.retry, undefined);
  parser.push(bytes("retry: 1500\n\n"));
  assert.equal(parser.retry, 1500);
});

test("random streams in random pieces give the same events as in one", () => {
  const random = generator(20);
  const parts = ["data", "id", "event", "retry", ":", ": ", " ", "\n", "\r", "\r\n", "\n\n", "x", "é", "🌞", "1", "\0"];
  for (let round = 0; round < 2000; round++) {
    const all = bytes(Array.from({ length: random(60) }, () => parts[random(parts.length)]).join(""));
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < all.length; ) {
      const next = at + random(6);
      pieces.push(all.subarray(at, next));
      at = next;
    }
    assert.deepEqual(parsed(...pieces), parsed(all));
  }
});

/** Numbers below a bound that are the same in each run (a linear congruential generator). */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
