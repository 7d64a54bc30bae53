// The sign-in form. The token is sent nowhere, and kept nowhere: this browser gets a key of its own.

import { signIn } from "./api.js";
import { h } from "./dom.js";

/**
 * @param {() => Promise<void>} done
 * @returns {import("./app.js").View}
 */
export function showSignIn(done) {
  const alert = h("div", { id: "token-problem", class: "dialog-alert", role: "alert" });
  const input = h("input", {
    id: "token",
    type: "password",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "token-hint token-problem",
  });
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    alert.replaceChildren();
    input.removeAttribute("aria-invalid");
    try {
      // A token has no other characters; pasted ones may come with spaces.
      await signIn(input.value.replace(/[^\x21-\x7e]/g, ""));
      input.value = "";
      await done();
    } catch (problem) {
      alert.replaceChildren(h("p", {}, problem instanceof Error ? problem.message : String(problem)));
      input.setAttribute("aria-invalid", "true");
      input.select();
      input.focus();
    } finally {
      button.removeAttribute("aria-busy");
    }
  };
  const element = h(
    "div",
    { class: "sign-in" },
    h("h1", { tabindex: "-1" }, "Sign in"),
    h(
      "form",
      { onsubmit: submit },
      h("p", { class: "field" }, h("label", { for: "token" }, "Token"), input),
      h("p", { id: "token-hint", class: "hint" }, "The service prints the file that holds it when it starts."),
      alert,
      h("p", { class: "buttons" }, button),
    ),
  );
  return { title: "Sign in", element };
}
