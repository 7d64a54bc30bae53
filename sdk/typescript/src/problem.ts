/** Errors of calls. */

import type { IncomingHttpHeaders } from "node:http";

/** An answer with its whole body. */
export interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  body: Uint8Array;
}

/** A problem that the service answered with (RFC 9457). */
export class ParheliaProblem extends Error {
  /** Kind of the problem: `usage`, `refused`, `not_found`, `gone`, `locked`, `corrupt`, `failed`, `cancelled`. */
  readonly title: string;
  /** HTTP status. */
  readonly status: number;
  /** The thing, the cause and the next step. */
  readonly detail: string;
  /** Exit code of the command line for the same problem. */
  readonly exitCode: number;

  constructor(problem: { title: string; status: number; detail: string; exitCode: number }) {
    super(`${problem.title}: ${problem.detail}`);
    this.name = "ParheliaProblem";
    this.title = problem.title;
    this.status = problem.status;
    this.detail = problem.detail;
    this.exitCode = problem.exitCode;
  }

  /** The problem of an answer; `failed` for answers without a description, as proxies send them. */
  static of(reply: Reply): ParheliaProblem {
    const { title, detail, exit_code } = described(reply);
    return new ParheliaProblem({
      title: typeof title === "string" ? title : "failed",
      status: reply.status,
      detail: typeof detail === "string" ? detail : `the answer has HTTP status ${reply.status} and no description`,
      exitCode: typeof exit_code === "number" ? exit_code : 1,
    });
  }
}

/** A service that cannot be reached, or a lost connection. The system's error is the `cause`. */
export class ParheliaConnectionError extends Error {
  /** True if the connection was never made, so that the service cannot have the request. */
  readonly isUnsent: boolean;

  /** @param place The service, as it may be shown: without a token. */
  constructor(place: string, cause: unknown) {
    super(`cannot get an answer from ${place}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = "ParheliaConnectionError";
    this.isUnsent = REFUSALS.has((cause as NodeJS.ErrnoException | undefined)?.code ?? "");
  }
}

/** Error codes of connections that were never made. */
const REFUSALS = new Set(["ECONNREFUSED", "ENOENT", "EACCES", "EPERM", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH"]);

/** Members of an `application/problem+json` body; none of any other body. */
function described(reply: Reply): Record<string, unknown> {
  const type = reply.headers["content-type"]?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/problem+json") {
    return {};
  }
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(reply.body));
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
