// Tests on a page that is signed in, and the store that they use.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Visitor, launch } from "./browser.mjs";

export let browser;
/** Sessions of the store, with their checkpoints, newest first: one with hostile names, and one that was rolled back. */
export const store = {};

export const segment = encodeURIComponent;

/** The address of a checkpoint, or of a part of it. */
export function at(id, ...rest) {
  return `#/checkpoint/${[id, ...rest].map(segment).join("/")}`;
}

/** Reads what the store holds now. */
async function look(visitor) {
  const { sessions } = await visitor.get("/v1/sessions");
  for (const session of sessions) {
    const list = await visitor.checkpoints(session.id);
    if (session.name.includes("<")) store.hostile = { ...session, list };
    if (list.some(({ trigger_detail: detail }) => detail === "safety")) store.branched = { ...session, list };
  }
  assert.ok(store.hostile, "no session has HTML in its name");
  assert.ok(store.branched, "no session was rolled back");
}

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/** A test on a page that is signed in. It also fails on anything that the page must never do. */
export function visit(name, body, window) {
  test(name, async () => {
    const visitor = await Visitor.signedIn(browser, window);
    try {
      await look(visitor);
      await body(visitor, visitor.page);
    } finally {
      await visitor.leave();
    }
  });
}
