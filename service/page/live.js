// Live updates, by server-sent events.

import { send } from "./api.js";
import { doubt } from "./auth.js";

/** Kinds of events that cause a refresh. `run.lease` is left out: leases are renewed all the time. */
const KINDS = [
  "checkpoint.created",
  "checkpoint.decided",
  "checkpoint.decision_refused",
  "checkpoint.deleted",
  "checkpoint.annotated",
  "checkpoint.tagged",
  "checkpoint.untagged",
  "checkpoint.linked",
  "checkpoint.unlinked",
  "checkpoint.scanned",
  "checkpoint.verified",
  "conversation.seen",
  "policy.changed",
  "run.started",
  "run.changed",
  "run.ended",
  "session.answered",
  "session.attention",
  "session.created",
  "session.changed",
  "session.head",
  "session.status",
  "session.lost",
  "workspace.overwritten",
];
/** Shortest time between two refreshes. */
const PAUSE_MS = 1000;
/** Time between refreshes without an event: states of processes change without one. */
const LOOK_MS = 15_000;
/** Time until the next attempt after a refused connection. */
const RECONNECT_MS = 5000;

/** @typedef {{session: string | null, subject: string, kind: string}} Change */

/**
 * The server-sent events of an answer. The service sends one line of data for each, and ends lines with a line feed.
 * @param {Response} response
 */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const field = (name) => part.split("\n").find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
      if (field("event")) yield { kind: field("event"), data: field("data") ?? "" };
    }
  }
}

/** A listener to the service's events. */
export class Live {
  /**
   * @param {(changes: Change[]) => void} onChange Called with the changes since the last call; with none for a periodic refresh.
   * @param {(state: "live" | "connecting" | "off") => void} onState
   */
  constructor(onChange, onState) {
    this.onChange = onChange;
    this.onState = onState;
    this.changes = [];
    this.told = 0;
    this.timer = 0;
    this.reconnect = 0;
    this.look = 0;
    /** @type {AbortController | null} */
    this.source = null;
    this.wasConnected = false;
    document.addEventListener("visibilitychange", () => !document.hidden && this.source && this.tell());
  }

  start() {
    this.stop();
    this.onState("connecting");
    this.look = setInterval(() => document.hidden || this.onChange([]), LOOK_MS);
    this.connect();
  }

  /** Listens, and again after a lost connection. `EventSource` would not send the token. */
  async connect() {
    const source = new AbortController();
    this.source = source;
    let state = "off";
    try {
      const response = await send("/v1/events", { headers: { Accept: "text/event-stream" }, signal: source.signal });
      this.onState("live");
      state = "connecting";
      // Events may have been missed while it was disconnected.
      if (this.wasConnected) this.onChange([]);
      this.wasConnected = true;
      for await (const event of eventsOf(response)) this.hear(event);
    } catch {
      // Refused, or lost on the way.
    }
    doubt();
    if (this.source !== source) return;
    this.onState(state);
    this.reconnect = setTimeout(() => this.connect(), RECONNECT_MS);
  }

  /** @param {{kind: string, data: string}} event */
  hear({ kind, data }) {
    if (!KINDS.includes(kind)) return;
    try {
      const { session, subject } = JSON.parse(data);
      this.changes.push({ kind, session, subject });
    } catch {
      this.changes.push({ kind, session: null, subject: "" });
    }
    if (this.timer) return;
    const wait = Math.max(0, this.told + PAUSE_MS - Date.now());
    this.timer = setTimeout(() => this.tell(), Math.max(wait, 100));
  }

  tell() {
    this.timer = 0;
    // Wait until the page is visible again.
    if (document.hidden) return;
    this.told = Date.now();
    const changes = this.changes;
    this.changes = [];
    this.onChange(changes);
  }

  stop() {
    [this.timer, this.reconnect].forEach(clearTimeout);
    clearInterval(this.look);
    this.timer = 0;
    this.changes = [];
    this.source?.abort();
    this.source = null;
  }
}
