// Approving and rejecting a checkpoint, with a reason.

import { path, post } from "./api.js";
import { ask, textField, tickField } from "./dialog.js";
import { h, named } from "./dom.js";
import { announce } from "./notices.js";
import { short, whoDecided } from "./text.js";

const VERDICTS = {
  approve: {
    title: "Approve checkpoint",
    about: "The state is good: sessions may go on from it.",
    confirm: "Approve",
    kind: "good",
    status: "approved",
    reason: "Reason (optional)",
  },
  reject: {
    title: "Reject checkpoint",
    about: "Nothing goes on from this state. Newer checkpoints that build on it wait for a review.",
    confirm: "Reject",
    kind: "danger",
    status: "rejected",
    reason: "Reason",
  },
};

/**
 * Asks for the reason of a decision, and records it.
 * @param {any} manifest
 * @param {"approve" | "reject"} verdict
 * @param {() => Promise<void>} done
 */
export function decide(manifest, verdict, done) {
  const { title, about, confirm, kind, status, reason } = VERDICTS[verdict];
  const before = manifest.approval;
  const isDecided = Boolean(before?.user) && before.status !== status;
  const change = tickField({
    id: "change",
    label: "Replace the earlier decision",
    hint: "Without this, the first decision of a person stays.",
  });
  change.hidden = !isDecided;
  ask({
    title: `${title} ${short(manifest.id)}`,
    body: [
      manifest.message && h("p", { class: "quote" }, named(manifest.message)),
      h("p", {}, about),
      isDecided &&
        h("p", {}, "It was ", before.status, " by ", named(whoDecided(before)), before.reason && [": ", named(before.reason)], "."),
      textField({
        id: "reason",
        label: reason,
        hint: "It is kept with the decision, for whoever looks at it later.",
        required: verdict === "reject",
      }),
      change,
    ],
    confirm,
    kind,
    act: async (form) => {
      const body = { reason: form.elements.reason.value.trim() || null, change: form.elements.change.checked };
      let answer;
      try {
        answer = await post(path("v1", "checkpoints", manifest.id, verdict), body);
      } catch (problem) {
        // Another decision may exist by now: offer to replace it.
        if (problem.status === 409) change.hidden = false;
        throw problem;
      }
      await done();
      const said = `Checkpoint ${short(manifest.id)} is ${answer.approval.status}`;
      announce(answer.recorded ? said : `${said}, as somebody had decided before`);
    },
  });
}
