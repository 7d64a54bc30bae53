import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { Parhelia, ParheliaConnectionError, type ParheliaOptions, ParheliaProblem, socketOfStore } from "../src/index.js";
import { failure } from "./standin.js";

const token = "0123456789abcdef0123456789abcdef";

test("a token is sent in its header, and stands nowhere else", async (context) => {
  const seen: unknown[] = [];
  const server = createServer((request, response) => {
    seen.push([request.url, request.headers.authorization, request.headers.host]);
    response.writeHead(401, { "content-type": "application/problem+json" }).end('{"title":"refused","detail":"no"}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const client = new Parhelia({ url: `http://127.0.0.1:${port}/`, token: `${token}\n`, retries: 0 });
  const refused = await failure(client.health(), ParheliaProblem);
  server.close();
  const unreachable = await failure(client.health(), ParheliaConnectionError);
  assert.deepEqual(seen, [["/health", `Bearer ${token}`, `127.0.0.1:${port}`]]);
  assert.equal(refused.status, 401);
  const shown = inspect([client, refused, unreachable], { depth: 20, showHidden: true }) + String(refused.stack) + String(unreachable.stack);
  assert.ok(!shown.includes(token));
});

test("a token is not sent over networks that others read", () => {
  const refused = [
    "http://example.com",
    "http://192.168.0.1:8123",
    "http://0.0.0.0",
    "http://127.0.0.1.example.com",
    "http://localhost.example.com",
    "http://[::ffff:192.168.0.1]",
    "http://user:secret@127.0.0.1",
    "https://example.com/?token=secret",
    "ftp://localhost",
    "secret",
  ];
  for (const url of refused) {
    assert.throws(() => new Parhelia({ url, token }), (error) => error instanceof TypeError && !inspect(error).includes("secret"), url);
  }
  for (const url of ["http://127.0.0.1", "http://127.1", "http://[::1]:8123", "https://example.com", "https://localhost:1", new URL("https://a.b/c")]) {
    assert.doesNotThrow(() => new Parhelia({ url, token }), String(url));
  }
});

test("the name localhost is refused, and the address to use instead is named", () => {
  for (const url of ["http://localhost:8123", "http://LOCALHOST:8123/", "http://localhost.:8123", "http://parhelia.localhost:8123"]) {
    const isHelpful = (error: unknown) =>
      error instanceof TypeError && error.message.includes("http://127.0.0.1:8123") && error.message.includes("http://[::1]:8123");
    assert.throws(() => new Parhelia({ url, token }), isHelpful, url);
  }
  assert.throws(() => new Parhelia({ url: "http://localhost", token }), /use http:\/\/127\.0\.0\.1 or/);
});

test("options that contradict each other are refused", () => {
  const wrong = [{}, { socket: "/s", url: "http://127.0.0.1", token }, { url: "http://127.0.0.1" }, { url: "http://127.0.0.1", token: "a\nb" }, { socket: "/s", token }];
  for (const options of wrong) {
    assert.throws(() => new Parhelia(options as unknown as ParheliaOptions), TypeError);
  }
});

test("the usual socket of a store is found by its id", (context) => {
  const store = mkdtempSync(join(tmpdir(), "parhelia-"));
  context.after(() => rmSync(store, { recursive: true }));
  assert.throws(() => socketOfStore(store, {}), TypeError);
  const id = "01M8ER42ATVVGWFHKA64YR96SJ";
  writeFileSync(join(store, "store.json"), JSON.stringify({ id }));
  const found = (variables: NodeJS.ProcessEnv) => socketOfStore(store, variables);
  assert.equal(found({ XDG_RUNTIME_DIR: "/run/user/1", HOME: "/h" }), `/run/user/1/parhelia/${id}.sock`);
  assert.equal(found({ XDG_RUNTIME_DIR: "run", XDG_CACHE_HOME: "/c", HOME: "/h" }), `/c/parhelia/service/${id}.sock`);
  assert.equal(found({ XDG_RUNTIME_DIR: "", HOME: "/h" }), `/h/.cache/parhelia/service/${id}.sock`);
  assert.throws(() => found({}), TypeError);
  writeFileSync(join(store, "store.json"), JSON.stringify({ id: "../../evil" }));
  assert.throws(() => found({ HOME: "/h" }), TypeError);
});
