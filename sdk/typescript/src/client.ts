/** The client: a method for each operation of the service's OpenAPI document, by the name that it has there. */

import type { Place } from "./address.js";
import { type EventsOptions, type JournalEvent, listen, queryOf } from "./events.js";
import type { Reply } from "./problem.js";
import { Transport, type TransportOptions } from "./transport.js";
import type { Answer, AnswerOf, At, Body, BodyOf, CallOptions, GetPath, NamesOf, PostPath, Query, QueryOf, Schemas, WriteOptions } from "./types.js";

/** Options of a client: the place of its service, and bounds of its calls. */
export type ParheliaOptions = Place & TransportOptions;

/**
 * A client of a service.
 *
 * A session is named by its id or name; a checkpoint by its id, a part of the id, `tag:NAME` or `SESSION@latest`. Methods with a parameter
 * `id` need the whole id.
 *
 * Calls reject with a `ParheliaProblem` if the service refuses or fails, and with a `ParheliaConnectionError` if it does not answer.
 */
export class Parhelia {
  readonly #transport: Transport;

  constructor(options: ParheliaOptions) {
    this.#transport = new Transport(options, options);
  }

  /** A page of sessions, the one that changed last first. */
  listSessions(query: Query<"listSessions"> = {}, options?: CallOptions): Promise<Answer<"listSessions">> {
    return this.#get("/v1/sessions", {}, query, options);
  }

  /** All sessions, the one that changed last first, fetched on demand in pages of at most `limit`. */
  async *sessions(query: Query<"listSessions"> = {}, options?: CallOptions): AsyncGenerator<Schemas["Session"], void, undefined> {
    let { before } = query;
    do {
      const page = await this.listSessions({ ...query, ...(before !== undefined && { before }) }, options);
      yield* page.sessions;
      before = page.before ?? undefined;
    } while (before !== undefined);
  }

  /** Begins a session: starts its agent in tmux, in a folder that is there or in a new copy of an agent folder. */
  createSession(body: Body<"createSession">, options?: WriteOptions): Promise<Answer<"createSession">> {
    return this.#post("/v1/sessions", {}, body, options);
  }

  /** Kinds of agents that are known, and whether each is installed. */
  listAgents(options?: CallOptions): Promise<Answer<"listAgents">> {
    return this.#get("/v1/agents", {}, {}, options);
  }

  /** Gives a prompt to an agent that has nothing to do; a dead one is resumed with it. Refused while the agent is at work. */
  promptSession(session: string, body: Body<"promptSession">, options?: WriteOptions): Promise<Answer<"promptSession">> {
    return this.#post("/v1/sessions/{session}/prompt", { session }, body, options);
  }

  /** Begins a run of a session on a machine that the service does not see. */
  beginRun(body: Body<"beginRun">, options?: WriteOptions): Promise<Answer<"beginRun">> {
    return this.#post("/v1/runs", {}, body, options);
  }

  /** A run, by its id. */
  getRun(run: string, options?: CallOptions): Promise<Answer<"getRun">> {
    return this.#get("/v1/runs/{run}", { run }, {}, options);
  }

  /** Says that a run lives which began so: every 30 seconds. After 90 seconds of silence its session goes on where the service is. */
  heartbeat(run: string, body: Body<"heartbeat">, options?: WriteOptions): Promise<Answer<"heartbeat">> {
    return this.#post("/v1/runs/{run}/heartbeat", { run }, body, options);
  }

  /** Ends a run that began so. */
  endRun(run: string, body: Body<"endRun">, options?: WriteOptions): Promise<Answer<"endRun">> {
    return this.#post("/v1/runs/{run}/end", { run }, body, options);
  }

  /** A session and its runs. */
  getSession(session: string, options?: CallOptions): Promise<Answer<"getSession">> {
    return this.#get("/v1/sessions/{session}", { session }, {}, options);
  }

  /** Makes a checkpoint of an active session and pauses it. Its agent stays alive, unless `end_agent` is set. */
  pauseSession(session: string, body: Body<"pauseSession"> = {}, options?: WriteOptions): Promise<Answer<"pauseSession">> {
    return this.#post("/v1/sessions/{session}/pause", { session }, body, options);
  }

  /** Resumes a session: at once if its agent is alive, else in tmux. Rejects with status 410 if the session has ended. */
  resumeSession(session: string, options?: WriteOptions): Promise<Answer<"resumeSession">> {
    return this.#post("/v1/sessions/{session}/resume", { session }, {}, options);
  }

  /** Sets and removes labels of a session, all or none. */
  labelSession(session: string, body: Body<"labelSession">, options?: WriteOptions): Promise<Answer<"labelSession">> {
    return this.#post("/v1/sessions/{session}/labels", { session }, body, options);
  }

