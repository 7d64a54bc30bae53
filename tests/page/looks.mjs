// Screenshots and checks of all views: light, dark, and at phone width.

import { audit, isHeaded } from "./audit.mjs";
import { LOOKS } from "./browser.mjs";
import { at, segment, store, visit } from "./visit.mjs";

for (const [name, look] of Object.entries(LOOKS)) {
  visit(
    `all views are fit to be seen: ${name}`,
    async (visitor, page) => {
      const { branched, hostile } = store;
      const [newest, oldest] = [branched.list[0], branched.list.at(-1)];
      const talked = branched.list.find(({ conversation }) => conversation) ?? newest;
      const views = {
        sessions: "#/",
        new: "#/new",
        session: `#/session/${segment(branched.id)}`,
        checkpoint: at(newest.id),
        files: at(hostile.list[0].id, "files"),
        file: at(hostile.list[0].id, "file", "javascript:alert(1)"),
        conversation: at(talked.id, "conversation"),
        environment: at(newest.id, "environment"),
        plan: at(oldest.id, "rollback"),
        diff: `#/diff/${oldest.id}/${newest.id}`,
        "diff-conversation": `#/diff/${oldest.id}/${newest.id}/conversation`,
        "diff-environment": `#/diff/${oldest.id}/${newest.id}/environment`,
        search: "#/search?q=alert",
        undo: `#/undo/${segment(branched.id)}`,
      };
      for (const [view, hash] of Object.entries(views)) {
        await visitor.open(hash);
        if (view !== "sessions") await isHeaded(page, view);
        const all = page.getByRole("button", { name: /^Open (all|the first)/ });
        if (await all.count()) {
          await all.click();
          await page.locator(".change-body[aria-busy]").first().waitFor({ state: "detached" });
        }
        await visitor.shot(`${name}-${view}`);
        await audit(page, `${name} ${view}`);
      }
    },
    look,
  );
}
