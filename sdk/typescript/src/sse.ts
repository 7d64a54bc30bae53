/** Parser of server-sent events, by the WHATWG HTML standard (9.2.6, "Interpreting an event stream"). */

/** An event of a stream. */
export interface ServerSentEvent {
  /** Its type; `message` unless it has one. */
  event: string;
  /** Its data, with a line feed between its lines. */
  data: string;
  /** Last id of the stream up to here; empty if there was none. */
  id: string;
}

/** Incremental parser: the stream may be split at any byte. */
export class EventStreamParser {
  /** Pause before a reconnection that the stream asked for, in milliseconds. */
  retry: number | undefined;

  // Joins split characters, and drops a byte order mark.
  readonly #decoder = new TextDecoder();
  /** Beginning of the current line. */
  #line = "";
  /** True after a carriage return, whose line feed may come with the next piece. */
  #endedByReturn = false;
  #event = "";
  #data: string[] = [];
  #id = "";

  /** Parses the next piece. Returns the events that it completes. */
  push(piece: Uint8Array): ServerSentEvent[] {
    const text = this.#decoder.decode(piece, { stream: true });
    const events: ServerSentEvent[] = [];
    let begin = 0;
    for (let at = 0; at < text.length; at++) {
      const character = text.charCodeAt(at);
      if (character !== LINE_FEED && character !== RETURN) {
        this.#endedByReturn = false;
        continue;
      }
      if (character === LINE_FEED && this.#endedByReturn) {
        this.#endedByReturn = false;
        begin = at + 1;
        continue;
      }
      this.#endedByReturn = character === RETURN;
      this.#endLine(this.#line + text.slice(begin, at), events);
      this.#line = "";
      begin = at + 1;
    }
    this.#line += text.slice(begin);
    return events;
  }

  #endLine(line: string, events: ServerSentEvent[]): void {
    if (line === "") {
      this.#endEvent(events);
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    switch (name) {
      case "event":
        this.#event = value;
        break;
      case "data":
        this.#data.push(value);
        break;
      case "id":
        if (!value.includes("\0")) {
          this.#id = value;
        }
        break;
      case "retry":
        if (/^[0-9]+$/.test(value)) {
          this.retry = Number(value);
        }
        break;
      // Comments have an empty name. Unknown fields are ignored.
    }
  }

  #endEvent(events: ServerSentEvent[]): void {
    if (this.#data.length > 0) {
      events.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
    }
    this.#event = "";
    this.#data = [];
  }
}

const LINE_FEED = 0x0a;
const RETURN = 0x0d;
