/** Stream of journal entries, resumed after lost connections. */

import { setTimeout as sleep } from "node:timers/promises";
import { ParheliaConnectionError, ParheliaProblem, type Reply } from "./problem.js";
import { EventStreamParser, type ServerSentEvent } from "./sse.js";
import { backOff, read, retryAfter, type Transport } from "./transport.js";
import type { Query, Schemas } from "./types.js";

/** An entry of the journal: a checkpoint that was made, or an event. Later releases may have other kinds. */
export type JournalEvent = Schemas["Event"];

/** Options of a stream of events. */
export type EventsOptions = Query<"listenToEvents"> & {
  /** Ends the stream, without an error. */
  signal?: AbortSignal | undefined;
  /** Milliseconds without a byte after which a connection counts as lost. The service sends a comment every 15 s. [default: 45000] */
  idleTimeout?: number | undefined;
  /** Milliseconds before the first reconnection; doubled with each failure, up to 30 s. [default: 200] */
  pause?: number | undefined;
};

/**
 * Listens to events. A lost connection is resumed after the last event, for as long as it takes. Only the first connection is given up
 * after the transport's number of retries.
 */
export async function* listen(transport: Transport, options: EventsOptions = {}): AsyncGenerator<JournalEvent, void, undefined> {
  const { signal, session, kind, idleTimeout = 45_000, pause = 200 } = options;
  try {
    // A reconnection before the first event needs a sequence to resume after, or it would miss events.
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
        for await (const sent of connection.events(`/v1/events${query}`, headers)) {
          // After an abort, the rest of the current piece is dropped.
          signal?.throwIfAborted();
          const event = JSON.parse(sent.data) as JournalEvent;
          // A proxy may replay part of the stream.
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
      // A connection that ends without a byte counts as a failure.
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

/** Query string of parameters, without those that are null or undefined. */
export function queryOf(parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString();
  return query && `?${query}`;
}

/** An answer other than a stream of events. */
class Refusal extends Error {
  constructor(readonly reply: Reply) {
    super("the answer is not a stream of events");
  }
}

/** One connection of a stream. */
class Connection {
  /** True once the service has begun a stream. */
  isOpen = false;
  /** True once a byte has come over it. */
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

  /** Pause before a reconnection that the service asked for, in milliseconds. */
  get retry(): number | undefined {
    return this.#parser.retry;
  }

  /** Its events, until it ends. An incomplete last event is dropped; the service sends it again. */
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

  /** Closes the connection. */
  close(): void {
    this.#given?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  /** Awaits with the idle timeout. The time between calls, in which the consumer works, does not count. */
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
