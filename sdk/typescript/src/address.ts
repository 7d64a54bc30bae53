/** Address of a service: a Unix socket, or a URL with a token. */

import { readFileSync } from "node:fs";
import { Agent as HttpAgent, request as httpRequest, type RequestOptions } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { isAbsolute, join } from "node:path";

/** The place of a service; one of the three forms. */
export type Place =
  | {
      /** Path of the service's Unix socket. */
      socket: string;
      store?: never;
      url?: never;
      token?: never;
    }
  | {
      /** Folder of the store, whose service listens at its usual socket. */
      store: string;
      socket?: never;
      url?: never;
      token?: never;
    }
  | {
      /**
       * Origin of the service, such as `http://127.0.0.1:8123` or `http://[::1]:8123`: the address that it listens at, not `localhost`.
       * Hosts other than this machine need `https:`.
       */
      url: string | URL;
      /** The service's token, sent as `Authorization: Bearer`. */
      token: string;
      socket?: never;
      store?: never;
    };

/** Address of a service, ready for requests. */
export interface Address {
  /** Name of the service in messages; never holds the token. */
  shown: string;
  /** Function that makes a request. */
  request: typeof httpRequest;
  /** Options of every request. */
  options: RequestOptions & { agent: HttpAgent };
  /** Prefix of every path. */
  prefix: string;
  /** The header Authorization, where one is sent. */
  authorization: string | undefined;
}

/** The address of a place. Throws a TypeError if it is incomplete or unsafe. */
export function addressOf(place: Place): Address {
  if ([place.socket, place.store, place.url].filter((given) => given !== undefined).length !== 1) {
    throw new TypeError("cannot connect: give one of socket, store and url");
  }
  if (place.url !== undefined) {
    return addressOfUrl(place.url, place.token);
  }
  if (place.token !== undefined) {
    throw new TypeError("cannot connect: a token is for a url; who may connect to a socket needs none");
  }
  const socketPath = place.socket ?? socketOfStore(place.store);
  return {
    shown: socketPath,
    request: httpRequest,
    // Only the header Host; nothing is resolved.
    options: { socketPath, host: "localhost", agent: new HttpAgent({ keepAlive: true }) },
    prefix: "",
    authorization: undefined,
  };
}

function addressOfUrl(given: string | URL, token: string): Address {
  // Messages do not repeat the URL as it was given: it may hold a secret.
  if (!URL.canParse(String(given))) {
    throw new TypeError("cannot connect: the url is not valid");
  }
  const url = new URL(given);
  const isSecure = url.protocol === "https:";
  if (!isSecure && url.protocol !== "http:") {
    throw new TypeError("cannot connect: the url must begin with http: or https:");
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError("cannot connect: the url must have no user, no query and no fragment; give the token as an option");
  }
  if (!isSecure && isLocalName(url.hostname)) {
    const port = url.port && `:${url.port}`;
    throw new TypeError(
      `cannot connect: the service answers only at the address that it listens at; use http://127.0.0.1${port} or http://[::1]${port} instead of localhost`,
    );
  }
  if (!isSecure && !isLoopback(url.hostname)) {
    throw new TypeError("cannot connect: http: would show the token to the network; use https:, or ssh -L and 127.0.0.1");
  }
  const trimmed = typeof token === "string" ? token.trim() : "";
  if (!/^[\x21-\x7e]+$/.test(trimmed)) {
    throw new TypeError("cannot connect: a url needs a token of printable ASCII characters");
  }
  return {
    shown: url.origin,
    request: isSecure ? httpsRequest : httpRequest,
    options: {
      protocol: url.protocol,
      hostname: url.hostname.replace(/^\[|\]$/g, ""),
      port: url.port || (isSecure ? 443 : 80),
      // Node would leave out the brackets of an IPv6 address.
      setHost: false,
      headers: { host: url.host },
      agent: isSecure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true }),
    },
    prefix: url.pathname.replace(/\/+$/, ""),
    authorization: `Bearer ${trimmed}`,
  };
}

/** True for `localhost` and names below it, which systems resolve to this machine. */
function isLocalName(host: string): boolean {
  return /^(?:.*\.)?localhost\.?$/.test(host);
}

function isLoopback(host: string): boolean {
  // The URL parser writes every IPv4 address as four decimal numbers.
  return host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** The usual socket of a store's service, below the user's runtime folder or else the cache folder. */
export function socketOfStore(store: string, variables: NodeJS.ProcessEnv = process.env): string {
  const file = join(store, "store.json");
  let id: unknown;
  try {
    id = (JSON.parse(readFileSync(file, "utf8")) as { id?: unknown } | null)?.id;
  } catch (cause) {
    throw new TypeError(`cannot find the socket: ${file} cannot be read`, { cause });
  }
  // The id becomes a file name.
  if (typeof id !== "string" || !/^[0-9A-Z]{26}$/.test(id)) {
    throw new TypeError(`cannot find the socket: ${file} has no id of a store`);
  }
  const absolute = (path: string | undefined) => (path && isAbsolute(path) ? path : undefined);
  const runtime = absolute(variables["XDG_RUNTIME_DIR"]);
  if (runtime) {
    return join(runtime, "parhelia", `${id}.sock`);
  }
  const home = absolute(variables["HOME"]);
  const cache = absolute(variables["XDG_CACHE_HOME"]) ?? (home && join(home, ".cache"));
  if (!cache) {
    throw new TypeError("cannot find the socket: neither XDG_RUNTIME_DIR nor HOME is set; give the socket");
  }
  return join(cache, "parhelia", "service", `${id}.sock`);
}