  /** What the agent of a session asks: the text of its pane. Rejects with status 409 if it does not wait for an answer. */
  getQuestion(session: string, options?: CallOptions): Promise<Answer<"getQuestion">> {
    return this.#get("/v1/sessions/{session}/question", { session }, {}, options);
  }

  /** Answers that question, by typing into the pane. Rejects with status 409 if the pane shows something else by now. */
  answerQuestion(session: string, body: Body<"answerQuestion">, options?: WriteOptions): Promise<Answer<"answerQuestion">> {
    return this.#post("/v1/sessions/{session}/answer", { session }, body, options);
  }

  /** Ends a session for good. Refused if its agent is alive, unless `leave_agent` is set. */
  endSession(session: string, body: Body<"endSession"> = {}, options?: WriteOptions): Promise<Answer<"endSession">> {
    return this.#post("/v1/sessions/{session}/end", { session }, body, options);
  }

  /** Makes a checkpoint of a session as it is now. */
  createCheckpoint(session: string, options?: WriteOptions): Promise<Answer<"createCheckpoint">> {
    return this.#post("/v1/sessions/{session}/checkpoints", { session }, {}, options);
  }

  /** A page of a session's checkpoints, newest first. */
  listCheckpoints(session: string, query: Query<"listCheckpoints"> = {}, options?: CallOptions): Promise<Answer<"listCheckpoints">> {
    return this.#get("/v1/sessions/{session}/checkpoints", { session }, query, options);
  }

  /** All checkpoints of a session, newest first, fetched on demand in pages of at most `limit`. */
  async *checkpoints(
    session: string,
    query: Query<"listCheckpoints"> = {},
    options?: CallOptions,
  ): AsyncGenerator<Schemas["Checkpoint"], void, undefined> {
    let { before } = query;
    do {
      const page = await this.listCheckpoints(session, { ...query, ...(before !== undefined && { before }) }, options);
      yield* page.checkpoints;
      before = page.before ?? undefined;
    } while (before !== undefined);
  }

  /** The manifest of a checkpoint, by `docs/manifest.schema.json`. */
  getCheckpoint(checkpoint: string, options?: CallOptions): Promise<Answer<"getCheckpoint">> {
    return this.#get("/v1/checkpoints/{checkpoint}", { checkpoint }, {}, options);
  }

  /** Differences from a checkpoint to a newer one. With `path`, those of one file, with a unified diff. */
  diffCheckpoints(checkpoint: string, query: Query<"diffCheckpoints">, options?: CallOptions): Promise<Answer<"diffCheckpoints">> {
    return this.#get("/v1/checkpoints/{checkpoint}/diff", { checkpoint }, query, options);
  }

  /** Entries of a folder of a checkpoint. */
  listEntries(checkpoint: string, query: Query<"listEntries"> = {}, options?: CallOptions): Promise<Answer<"listEntries">> {
    return this.#get("/v1/checkpoints/{checkpoint}/entries", { checkpoint }, query, options);
  }

