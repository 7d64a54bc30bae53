/** Requests over one address: each is sent, and sent again where that is safe. */

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { type Address, type Place, addressOf } from "./address.js";
import { ParheliaConnectionError, ParheliaProblem, type Reply } from "./problem.js";

/** Options of a transport. */
export interface TransportOptions {
  /** Times that a failed request is sent again. [default: 4] */
  retries?: number | undefined;
  /** Milliseconds for a call, retries included. [default: 60000 for reads; 600000 for writes, which may capture a large folder] */
  timeout?: number | undefined;
}

/** A request. */
export interface Call {
  method: "GET" | "POST";
  /** Path and query. */
  path: string;
  /** JSON body. */
  body?: unknown;
  headers?: Record<string, string>;
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
  timeout?: number | undefined;
}

/** A way to a service. */
export class Transport {
  /** Times that a failed request is sent again. */
  readonly retries: number;
  readonly #address: Address;
  readonly #timeout: number | undefined;

  constructor(place: Place, options: TransportOptions = {}) {
    this.#address = addressOf(place);
    this.retries = options.retries ?? RETRIES;
    this.#timeout = options.timeout;
  }

  /** Closes all connections. */
  close(): void {
    this.#address.options.agent.destroy();
  }

  /** Sends a request once. Resolves with the answer when its headers have come; the signal also ends its body. */
  open(call: Call, signal: AbortSignal): Promise<IncomingMessage> {
    const { request, options, prefix, authorization } = this.#address;
    const body = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body));
    const headers = {
      ...options.headers,
      ...call.headers,
      ...(authorization && { authorization }),
      ...(call.idempotencyKey !== undefined && { "idempotency-key": call.idempotencyKey }),
      ...(body && { "content-type": "application/json", "content-length": String(body.length) }),
    };
    return new Promise((resolve, reject) => {
      const sent = request({ ...options, headers, method: call.method, path: prefix + call.path, signal }, resolve);
      // Also hears errors after the answer has begun, which its reader reports.
      sent.on("error", (cause) => reject(signal.aborted ? signal.reason : this.lost(cause)));
      sent.end(body);
    });
  }

  /** The error for a connection that failed. */
  lost(cause: unknown): ParheliaConnectionError {
    return new ParheliaConnectionError(this.#address.shown, cause);
  }

  /** Sends a request, again after a lost connection or where the service asks for that, and reads its answer. */
  async send(call: Call): Promise<Reply> {
    const isWrite = call.method === "POST";
    // All attempts bear one key, so that the service does once what several of them ask for.
    const named = isWrite ? { ...call, idempotencyKey: call.idempotencyKey ?? randomUUID() } : call;
    const limit = new Limit(call.timeout ?? this.#timeout ?? (isWrite ? WRITE_TIMEOUT : READ_TIMEOUT), call.signal);
    try {
      for (let failures = 0, wasLost = false; ; ) {
        const tried = await this.#try(named, limit.signal);
        if (!(tried instanceof ParheliaConnectionError) && tried.status < 300) {
          return tried;
        }
        const isLost = tried instanceof ParheliaConnectionError;
        const error = isLost ? tried : ParheliaProblem.of(tried);
        // After a lost connection, a refusal that is not a repeated answer may say that the first request is still under way. Sent again,
        // it either is, or the final answer comes.
        const mayBeUnderWay = isWrite && wasLost && !isLost && tried.status === 409 && !tried.headers["idempotent-replayed"];
        wasLost ||= isLost && !tried.isUnsent;
        failures += mayBeUnderWay ? 0 : 1;
        const asked = isLost ? 0 : retryAfter(tried);
        const pause = Math.max(asked ?? 0, backOff(failures));
        if ((asked === undefined && !mayBeUnderWay) || failures > this.retries || pause >= limit.left()) {
          throw error;
        }
        await sleep(pause, undefined, { signal: limit.signal });
      }
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : error;
    } finally {
      limit.end();
    }
  }

  async #try(call: Call, signal: AbortSignal): Promise<Reply | ParheliaConnectionError> {
    try {
      const answer = await this.open(call, signal);
      return { status: answer.statusCode ?? 0, headers: answer.headers, body: await read(answer) };
    } catch (error) {
      if (signal.aborted || error instanceof TypeError) {
        throw error;
      }
      return error instanceof ParheliaConnectionError ? error : this.lost(error);
    }
  }
}

/** The pause before an attempt, in milliseconds: doubled with each failure, and of random length, so that clients do not come together. */
export function backOff(failures: number, first = 200, most = 30_000): number {
  return Math.min(first * 2 ** Math.max(failures - 1, 0), most) * (0.5 + Math.random() / 2);
}

/** Reads an answer's body. Rejects if it was cut off. */
export async function read(answer: IncomingMessage): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of answer) {
    pieces.push(piece as Uint8Array);
  }
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** The pause that an answer asks for, in milliseconds; undefined if it is final. */
export function retryAfter(reply: Pick<Reply, "status" | "headers">): number | undefined {
  const text = reply.headers["retry-after"];
  if (reply.status !== 503 || text === undefined) {
    return undefined;
  }
  const pause = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(pause) ? 0 : Math.max(pause, 0);
}

/** A bound of a call: its caller's signal and a time. Node has AbortSignal.any only from 20.3 on. */
class Limit {
  readonly #controller = new AbortController();
  readonly #end: number;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #given: AbortSignal | undefined;
  readonly #abort = () => this.#controller.abort(this.#given?.reason);

  constructor(milliseconds: number, given: AbortSignal | undefined) {
    this.#end = performance.now() + milliseconds;
    this.#given = given;
    if (given?.aborted) {
      this.#abort();
      return;
    }
    given?.addEventListener("abort", this.#abort, { once: true });
    // A longer timer would fire at once.
    if (milliseconds <= TIMER_MAX) {
      const late = () => new DOMException(`no answer from the service within ${milliseconds} ms`, "TimeoutError");
      this.#timer = setTimeout(() => this.#controller.abort(late()), milliseconds);
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Milliseconds that are left. */
  left(): number {
    return this.#end - performance.now();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#given?.removeEventListener("abort", this.#abort);
  }
}

const RETRIES = 4;
const READ_TIMEOUT = 60_000;
const WRITE_TIMEOUT = 600_000;
const TIMER_MAX = 2 ** 31 - 1;
