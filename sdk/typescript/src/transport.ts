/** Requests to one service, with retries. */

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { type Address, type Place, addressOf } from "./address.js";
import { ParheliaConnectionError, ParheliaProblem, type Reply } from "./problem.js";

/** Options of a transport. */
export interface TransportOptions {
  /** Retries of a failed request. [default: 4] */
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
  /** True if a second execution undoes the first. No retry once the service may have it: a restarted service knows no earlier keys. */
  isToggle?: boolean;
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
  timeout?: number | undefined;
}

/** Connections to a service, over which requests are sent. */
export class Transport {
  /** Retries of a failed request. */
  readonly retries: number;
  readonly #address: Address;
  readonly #timeout: number | undefined;

  constructor(place: Place, options: TransportOptions = {}) {
    this.#address = addressOf(place);
    this.retries = options.retries ?? RETRIES;
    this.#timeout = options.timeout;
  }

  /** Sends a request once. Resolves when the headers of the answer are there; the signal aborts its body as well. */
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
      // Stays for errors after the headers, which would be uncaught without it. The reader of the body reports them.
      sent.on("error", (cause) => reject(signal.aborted ? signal.reason : this.lost(cause)));
      sent.end(body);
    });
  }

  /** The error of a connection that failed. */
  lost(cause: unknown): ParheliaConnectionError {
    return new ParheliaConnectionError(this.#address.shown, cause);
  }

  /**
   * Sends a request and reads its answer. Retries after a lost connection, after a 503 with Retry-After, and after a 409 with Retry-After,
   * which says that the first attempt of a write is still under way.
   */
  async send(call: Call): Promise<Reply> {
    const isWrite = call.method === "POST";
    // All attempts bear the same key, so that the service executes only one of them.
    const named = isWrite ? { ...call, idempotencyKey: call.idempotencyKey ?? randomUUID() } : call;
    const limit = new Limit(call.timeout ?? this.#timeout ?? (isWrite ? WRITE_TIMEOUT : READ_TIMEOUT), call.signal);
    try {
      for (let failures = 0, waits = 0; ; ) {
        const tried = await this.#try(named, limit.signal);
        const isLost = tried instanceof ParheliaConnectionError;
        if (!isLost && tried.status < 300) {
          return tried;
        }
        const isUnderWay = !isLost && isWrite && tried.status === 409;
        // An attempt that is under way may take long. Asking for its answer is no failure, and has a bound of its own.
        waits += isUnderWay ? 1 : 0;
        failures += isUnderWay ? 0 : 1;
        const asked = isLost ? pauseAfter(tried, named) : retryAfter(tried, isUnderWay ? 409 : 503);
        const pause = Math.max(asked ?? 0, backOff(isUnderWay ? waits : failures));
        const isGivenUp = failures > this.retries || waits > this.retries * WAITS_PER_RETRY;
        if (asked === undefined || isGivenUp || pause >= limit.left()) {
          throw isLost ? tried : ParheliaProblem.of(tried);
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

/** The pause before an attempt, in milliseconds: doubled with each failure, with jitter. */
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

/** The pause that an answer of this status asks for, in milliseconds; undefined if it is final. */
export function retryAfter(reply: Pick<Reply, "status" | "headers">, status = 503): number | undefined {
  const text = reply.headers["retry-after"];
  if (reply.status !== status || text === undefined) {
    return undefined;
  }
  const pause = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(pause) ? 0 : Math.max(pause, 0);
}

/** The pause after a lost connection, in milliseconds; undefined if the call must not be sent again. */
function pauseAfter(lost: ParheliaConnectionError, call: Call): number | undefined {
  return call.isToggle && !lost.isUnsent ? undefined : 0;
}

/** Limit of a call: the caller's signal and a timeout in one signal. Node has AbortSignal.any only from 20.3 on. */
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
    // Node fires longer timers at once.
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
/** Requests for the answer of a write that is under way, for each retry that is allowed. With the default, five minutes and more. */
const WAITS_PER_RETRY = 10;
const READ_TIMEOUT = 60_000;
const WRITE_TIMEOUT = 600_000;
const TIMER_MAX = 2 ** 31 - 1;