  /** The bytes of a file of a checkpoint. */
  async getFile(checkpoint: string, path: string, options?: CallOptions): Promise<Uint8Array> {
    return (await this.#read("/v1/checkpoints/{checkpoint}/files/{path}", { checkpoint, path }, {}, options)).body;
  }

  /** What rules leave out of a checkpoint, and rules that are new since a person approved one. */
  listLeftOut(checkpoint: string, options?: CallOptions): Promise<Answer<"listLeftOut">> {
    return this.#get("/v1/checkpoints/{checkpoint}/left-out", { checkpoint }, {}, options);
  }

  /** The conversation of a checkpoint; with `since`, the part after an older checkpoint. */
  getConversation(checkpoint: string, query: Query<"getConversation"> = {}, options?: CallOptions): Promise<Answer<"getConversation">> {
    return this.#get("/v1/checkpoints/{checkpoint}/conversation", { checkpoint }, query, options);
  }

  /** Differences of the environment since an older checkpoint. */
  diffEnvironments(checkpoint: string, query: Query<"diffEnvironments">, options?: CallOptions): Promise<Answer<"diffEnvironments">> {
    return this.#get("/v1/checkpoints/{checkpoint}/environment", { checkpoint }, query, options);
  }

  /** Approves a checkpoint. */
  approveCheckpoint(id: string, body: Body<"approveCheckpoint"> = {}, options?: WriteOptions): Promise<Answer<"approveCheckpoint">> {
    return this.#post("/v1/checkpoints/{id}/approve", { id }, body, options);
  }

  /** Rejects a checkpoint: no session resumes from it. */
  rejectCheckpoint(id: string, body: Body<"rejectCheckpoint"> = {}, options?: WriteOptions): Promise<Answer<"rejectCheckpoint">> {
    return this.#post("/v1/checkpoints/{id}/reject", { id }, body, options);
  }

  /** Adds tags to a checkpoint, all or none. */
  tagCheckpoint(id: string, body: Body<"tagCheckpoint">, options?: WriteOptions): Promise<Answer<"tagCheckpoint">> {
    return this.#post("/v1/checkpoints/{id}/tags", { id }, body, options);
  }

  /** Adds an annotation to a checkpoint. */
  annotateCheckpoint(id: string, body: Body<"annotateCheckpoint">, options?: WriteOptions): Promise<Answer<"annotateCheckpoint">> {
    return this.#post("/v1/checkpoints/{id}/annotations", { id }, body, options);
  }

  /** Rolls a session back to a checkpoint, after a safety checkpoint. With `dry_run`, only returns the plan. */
  rollBack(id: string, body: Body<"rollBack"> = {}, options?: WriteOptions): Promise<Answer<"rollBack">> {
    return this.#post("/v1/checkpoints/{id}/rollback", { id }, body, options);
  }

  /** The plan of a rollback: `rollBack` as a dry run. */
  planRollback(id: string, body: Body<"rollBack"> = {}, options?: WriteOptions): Promise<Answer<"rollBack">> {
    return this.rollBack(id, { ...body, dry_run: true }, options);
  }

  /**
   * Undoes the last rollback of a session. With `dry_run`, only returns the plan. A second call undoes the first. A call whose connection is
   * lost before the answer is therefore not retried; check the session's head before you call again.
   */
  undoRollback(session: string, body: Body<"undoRollback"> = {}, options?: WriteOptions): Promise<Answer<"undoRollback">> {
    return this.#post("/v1/sessions/{session}/undo", { session }, body, options, !body.dry_run);
  }

  /** The plan of an undo: `undoRollback` as a dry run. */
  planUndo(session: string, body: Body<"undoRollback"> = {}, options?: WriteOptions): Promise<Answer<"undoRollback">> {
    return this.undoRollback(session, { ...body, dry_run: true }, options);
  }

  /** Checkpoints that contain all given words, best match first. */
  searchCheckpoints(query: Query<"searchCheckpoints">, options?: CallOptions): Promise<Answer<"searchCheckpoints">> {
    return this.#get("/v1/search", {}, query, options);
  }

  /**
   * Journal entries after the sequence `after`, then new ones as they are recorded. Lost connections are resumed, and each entry comes
   * exactly once. Without `after`, the stream begins at the journal's end when it is first read.
   */
  events(options?: EventsOptions): AsyncGenerator<JournalEvent, void, undefined> {
    return listen(this.#transport, options);
  }

  /** Version and store of the service, and the journal's last sequence. */
  health(options?: CallOptions): Promise<Answer<"health">> {
    return this.#get("/health", {}, {}, options);
  }

  /** Messages that wait to be delivered, and those that could not be. */
  listOutbox(query: Query<"listOutbox"> = {}, options?: CallOptions): Promise<Answer<"listOutbox">> {
    return this.#get("/v1/outbox", {}, query, options);
  }

  /** Whether the service looks after its sessions. */
  ready(options?: CallOptions): Promise<Answer<"ready">> {
    return this.#get("/ready", {}, {}, options);
  }

  /** Numbers for a monitor, as OpenMetrics text. */
  async metrics(options?: CallOptions): Promise<string> {
    return text(await this.#read("/metrics", {}, {}, options));
  }

  /** The OpenAPI document of the running service. */
  openapi(options?: CallOptions): Promise<Answer<"openapi">> {
    return this.#get("/openapi.json", {}, {}, options);
  }

  async #get<P extends GetPath>(
    path: P,
    names: NamesOf<At<P, "get">>,
    query: QueryOf<At<P, "get">>,
    options?: CallOptions,
  ): Promise<AnswerOf<At<P, "get">>> {
    return JSON.parse(text(await this.#read(path, names, query, options)));
  }

  async #post<P extends PostPath>(
    path: P,
    names: NamesOf<At<P, "post">>,
    body: BodyOf<At<P, "post">>,
    options?: WriteOptions,
    isToggle = false,
  ): Promise<AnswerOf<At<P, "post">>> {
    return JSON.parse(text(await this.#transport.send({ ...options, method: "POST", path: filled(path, names), body, isToggle })));
  }

  #read(path: GetPath, names: object, query: object, options?: CallOptions): Promise<Reply> {
    return this.#transport.send({ ...options, method: "GET", path: filled(path, names) + queryOf(query) });
  }
}

/** A path with names in place of its braces. Slashes are escaped: a name is one segment. */
function filled(path: string, names: object): string {
  const given = new Map<string, string>(Object.entries(names));
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = given.get(name);
    // Proxies resolve dot segments.
    if (!value || value === "." || value === "..") {
      throw new TypeError(`the ${name} must not be empty, "." or ".."`);
    }
    return encodeURIComponent(value);
  });
}

function text(reply: Reply): string {
  return new TextDecoder().decode(reply.body);
}
