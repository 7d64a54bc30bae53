/** Types of requests and answers, derived from the generated `schema.ts`. */

import type { components, operations, paths } from "./schema.js";

/** Schemas of the document, by name, such as `Schemas["Session"]`. */
export type Schemas = components["schemas"];

/** Name of an operation. */
export type OperationId = keyof operations;

/** JSON that an operation answers with. */
export type Answer<Id extends OperationId> = AnswerOf<operations[Id]>;

/** Query parameters of an operation. */
export type Query<Id extends OperationId> = QueryOf<operations[Id]>;

/** JSON body of an operation. */
export type Body<Id extends OperationId> = BodyOf<operations[Id]>;

/** Paths with a GET operation. */
export type GetPath = PathWith<"get">;

/** Paths with a POST operation. */
export type PostPath = PathWith<"post">;

/** Operation of a path. */
export type At<P extends keyof paths, Method extends "get" | "post"> = Extract<paths[P][Method], object>;

/** JSON that an operation answers with. */
export type AnswerOf<Operation> = Operation extends {
  responses: { 200: { content: { "application/json": infer Content } } };
}
  ? Content
  : never;

/** Parameters in the braces of an operation's path. */
export type NamesOf<Operation> = Operation extends { parameters: { path: infer Names extends object } } ? Names : object;

/** Query parameters of an operation. */
export type QueryOf<Operation> = Operation extends { parameters: { query?: infer Given } }
  ? [Extract<Given, object>] extends [never]
    ? object
    : Extract<Given, object>
  : object;

/** JSON body of an operation. */
export type BodyOf<Operation> = Operation extends {
  requestBody?: { content: { "application/json": infer Content } };
}
  ? Content
  : object;

type PathWith<Method extends "get" | "post"> = {
  [P in keyof paths]: paths[P] extends Record<Method, object> ? P : never;
}[keyof paths];

/** Options of every call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for the call, retries included. [default: the client's] */
  timeout?: number | undefined;
}

/** Options of calls that change something. */
export interface WriteOptions extends CallOptions {
  /**
   * Idempotency key of 1 to 255 printable ASCII characters. The service executes requests with the same key once, and answers all of them
   * alike. [default: a random one for each call, used for all its retries]
   */
  idempotencyKey?: string | undefined;
}
