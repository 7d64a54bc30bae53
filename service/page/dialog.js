// Modal dialogs.

import { h } from "./dom.js";

/**
 * Opens a dialog. It closes on Esc, and the focus returns to where it was.
 * @param {HTMLDialogElement} dialog
 */
export function open(dialog) {
  const before = document.activeElement;
  const beforeId = before?.id;
  dialog.addEventListener("close", () => {
    dialog.remove();
    // The element may have been replaced while the dialog was open.
    const target = before?.isConnected ? before : beforeId && document.getElementById(beforeId);
    (target || document.getElementById("main")).focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * A text area with its label.
 * @param {{id: string, label: string, hint?: string, required?: boolean, rows?: number}} field
 */
export function textField({ id, label, hint, required, rows = 3 }) {
  return h(
    "p",
    { class: "field" },
    h("label", { for: id }, label),
    h("textarea", { id, name: id, rows, required, "aria-describedby": hint ? `${id}-hint` : null }),
    hint && h("span", { id: `${id}-hint`, class: "hint" }, hint),
  );
}

/**
 * A checkbox with its label.
 * @param {{id: string, label: string, hint?: string, checked?: boolean}} field
 */
export function tickField({ id, label, hint, checked }) {
  return h(
    "p",
    { class: "field tick" },
    h("input", { id, name: id, type: "checkbox", checked, "aria-describedby": hint ? `${id}-hint` : null }),
    h("label", { for: id }, label),
    hint && h("span", { id: `${id}-hint`, class: "hint" }, hint),
  );
}

/**
 * Opens a dialog with a form. On submit it runs `act`, and closes if that succeeds; on failure it stays open and shows the problem.
 * @param {{title: string, body: unknown, confirm: string, kind?: string, act: (form: HTMLFormElement) => Promise<void>}} question
 */
export function ask({ title, body, confirm, kind = "primary", act }) {
  const alert = h("div", { class: "dialog-alert", role: "alert" });
  const button = h("button", { type: "submit", class: kind }, confirm);
  const submit = async (event) => {
    event.preventDefault();
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    alert.replaceChildren();
    try {
      await act(form);
      dialog.close();
    } catch (problem) {
      alert.replaceChildren(h("p", {}, problem instanceof Error ? problem.message : String(problem)));
    } finally {
      button.removeAttribute("aria-busy");
    }
  };
  const form = h(
    "form",
    { onsubmit: submit },
    h("h2", { id: "dialog-title" }, title),
    body,
    alert,
    h("p", { class: "buttons" }, button, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel")),
  );
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  open(dialog);
}
