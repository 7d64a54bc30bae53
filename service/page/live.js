// Changes of the store as they happen, by server-sent events.

/** Kinds of events after which something that is shown may be another. */
const KINDS = [
  "checkpoint.created", "checkpoint.decided", "checkpoint.decision_refused", "checkpoint.deleted", "checkpoint.annotated", "checkpoint.tagged",
  "checkpoint.untagged", "checkpoint.linked", "checkpoint.unlinked", "checkpoint.scanned", "checkpoint.verified", "conversation.seen",
  "policy.changed", "run.started", "run.changed", "run.ended", "run.lease", "session.created", "session.changed", "session.head",
  "session.status", "session.lost", "workspace.overwritten",
];
/** Views ask for their data again at most so often. */
const PAUSE_MS = 1000;
/** Ages of leases and states of processes change without an event. */
const LOOK_MS = 15_000;
/** After a stream that was refused. */
const RECONNECT_MS = 5000;

/** @typedef {{session: string | null, subject: string, kind: string}} Change */

/** A listener to the service's events. */
export class Live {
  /**
   * @param {(changes: Change[]) => void} onChange Is told of what changed since it was told last; of nothing in particular after a while.
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
    /** @type {EventSource | null} */
    this.source = null;
    this.wasConnected = false;
  }

  start() {
    this.stop();
    this.onState("connecting");
    this.look = setInterval(() => document.hidden || this.onChange([]), LOOK_MS);
    this.connect();
  }

  connect() {
    this.source = new EventSource("/api/events");
    this.source.onopen = () => {
      this.onState("live");
      // What happened in between was not heard.
      if (this.wasConnected) this.onChange([]);
      this.wasConnected = true;
    };
    this.source.onerror = () => {
      this.onState(this.source?.readyState === EventSource.CLOSED ? "off" : "connecting");
      if (this.source?.readyState !== EventSource.CLOSED) return;
      clearTimeout(this.reconnect);
      this.reconnect = setTimeout(() => this.connect(), RECONNECT_MS);
    };
    KINDS.forEach((kind) => this.source.addEventListener(kind, (event) => this.hear(kind, event)));
  }

  /**
   * @param {string} kind
   * @param {MessageEvent} event
   */
  hear(kind, event) {
    try {
      const { session, subject } = JSON.parse(event.data);
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
    this.source?.close();
    this.source = null;
  }
}
