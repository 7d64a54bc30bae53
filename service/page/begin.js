// The form that begins a session.

import { allSessions, get, post } from "./api.js";
import { textField, tickField } from "./dialog.js";
import { flat, h, prose } from "./dom.js";
import { announce, showWarnings } from "./notices.js";

/** The choice of a command line that begins with no known agent. */
const ANOTHER = "";

/**
 * The words of a command line, split at spaces. Quotes and backslashes keep spaces in a word, as in a shell; nothing is expanded.
 * @param {string} text
 * @returns {string[]}
 */
export function wordsOf(text) {
  const words = [];
  let word = null;
  let quote = null;
  for (let i = 0; i < text.length; i += 1) {
    const character = text[i];
    if (character === "\\" && quote !== "'") {
      i += 1;
      if (i === text.length) throw new Error("the command line ends with a backslash");
      // Between double quotes, a backslash stands before few characters only.
      word = (word ?? "") + (quote && !'"\\$`'.includes(text[i]) ? "\\" : "") + text[i];
    } else if (character === quote) {
      quote = null;
    } else if (!quote && (character === '"' || character === "'")) {
      quote = character;
      word ??= "";
    } else if (!quote && /\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + character;
    }
  }
  if (quote) throw new Error(`a quote (${quote}) of the command line is not closed`);
  if (word !== null) words.push(word);
  return words;
}

/** Folders of sessions, the one of the newest change first. Those that would be shown in other characters are left out. */
function foldersOf(sessions) {
  const folders = sessions.map((session) => session.workspace?.path).filter((path) => path && flat(path) === path);
  return [...new Set(folders)];
}

/** A field of one line. */
function lineField({ id, label, hint, ...attributes }) {
  const input = h("input", {
    id,
    name: id,
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": hint ? `${id}-hint` : null,
    ...attributes,
  });
  return [input, h("p", { class: "field" }, h("label", { for: id }, label), input, hint && h("span", { id: `${id}-hint`, class: "hint" }, hint))];
}

/** @returns {Promise<import("./app.js").View>} */
export async function showBegin() {
  const [{ agents }, { sessions }] = await Promise.all([get("/v1/agents"), allSessions()]);
  const installed = agents.filter((agent) => agent.installed);
  const [command, commandField] = lineField({
    id: "begin-command",
    label: "Command line",
    hint: "It is split into words as by a shell, and run without one.",
    required: true,
    value: installed[0]?.program,
  });
  const [folder, folderField] = lineField({
    id: "begin-folder",
    label: "Folder",
    hint: "An absolute path on the machine of the service. Folders of known sessions are suggested.",
    required: true,
    list: "begin-folders",
  });
  const [name, nameField] = lineField({ id: "begin-name", label: "Name (optional)", hint: "Without one, that of the folder." });
  const choice = h(
    "select",
    {
      id: "begin-agent",
      onchange: () => {
        command.value = choice.value;
        if (choice.value === ANOTHER) command.focus();
      },
    },
    installed.map(({ title, program }) => h("option", { value: program }, title)),
    h("option", { value: ANOTHER }, "Another command"),
  );
  const beside = tickField({
    id: "begin-beside",
    label: "Begin it beside the other one",
    hint: "Two agents in one folder change each other's files.",
  });
  beside.hidden = true;
  const alert = h("div", { class: "dialog-alert", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Start the agent");
  const body = () => ({
    command: wordsOf(command.value),
    workspace: folder.value.trim(),
    name: name.value.trim() || null,
    prompt: form.elements["begin-prompt"].value.trim() || null,
    beside: form.elements["begin-beside"].checked,
  });
  const submit = async (event) => {
    event.preventDefault();
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    alert.replaceChildren();
    try {
      const { session, warnings } = await post("/v1/sessions", body());
      // The view that follows clears older messages first.
      window.addEventListener("hashchange", () => showWarnings(warnings), { once: true });
      announce("The session has begun");
      location.hash = `#/session/${encodeURIComponent(session.id)}`;
    } catch (problem) {
      if (problem.status === 409) beside.hidden = false;
      alert.replaceChildren(h("p", {}, prose(problem instanceof Error ? problem.message : problem)));
    } finally {
      button.removeAttribute("aria-busy");
    }
  };
  const form = h(
    "form",
    { class: "begin", onsubmit: submit },
    h("p", { class: "field" }, h("label", { for: "begin-agent" }, "Agent"), choice),
    commandField,
    folderField,
    h("datalist", { id: "begin-folders" }, foldersOf(sessions).map((path) => h("option", { value: path }))),
    nameField,
    textField({ id: "begin-prompt", label: "First prompt (optional)", hint: "Other users of that machine can read it while the agent runs." }),
    beside,
    alert,
    h("p", { class: "buttons" }, button, h("a", { class: "button", href: "#/" }, "Cancel")),
  );
  const element = h(
    "div",
    {},
    h("nav", { class: "crumbs", "aria-label": "Path" }, h("a", { href: "#/" }, "Sessions")),
    h("h1", { tabindex: "-1" }, "New session"),
    h("p", { class: "lead" }, "An agent starts in tmux on the machine of the service, as the service's user."),
    form,
  );
  return { title: "New session", element, keys: { u: () => (location.hash = "#/") } };
}
