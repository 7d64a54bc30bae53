export { type Place, socketOfStore } from "./address.js";
export { Parhelia, type ParheliaOptions } from "./client.js";
export type { EventsOptions, JournalEvent } from "./events.js";
export { ParheliaConnectionError, ParheliaProblem } from "./problem.js";
export type { Answer, Body, CallOptions, OperationId, Query, Schemas, WriteOptions } from "./types.js";
