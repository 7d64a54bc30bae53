/** A stand-in of the service: a server on a Unix socket that answers as a test says. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { text } from "node:stream/consumers";

/** A request that was received. */
export interface Received {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** An answer. It may also destroy the connection. */
export type Respond = (response: ServerResponse, request: Received) => void | Promise<void>;

export interface StandIn {
  socket: string;
  /** All requests so far. */
  requests: Received[];
}

/** A stand-in that answers each request with the next of some answers, and further ones with the last. */
export async function standIn(context: TestContext, ...answers: Respond[]): Promise<StandIn> {
  const folder = mkdtempSync(join(tmpdir(), "parhelia-"));
  const socket = join(folder, "s.sock");
  const requests: Received[] = [];
  const server = createServer(async (request, response) => {
    const received = { method: request.method ?? "", path: request.url ?? "", headers: request.headers, body: await text(request) };
    requests.push(received);
    const respond = answers[Math.min(requests.length, answers.length) - 1];
    await respond?.(response, received);
  });
  server.listen(socket);
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { socket, requests };
}

/** A JSON answer. */
export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Respond {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
  };
}

/** A problem. */
export function problem(status: number, title: string, headers: Record<string, string> = {}): Respond {
  const body = { title, status, detail: `a ${title}`, exit_code: 4 };
  return json(body, status, { "content-type": "application/problem+json", ...headers });
}

/** An answer that never comes: the connection is lost. */
export const lost: Respond = (response) => {
  response.destroy();
};

/** The beginning of a stream of events, which a cut or a test's end follows. */
export function stream(text: string, isCut = false): Respond {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(text, () => {
      if (isCut) {
        response.destroy();
      }
    });
  };
}

/** An event as the service sends it. */
export function event(sequence: number): string {
  return `id: ${sequence}\nevent: test.happened\ndata: {"sequence":${sequence},"kind":"test.happened"}\n\n`;
}

/** The error with which a call rejects. */
export async function failure<T extends Error>(call: Promise<unknown>, kind: new (...given: never[]) => T): Promise<T> {
  const error: unknown = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.ok(error instanceof kind, `expected ${kind.name}, not ${String(error)}`);
  return error;
}
