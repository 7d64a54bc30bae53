/** Entries of the journal as they are recorded, over connections that are renewed when they are lost. */

import { setTimeout as sleep } from "node:timers/promises";
import { ParheliaConnectionError, ParheliaProblem, type Reply } from "./problem.js";
import { EventStreamParser, type ServerSentEvent } from "./sse.js";
import { backOff, read, retryAfter, type Transport } from "./transport.js";
import type { Query } from "./types.js";

/** An entry of the journal: a checkpoint that was made, or an event. */
export interface JournalEvent {
  /** Its place in the journal. */
  sequence: number;
  /** Its kind, such as `checkpoint.created`. Later releases may have others. */
  kind: string;
  /** Id of the thing to which it happened. */
  subject: string;
  /** Session that it concerns. */
  session: string | null;
  /** Its time. */
  at: string;
  /** Run of a checkpoint. */
  run?: string | null;
  /** Epoch in which its author acted. */
  epoch: number;
  /** Data of its kind. */
  data: Record<string, unknown>;
  /** Id of an event. */
  id?: string | null;
  /** Machine that recorded the event. */
  host?: string | null;
  /** Version of the event's structure. */
  schema?: number | null;
  /** Cause of the event. */
  actor?: { user: string | null; via: string; uid?: number | null; login?: string | null } | null;
  /** Key of an event that is appended once. */
  idempotency_key?: string | null;
  /** Hash of the event before it, in hex. */
  previous?: string | null;
}

/** Options of a stream of events. */
export type EventsOptions = Query<"listenToEvents"> & {
  /** Ends the stream when it is aborted, without an error. */
  signal?: AbortSignal | undefined;
  /** Milliseconds of silence after which a connection counts as lost. The service breaks its silence every 15 s. [default: 45000] */
  idleTimeout?: number | undefined;
  /** Milliseconds before the first reconnection; doubled with each that fails, up to 30 s. [default: 200] */
  pause?: number | undefined;
};

/**
 * Listens to events. A lost connection is renewed behind the last event, however long that takes; only the first one is given up after
 * the transport's number of retries.
 */
export async function* listen(transport: Transport, options: EventsOptions = {}): AsyncGenerator<JournalEvent, void, undefined> {
  const { signal, session, kind, idleTimeout = 45_000, pause = 200 } = options;
  try {
    // Without a place to begin at, what is recorded before the first event and during a reconnection would be missed.
    let after = options.after ?? (await end(transport, signal));
    let hasHeard = false;
    let hasConnected = false;
    let failures = 0;
    let retry = 0;
    for (;;) {
      const connection = new Connection(transport, signal, idleTimeout);
      let wait = 0;
      try {
        const headers: Record<string, string> = { accept: "text/event-stream", ...(hasHeard && { "last-event-id": String(after) }) };
        const query = queryOf({ after: hasHeard ? undefined : after, session, kind });
        for await (const sent of connection.events(`/api/events${query}`, headers)) {
          // Events that came in one piece are still there after an abort.
          signal?.throwIfAborted();
          const event = JSON.parse(sent.data) as JournalEvent;
          // The service sends none twice. A proxy that repeats a part of the stream does.
          if (event.sequence > after) {
            after = event.sequence;
            hasHeard = true;
            yield event;
          }
        }
      } catch (error) {
        const asked = error instanceof Refusal ? retryAfter(error.reply) : error instanceof ParheliaConnectionError ? 0 : undefined;
        const isGivenUp = !hasConnected && !connection.isOpen && failures >= transport.retries;
        if (asked === undefined || isGivenUp) {
          throw error instanceof Refusal ? ParheliaProblem.of(error.reply) : error;
        }
        wait = asked;
      } finally {
        connection.close();
      }
      hasConnected ||= connection.isOpen;
      retry = connection.retry ?? retry;
      // A connection that ends before anything came over it has failed as well.
      failures = connection.hasHeard ? 1 : failures + 1;
      await sleep(Math.max(wait, retry, backOff(failures, pause)), undefined, { signal });
    }
  } catch (error) {
    if (!signal?.aborted) {
      throw error;
    }
  }
}

/** The sequence of the journal's last entry. */
async function end(transport: Transport, signal: AbortSignal | undefined): Promise<number> {
  const reply = await transport.send({ method: "GET", path: "/health", signal });
  return (JSON.parse(new TextDecoder().decode(reply.body)) as { sequence: number }).sequence;
}

/** Query of parameters, of which those without a value are left out. */
export function queryOf(parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString();
  return query && `?${query}`;
}

/** An answer that is no stream. */
class Refusal extends Error {
  constructor(readonly reply: Reply) {
    super("the answer is no stream of events");
  }
}

/** One connection. */
class Connection {
  /** True once the service has begun a stream. */
  isOpen = false;
  /** True once something has come of it. */
  hasHeard = false;
  readonly #transport: Transport;
  readonly #idleTimeout: number;
  readonly #given: AbortSignal | undefined;
  readonly #controller = new AbortController();
  readonly #abort = () => this.#controller.abort(this.#given?.reason);
  readonly #parser = new EventStreamParser();

  constructor(transport: Transport, given: AbortSignal | undefined, idleTimeout: number) {
    this.#transport = transport;
    this.#given = given;
    this.#idleTimeout = idleTimeout;
    given?.addEventListener("abort", this.#abort, { once: true });
    if (given?.aborted) {
      this.#abort();
    }
  }

  /** Milliseconds that the service asks for before a reconnection, where it does. */
  get retry(): number | undefined {
    return this.#parser.retry;
  }

  /** Its events, until it ends. What was cut off is no event. */
  async *events(path: string, headers: Record<string, string>): AsyncGenerator<ServerSentEvent, void, undefined> {
    const answer = await this.#timed(this.#transport.open({ method: "GET", path, headers }, this.#controller.signal));
    if (answer.statusCode !== 200 || !answer.headers["content-type"]?.startsWith("text/event-stream")) {
      throw new Refusal({ status: answer.statusCode ?? 0, headers: answer.headers, body: await this.#timed(read(answer)) });
    }
    this.isOpen = true;
    const pieces: AsyncIterator<Uint8Array> = answer[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await this.#timed(pieces.next());
      if (done) {
        return;
      }
      this.hasHeard = true;
      yield* this.#parser.push(value);
    }
  }

  /** Closes it. */
  close(): void {
    this.#given?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  /** Waits as long as something may be expected. Time that the reader of the events takes does not count. */
  async #timed<T>(awaited: Promise<T>): Promise<T> {
    const silent = () => this.#controller.abort(new Error(`nothing heard for ${this.#idleTimeout} ms`));
    const timer = setTimeout(silent, this.#idleTimeout);
    try {
      return await awaited;
    } catch (error) {
      if (this.#given?.aborted || error instanceof ParheliaConnectionError) {
        throw error;
      }
      throw this.#transport.lost(this.#controller.signal.aborted ? this.#controller.signal.reason : error);
    } finally {
      clearTimeout(timer);
    }
  }
}
